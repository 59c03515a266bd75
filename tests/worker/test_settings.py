"""What a worker can be told, and what it refuses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headway.domain.job import JobState
from headway.domain.validation import check_name
from headway.errors import InvalidName, InvalidOption
from headway.worker.settings import Retention, WorkerSettings, WorkQueue, new_worker_id


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"queues": []}, "at least one queue"),
        ({"queues": "default"}, r"queues is a list of names: write \['default'\]"),
        ({"queues": ["a", "a"]}, "queue 'a' is named twice"),
        ({"queues": {"a": 0}}, "the limit of queue 'a' must be at least 1, not 0"),
        ({"queues": [WorkQueue("a", weight=1), "b"]}, "give every queue a weight, or none"),
        ({"concurrency": 0}, "concurrency must be at least 1, not 0"),
        ({"batch_size": 501}, "batch_size is between 1 and 500, not 501"),
        ({"lease_for": 0}, "lease_for must be longer than 0 seconds, not 0"),
        ({"lease_for": float("nan")}, "lease_for must be longer than 0 seconds"),
        ({"poll_every": -1}, "poll_every must be longer than 0 seconds, not -1"),
        ({"reap_every": 0}, "reap_every must be longer than 0 seconds, not 0"),
        ({"grace": -1}, "grace must be 0 seconds or more, not -1"),
        ({"heartbeat_every": 30}, "heartbeat_every must be between 0 and the lease's 30 seconds"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidOption, match=sentence):
        WorkerSettings(**settings)


def test_names_are_checked() -> None:
    with pytest.raises(InvalidName):
        WorkerSettings(queues=[""])
    with pytest.raises(InvalidName):
        WorkerSettings(worker_id="with spaces")
    with pytest.raises(InvalidOption, match="weight of queue 'a' must be above 0"):
        WorkQueue("a", weight=0)
    with pytest.raises(InvalidOption, match="must be 0 seconds or more"):
        Retention(failed=timedelta(days=-1))


def test_queues_may_be_given_in_several_ways() -> None:
    assert WorkerSettings().work_queues() == (WorkQueue("default"),)
    assert WorkerSettings(queues=["a", "b"]).work_queues() == (WorkQueue("a"), WorkQueue("b"))
    limited = WorkerSettings(queues={"a": 3, "b": None}).work_queues()
    assert limited == (WorkQueue("a", 3), WorkQueue("b"))


def test_workers_are_told_apart() -> None:
    assert new_worker_id() != new_worker_id()
    assert check_name("worker id", new_worker_id())


def test_the_heartbeat_comes_three_times_per_lease() -> None:
    assert WorkerSettings(lease_for=30).heartbeat_interval() == 10
    assert WorkerSettings(lease_for=30, heartbeat_every=4).heartbeat_interval() == 4


def test_the_shorter_the_lease_the_more_often_its_end_is_looked_for() -> None:
    assert WorkerSettings(lease_for=2).reap_interval() == 0.2
    assert WorkerSettings(lease_for=30).reap_interval() == 1.0
    assert WorkerSettings(lease_for=2, reap_every=5).reap_interval() == 5


def test_by_default_failed_jobs_are_kept() -> None:
    week = 7 * 24 * 3600
    rules = WorkerSettings().prune_rules()
    assert [(rule.state, rule.older_than) for rule in rules] == [
        (JobState.COMPLETED, week),
        (JobState.CANCELLED, week),
    ]


def test_the_most_particular_retention_counts() -> None:
    never = Retention(completed=None, cancelled=None)
    rules = WorkerSettings(
        retention=Retention(completed=timedelta(hours=1), cancelled=None),
        retention_by_type={"audit": never, "ping": Retention(completed=timedelta(0))},
        retention_by_queue={"bulk": Retention(completed=timedelta(minutes=1), cancelled=None)},
    ).prune_rules()
    completed = [rule for rule in rules if rule.state is JobState.COMPLETED]
    assert [(rule.older_than, rule.types, rule.queues) for rule in completed] == [
        (0, ("ping",), None),
        (60, None, ("bulk",)),
        (3600, None, None),
    ]
    _, of_queue, general = completed
    assert of_queue.except_types == general.except_types == ("audit", "ping")
    assert general.except_queues == ("bulk",)
