"""Classes are shown and stored under the names that users import."""

from __future__ import annotations

import copy
import pickle
import traceback
from typing import Any, get_type_hints

import msgspec
import pydantic
import pytest

import headway
import headway.records
from headway import Backoff, Dedup, Fixed, Headway, JobState, Unrecoverable, WorkerSettings, errors
from headway.domain.views import ShownState
from headway.errors import HeadwayError, InvalidPayload
from headway.records import JobRecord, Overview

PUBLIC = [
    (module, name)
    for module in (headway, headway.records)
    for name in module.__all__
    if name != "Failure"  # of headway.errors
]


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=[name for _, name in PUBLIC])
def test_a_public_class_names_the_module_that_it_is_imported_from(module: Any, name: str) -> None:
    public = getattr(module, name)
    assert f"{public.__module__}.{public.__qualname__}" == f"{module.__name__}.{name}"
    assert pickle.loads(pickle.dumps(public)) is public


def test_every_error_is_one_of_headway_errors_or_headway_itself() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    found = [each for each in kinds if issubclass(each, HeadwayError)]
    assert len(found) > 20
    others = [each for each in found if each.__module__ != "headway.errors"]
    assert others == [Unrecoverable]


def test_values_keep_their_types() -> None:
    assert pickle.loads(pickle.dumps(JobState.FAILED)) is JobState.FAILED
    assert msgspec.json.decode(b'{"key":"k","window":"P1D"}', type=Dedup).key == "k"
    assert get_type_hints(WorkerSettings)["grace"] is float
    assert msgspec.convert({"seconds": 2}, Fixed) == Fixed(2.0)
    assert get_type_hints(JobRecord)["state"] is JobState
    assert ShownState in get_type_hints(Overview)["states"].__args__


def test_the_fields_of_dataclasses_can_be_read_by_other_libraries() -> None:
    assert pydantic.TypeAdapter(Backoff).validate_python({"base": "2"}) == Backoff(base=2.0)


async def test_failures_are_stored_under_public_names() -> None:
    app = Headway("memory://")

    @app.job
    async def charge(order_id: int) -> None:
        raise Unrecoverable("no")

    async with app:
        charged = await app.start(charge.request(1))
        await app.worker().run(drain=True)
        failure = (await app.get(charged)).failure
    assert failure is not None
    assert failure.type == "headway.Unrecoverable"
    assert failure.traceback.splitlines()[-1] == "headway.Unrecoverable: no"
    assert traceback.format_exception_only(InvalidPayload("x")) == [
        "headway.errors.InvalidPayload: x\n"
    ]


ERRORS = [
    errors.UnknownJobType("chrage", "charge"),
    errors.AmbiguousId("9a8057", ["one", "two"], searched=None),
    errors.JobNotFound("9a8057"),
    errors.ResultTimeout("one", 5.0, "running"),
    errors.ResultFailed("one", "two", "charge", errors.Failure("ValueError", "no")),
    errors.StoreRefused("the database", "no password", "give one"),
    errors.Unrecoverable("no such card"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_cross_processes(error: HeadwayError) -> None:
    """As from a pool of processes, which breaks at one that cannot be made again."""
    error.add_note("in the shop")
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is type(error)
        assert str(same) == str(error)
        assert vars(same) == vars(error)
