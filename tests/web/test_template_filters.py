"""Values as people read them, what is hidden from them, and files that others made."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as some
from markupsafe import Markup

from headway.domain.text import ago, found, number, shortened, span
from headway.domain.views import Count
from headway.web import template_filters
from headway.web.security.redaction import HIDDEN, Redaction

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "-"), (-1, "0 s"), (0.0021, "2.1 ms"), (0.51, "510 ms"), (0.9996, "1 s"),
        (9.94, "9.9 s"), (10, "10 s"), (59.6, "1 m"), (94, "1 m 34 s"), (3_600, "1 h"),
        (11_100, "3 h 5 m"), (90_000, "1 d 1 h"), (86_400 * 400, "400 d"),
    ],
)  # fmt: skip
def test_spans(seconds: float | None, shown: str) -> None:
    assert span(seconds) == shown


def test_moments() -> None:
    assert ago(NOW, NOW) == "now"
    assert ago(NOW - timedelta(minutes=5), NOW) == "5 m ago"
    assert ago(NOW + timedelta(minutes=5), NOW) == "in 5 m"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "now"), (0, "now"), (0.001, "within 1 s"), (1, "within 1 s"), (1.2, "in 2 s"),
        (59.2, "in 1 m"), (61, "in 1 m 1 s"), (3_600, "in 1 h"),
    ],
)  # fmt: skip
def test_countdowns(seconds: float, shown: str) -> None:
    assert template_filters.countdown(seconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "0"), (1204, "1,204"), (Count(1204), "1,204"), (Count(9_999, False), "≈9,999"),
        (Count(47_230, False), "≈47.2 k"), (Count(1_048_576, False), "≈1.05 M"),
        (Count(999_999, False), "≈1 M"), (Count(12_345_678_901, False), "≈12.3 G"),
    ],
)  # fmt: skip
def test_numbers(value: int | Count | None, shown: str) -> None:
    assert number(value) == shown


def test_counts_with_a_bound() -> None:
    assert found(Count(412), 1_000) == "412"
    assert found(Count(1_000, False), 1_000) == "1,000 or more"
    assert found(Count(129_815, False), 1_000) == "about 130 k"


def test_what_hides_or_reorders_is_made_visible() -> None:
    assert (
        template_filters.printed("a\x1b[31m\x07\u202eb\tc\nd") == r"a\x1b[31m\x07\u202eb" + "\tc\nd"
    )
    assert template_filters.printed(Markup("<b>")) == "<b>"
    assert template_filters.printed(None) is None
    shown = str(template_filters.printed("x" * (2**20)))
    assert len(shown) < template_filters.LONGEST_TEXT + 100
    assert shown.endswith("more characters)")


@given(some.text(), some.integers(1, 200))
def test_shortened(given_text: str, length: int) -> None:
    shown = shortened(given_text, length)
    assert len(shown) <= length + 1
    assert "\n" not in shown


@pytest.mark.parametrize(
    "name",
    ["password", "userPassword", "DB_PASSWORD", "api-key", "apiKey", "card_token", "e-mail"],
)
def test_fields_that_are_hidden_wherever_they_are(name: str) -> None:
    redaction = Redaction(["e_mail"])
    payload = {"order": {"lines": [{name: {"a": "hunter2"}, "amount": 7}]}, "note": "kept"}
    found = json.loads(redaction.payload(json.dumps(payload)))
    assert found == {"order": {"lines": [{name: HIDDEN, "amount": 7}]}, "note": "kept"}


def test_what_is_not_hidden_stays_as_it_was() -> None:
    text = '{"order_id":  7, "cents": 1.50, "tags": ["a"]}'
    assert Redaction().payload(text) == text


def test_a_name_written_with_escapes_is_hidden_too() -> None:
    assert "hunter2" not in Redaction().payload('{"pass\\u0077ord": "hunter2"}')


@pytest.mark.parametrize("text", ["password=hunter2", "", "{", "[" * 100_000])
def test_what_has_no_fields_is_hidden_altogether(text: str) -> None:
    assert "hunter2" not in Redaction().payload(text)
    json.loads(Redaction().payload(text))


def test_vendored_files_are_what_they_are_said_to_be() -> None:
    vendor = resources.files("headway.web") / "static" / "vendor"
    told = re.findall(
        r"\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|", (vendor / "README.md").read_text()
    )
    assert len(told) == 3
    for name, sha256 in told:
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == sha256, name
