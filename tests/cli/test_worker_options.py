"""What the options of `headway worker` mean."""

from __future__ import annotations

from datetime import timedelta

import click
import pytest

from headway import Retention, WorkQueue
from headway.cli.commands.worker import parse_queues, parse_retention


@pytest.mark.parametrize(
    ("queues", "weights", "lanes"),
    [
        (None, None, None),
        ("a,b", None, [WorkQueue("a"), WorkQueue("b")]),
        ("a=5,b", None, [WorkQueue("a", 5), WorkQueue("b")]),
        (None, "a=3,b=1", [WorkQueue("a", None, 3.0), WorkQueue("b", None, 1.0)]),
        ("b=2,a", "a=3,b=0.5", [WorkQueue("b", 2, 0.5), WorkQueue("a", None, 3.0)]),
    ],
)
def test_queues(queues: str | None, weights: str | None, lanes: list[WorkQueue] | None) -> None:
    assert parse_queues(queues, weights) == lanes


@pytest.mark.parametrize(
    ("queues", "weights", "sentence"),
    [
        ("a=x", None, "the limit of queue 'a' is a number, not 'x'"),
        ("a=0", None, "at least 1"),
        (",", None, "name at least one queue"),
        ("a,a", None, "names 'a' twice"),
        ("a", "b=1", "--weights names 'b', which --queues does not"),
        ("a", "a=heavy", "the weight of queue 'a' is a number"),
        ("a", "a=0", "must be above 0"),
        ("not a name", None, "is not allowed"),
    ],
)
def test_wrong_queues(queues: str, weights: str | None, sentence: str) -> None:
    with pytest.raises(click.UsageError, match=sentence):
        parse_queues(queues, weights)


def test_retention() -> None:
    usual = Retention()
    kept = parse_retention("completed=1d,failed=90d")
    assert kept == Retention(
        completed=timedelta(days=1), failed=timedelta(days=90), cancelled=usual.cancelled
    )
    assert parse_retention("completed=forever").completed is None
    with pytest.raises(click.UsageError, match="'running' is none of completed"):
        parse_retention("running=1d")
    with pytest.raises(click.BadParameter, match="is not a duration"):
        parse_retention("completed=soon")
