"""Filters as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headway.domain.failure import encode_failure
from headway.domain.filters import (
    MAX_AGE,
    JobText,
    error_needles,
    input_needles,
    matches,
    matches_text,
    parse_filter,
    render_filter,
    word_needles,
)
from headway.domain.job import JobRecord, JobState
from headway.domain.queries import ANY_AGE, Age, ArgumentFilter, JobFilter
from headway.errors import Failure, InvalidOption

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
OTHER_ID = "01890a5d-ac96-774b-bcce-b302099a8058"


def job_text(**fields: Any) -> JobText:
    plain = {
        "id": ID,
        "type": "charge",
        "queue": "default",
        "worker": None,
        "dedup_key": None,
        "key": None,
        "input": "",
        "last_error": None,
    }
    return JobText(**plain | fields)


storable = st.text(
    st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=30
)
paths = st.from_regex(r'[^\s:"\0]{1,20}', fullmatch=True).filter(
    lambda path: not any("\ud800" <= char <= "\udfff" for char in path)
)
ages = st.builds(
    Age,
    under=st.none() | st.floats(0, MAX_AGE) | st.integers(0, 10**6).map(float),
    over=st.none() | st.floats(0, MAX_AGE),
)


def several(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, max_size=3, unique=True).map(tuple)


@st.composite
def filters(draw: st.DrawFn) -> JobFilter:
    states = draw(several(st.sampled_from(JobState)))
    return JobFilter(
        states=states,
        due=draw(st.sampled_from([None, True, False])) if JobState.PENDING in states else None,
        types=draw(several(st.from_regex(r"[a-z]{1,9}\*?", fullmatch=True))),
        queues=draw(several(storable)),
        ids=draw(several(st.uuids().map(str))),
        sequence_id=draw(st.none() | st.uuids().map(str)),
        root_id=draw(st.none() | st.uuids().map(str)),
        workers=draw(several(storable)),
        keys=draw(several(storable)),
        dedup_keys=draw(several(storable)),
        schedules=draw(several(storable)),
        fingerprints=draw(several(st.from_regex(r"[0-9a-f]{1,12}", fullmatch=True))),
        arguments=draw(several(st.builds(ArgumentFilter, paths, st.just("") | storable))),
        errors=draw(several(storable)),
        words=draw(several(storable)),
        created=draw(ages),
        finished=draw(ages),
    )


@given(filters())
def test_what_is_rendered_is_read_back(which: JobFilter) -> None:
    text = render_filter(which)
    assert parse_filter(text) == which
    assert render_filter(parse_filter(text)) == text


@given(st.text() | st.from_regex(r'((state|type|id|created|args\.\w*|\w+):"?[\w<>"\\]*"? ?)*'))
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    said = ""
    try:
        which = parse_filter(text)
    except InvalidOption as error:
        said = str(error)
    else:
        assert parse_filter(render_filter(which)) == which
    assert "\n" not in said
    assert len(said) < 400


def test_the_same_key_is_or_and_others_are_and() -> None:
    assert parse_filter(
        f"state:failed state:cancelled type:charge type:mail.* queue:mail id:{ID} sequence:{ID} "
        f"root:{ID} worker:host-17 key:tenant-7 dedup:order-7 schedule:vat args.order_id:7 "
        "error:Timeout fingerprint:ab12 created:<1h finished:>2d"
    ) == JobFilter(
        states=(JobState.FAILED, JobState.CANCELLED),
        types=("charge", "mail.*"),
        queues=("mail",),
        ids=(ID,),
        sequence_id=ID,
        root_id=ID,
        workers=("host-17",),
        keys=("tenant-7",),
        dedup_keys=("order-7",),
        schedules=("vat",),
        arguments=(ArgumentFilter("order_id", "7"),),
        errors=("Timeout",),
        fingerprints=("ab12",),
        created=Age(under=3_600.0),
        finished=Age(over=172_800.0),
    )


@pytest.mark.parametrize(
    ("text", "states", "due"),
    [
        ("state:pending", (JobState.PENDING,), True),
        ("state:scheduled", (JobState.PENDING,), False),
        ("state:scheduled state:pending", (JobState.PENDING,), None),
        ("state:failed state:scheduled", (JobState.FAILED, JobState.PENDING), False),
        ("state:failed", (JobState.FAILED,), None),
    ],
)
def test_scheduled_is_a_pending_job_that_is_not_due(
    text: str, states: tuple[JobState, ...], due: bool | None
) -> None:
    which = parse_filter(text)
    assert (which.states, which.due) == (states, due)


def test_a_value_alone_is_any_text() -> None:
    which = parse_filter('charge state:failed "timed out" 099a8057 charge "a:b" ""')
    assert which.words == ("charge", "timed out", "099a8057", "a:b")
    assert which.states == (JobState.FAILED,)


def test_ids_may_be_given_by_their_endings() -> None:
    which = parse_filter(f"id:…{ID[-8:].upper()} id:bcceb302099a8057 id:{ID} sequence:8057")
    assert which.ids == ("099a8057", "bcce-b302099a8057", ID)
    assert which.sequence_id == "8057"


def test_quotes_hold_spaces_and_quotes() -> None:
    which = parse_filter(r'  args.city:"New York"   key:"say \"hi\" \\o/" error:a:b ')
    assert which.arguments == (ArgumentFilter("city", "New York"),)
    assert which.keys == (r'say "hi" \o/',)
    assert which.errors == ("a:b",)


def test_nothing_matches_everything() -> None:
    assert parse_filter("") == parse_filter(" \t\n") == JobFilter()
    assert render_filter(JobFilter()) == ""


@pytest.mark.parametrize("age", ["<90s", "<1m30s", "<1.5m"])
def test_an_age_can_be_written_in_several_ways(age: str) -> None:
    assert parse_filter(f"created:{age}").created == Age(under=90.0)
    assert render_filter(JobFilter(created=Age(under=90.0))) == "created:<90s"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"open', "'\"open' is no word of a filter"),
        ('key:"open', "'key:\"open' is no word"),
        ("colour:red", "no key 'colour'; there are state, type, queue"),
        ("state:dead", "no state 'dead' to filter by; there are blocked, scheduled"),
        ("state:", "needs a value, as in state:failed"),
        ('error:""', "needs a value"),
        ("schedule:", "needs a value, as in schedule:vat"),
        ("id:7", "'7' is too short"),
        ("https://x", "text with a colon in it needs quotes"),
        ("root:x", "'x' is not an id"),
        (f"root:{ID} root:{OTHER_ID}", "root: can be given once"),
        ("type:a*b", "'a\\*b' has a \\* that is not at its end"),
        ("fingerprint:xyz", "'xyz' is not a fingerprint"),
        ("created:1h", "'1h' is not an age; write created:<1h"),
        ("created:<1y", "'<1y' is not an age"),
        ("finished:<1h finished:<2h", "finished:< can be given once"),
        ("created:>200000d", "a hundred years"),
        ("args.:7", "args. names no argument"),
        ('key:"a\0b"', "must not hold NUL"),
        ("key:\ud800", "unpaired surrogate"),
        ("x" * 5_000, "at most 4000 characters"),
        ("state:failed " * 200, "at most 100 words"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        parse_filter(text)


NOW = datetime(2030, 1, 1, tzinfo=UTC)


def record(**fields: Any) -> JobRecord:
    given: dict[str, Any] = dict.fromkeys(JobRecord.__struct_fields__) | {
        "id": ID,
        "type": "charge",
        "queue": "money",
        "state": JobState.PENDING,
        "input": "{}",
        "run_at": NOW,
        "created_at": NOW,
    }
    return JobRecord(**given | fields)


def test_a_job_is_of_an_age_from_its_second_on() -> None:
    job = record(created_at=NOW - timedelta(seconds=60))
    assert matches(JobFilter(created=Age(over=60)), job, NOW)
    assert not matches(JobFilter(created=Age(under=60)), job, NOW)
    assert not matches(JobFilter(finished=Age(under=60)), job, NOW)
    assert matches(JobFilter(finished=ANY_AGE), job, NOW)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(paths.filter(lambda path: "." not in path), json_values, max_size=3))
def test_every_argument_is_found_where_it_stands(arguments: dict[str, Any]) -> None:
    text = msgspec.json.encode(arguments).decode()
    for name, value in arguments.items():
        said = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        which = JobFilter(arguments=(ArgumentFilter(name, said),))
        assert matches_text(which, job_text(input=text))
        assert all(needle in text for needle in input_needles(which))
        other = JobFilter(arguments=(ArgumentFilter(name, f"{said}?"),))
        assert not matches_text(other, job_text(input=text))


@given(storable, storable)
@example("error", "err")
@example("7", "7")
@example("a: b", "e: a")
@example("a/b", "a/b")
def test_needles_of_words_are_in_what_matches(text: str, word: str) -> None:
    which = JobFilter(words=(word,))
    arguments = msgspec.json.encode({"x": [text, {"y": word}]}).decode()
    for job in (
        job_text(input=arguments),
        job_text(type=text),
        job_text(dedup_key=text),
        job_text(key=text),
        job_text(last_error=encode_failure(Failure("ValueError", text))),
        job_text(last_error=text),
    ):
        keys = (job.dedup_key or "", job.key or "")
        stored = (job.id, job.type, job.queue, *keys, job.last_error or "")
        if matches_text(which, job):
            for needle, value in word_needles(which):
                assert any(needle.lower() in each.lower() for each in stored) or value in job.input
    assert matches_text(which, job_text(input=arguments))


@given(storable, storable)
@example("0", " ")
@example("boom", " boom")
@example("boom", "error")
def test_needles_are_in_what_matches(message: str, part: str) -> None:
    which = JobFilter(errors=(part,))
    needles = error_needles(which)
    for error in (encode_failure(Failure("ValueError", message)), message):
        if matches_text(which, job_text(last_error=error)):
            assert not needles or any(needle in error.lower() for needle in needles)
