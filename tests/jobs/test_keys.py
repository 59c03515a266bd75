"""Keys of jobs: given to requests, taken from an argument, inherited by continuations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NewType
from uuid import UUID

import msgspec
import pytest

from headway import After, At, Every, Headway, Job, declare
from headway.domain.job import ClaimedJob
from headway.errors import ConfigurationError, HeadwayError, InvalidName
from headway.jobs.plan import plan_start, plan_successor
from headway.stores.memory import MemoryStore
from headway.testing.conformance.store import kit

ID = UUID("0198c3a1-7a70-7000-8000-000000000001")
TenantId = NewType("TenantId", str)


class Region(StrEnum):
    NORTH = "north"


class Shard(IntEnum):
    FIRST = 1


class Plan(Enum):
    FREE = "free"


@dataclass
class Tenant:
    id: str


@pytest.fixture
def app() -> Headway:
    return Headway("memory://")


def key_of(app: Headway, annotation: Any, value: object) -> str | None:
    async def work(count: int, tenant: Any) -> None: ...

    work.__annotations__["tenant"] = annotation
    work.__annotations__["count"] = int
    work.__annotations__["return"] = None
    type = app.job(key="tenant")(work)
    by_position = type.request(1, value).options.key
    assert type.request(count=1, tenant=value).options.key == by_position
    return by_position


@pytest.mark.parametrize(
    ("annotation", "value", "key"),
    [
        (str, "tenant-7", "tenant-7"),
        (str, "7 ü ☃", "7 ü ☃"),
        (int, 7, "7"),
        (int, -7, "-7"),
        (UUID, ID, str(ID)),
        (Region, Region.NORTH, "north"),
        (Shard, Shard.FIRST, "1"),
        (Plan, Plan.FREE, "free"),
        (str | None, None, None),
        (str | None, "x", "x"),
        (int | str, 5, "5"),
        (Annotated[str, msgspec.Meta(max_length=9)], "x", "x"),
        (Literal["a", "b"], "b", "b"),
        (TenantId, TenantId("x"), "x"),
    ],
    ids=str,
)
def test_the_value_of_an_argument_is_the_key(
    app: Headway, annotation: Any, value: object, key: str | None
) -> None:
    assert key_of(app, annotation, value) == key


@pytest.mark.parametrize(
    "annotation", [float, bool, bytes, list[str], Tenant, str | float, bool | None, Any]
)
def test_an_argument_of_another_kind_is_no_key(app: Headway, annotation: Any) -> None:
    with pytest.raises(ConfigurationError, match="argument 'tenant' of job type 'work' cannot"):
        key_of(app, annotation, None)


@pytest.mark.parametrize("name", ["tenant", "", "job", 7, True, ["tenant_id"]])
def test_the_key_is_the_name_of_an_argument(app: Headway, name: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"key= of job type 'work' .* \(tenant_id, count\), not"
    ):

        @app.job(key=name)
        async def work(job: Job, tenant_id: str, count: int = 1) -> None: ...

    assert "work" not in app.registry


def test_a_job_type_without_arguments_has_no_key(app: Headway) -> None:
    with pytest.raises(ConfigurationError, match=r"arguments \(none\), not 'tenant_id'"):

        @app.job(key="tenant_id")
        async def work() -> None: ...


def test_the_one_argument_of_a_declared_type_has_no_name() -> None:
    with pytest.raises(HeadwayError, match="key"):
        declare("work", input=str, output=str, key="tenant_id")  # type: ignore[call-arg]


def test_a_default_value_is_a_key(app: Headway) -> None:
    @app.job(key="region")
    async def work(count: int = 1, *, region: Region = Region.NORTH) -> None: ...

    @app.job(key="tenant")
    async def other(tenant: str | None = None) -> None: ...

    assert work.request().options.key == "north"
    assert work.request(2).options.key == "north"
    assert other.request().options.key is None
    assert other.request("x").options.key == "x"


@pytest.mark.parametrize(
    ("value", "said"),
    [("", "must not be empty"), ("x" * 501, "at most 500 characters")],
    ids=["empty", "long"],
)
def test_a_value_that_is_no_key_is_refused_with_the_name_of_its_argument(
    app: Headway, value: str, said: str
) -> None:
    @app.job(key="tenant_id")
    async def work(tenant_id: str) -> None: ...

    with pytest.raises(InvalidName, match=f"argument 'tenant_id' of job type 'work' .*{said}"):
        work.request(value)


REFUSED: dict[str, tuple[object, str]] = {
    "empty": ("", "a key must not be empty"),
    "long": ("x" * 501, "a key has at most 500 characters; this one has 501"),
    "NUL": ("a\0", "must not hold NUL"),
    "number": (7, "a key must be a string, not int"),
    "UUID": (ID, "a key must be a string, not UUID"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_bad_key_of_a_request_is_refused(app: Headway, name: str) -> None:
    key, said = REFUSED[name]

    @app.job
    async def work() -> None: ...

    with pytest.raises(InvalidName, match=said):
        work.request().using(key=key)  # type: ignore[arg-type]
    async with app:
        with pytest.raises(InvalidName, match=said):
            await app.start(work.request(), key=key)  # type: ignore[arg-type]
        assert await app.store.run(app.store.counts) == []


def test_a_request_has_its_own_key(app: Headway) -> None:
    @app.job(key="tenant_id")
    async def work(tenant_id: str) -> None: ...

    assert work.request("a").using(key="b").options.key == "b"
    assert work.request("a").using(key=None).options.key is None
    assert work.request("a").using(priority=5).options.key == "a"
    assert work.request("b").options.key == "b"
    plan = plan_start([work.request("a"), work.request("b")], {"key": "c"})
    assert [job.key for job in plan.jobs] == ["c", "c"]


def test_presets_can_name_the_key(app: Headway) -> None:
    job = app.job(key="tenant_id", queue="slow")

    @job
    async def work(tenant_id: str) -> None: ...

    @job(key="account")
    async def other(tenant_id: str, account: int) -> None: ...

    assert work.request("a").options.key == "a"
    assert other.request("a", 5).options.key == "5"


def test_a_blocker_has_its_own_key(app: Headway) -> None:
    @app.job(key="tenant_id")
    async def first(tenant_id: str) -> str:
        return ""

    @app.job
    async def then(job: Job[str]) -> None: ...

    plan = plan_start([then.request().using(blockers=(first.request("a"),), key="b")])
    assert [(job.type, job.key) for job in plan.jobs] == [("first", "a"), ("then", "b")]


@pytest.fixture
async def parent() -> ClaimedJob:
    store = MemoryStore()
    await store.open()
    return await kit.running(store, key="a")


def test_a_continuation_has_the_key_of_its_job_unless_it_has_its_own(
    app: Headway, parent: ClaimedJob
) -> None:
    @app.job(entry=False)
    async def plain() -> None: ...

    @app.job(key="tenant_id")
    async def keyed(tenant_id: str | None) -> None: ...

    assert plan_successor(plain.request(), parent).successor.key == "a"
    assert plan_successor(plain.request().using(key="b"), parent).successor.key == "b"
    assert plan_successor(keyed.request("c"), parent).successor.key == "c"
    assert plan_successor(keyed.request(None), parent).successor.key == "a"


async def test_a_schedule_gives_its_jobs_the_key_of_its_request(app: Headway) -> None:
    @app.job(key="tenant_id")
    async def work(tenant_id: str) -> None: ...

    app.schedule("one", Every(hours=1), work.request("a"))
    app.schedule("two", Every(hours=1), work.request("a").using(key="b"))
    declared = app.registry.schedules()
    assert [declared[name].job.key for name in ("one", "two")] == ["a", "b"]
    async with app:
        record = await app.schedules.put("three", Every(hours=1), work.request("c"))
        assert record.definition.job.key == "c"
        sequence = await app.schedules.trigger("three")
        assert (await kit.read(app.store, sequence.id)).key == "c"


# job.key, job.spent and job.hold


class Spending:
    """What a job's handler is given, without a worker."""

    def __init__(self, claimed: ClaimedJob) -> None:
        self.claimed = claimed
        self.weights: list[int] = []

    def spend(self, weight: int) -> None:
        self.weights.append(weight)


BAD_WEIGHTS: dict[str, tuple[object, str]] = {
    "negative": (-1, "between 0 and 1,000,000,000, not -1"),
    "large": (10**10, "between 0 and 1,000,000,000"),
    "fraction": (1.5, "must be a whole number, not float"),
    "bool": (True, "must be a whole number, not bool"),
    "text": ("5", "must be a whole number, not str"),
}


def job_of(claimed: ClaimedJob) -> tuple[Job, Spending]:
    attempt = Spending(claimed)
    job = object.__new__(Job)
    job._attempt = attempt  # type: ignore[attr-defined]
    return job, attempt


@pytest.mark.parametrize("name", BAD_WEIGHTS)
def test_a_bad_weight_is_refused(parent: ClaimedJob, name: str) -> None:
    weight, said = BAD_WEIGHTS[name]
    job, attempt = job_of(parent)
    with pytest.raises(HeadwayError, match=said):
        job.spent(weight)  # type: ignore[arg-type]
    assert attempt.weights == []


def test_weights_are_counted(parent: ClaimedJob) -> None:
    job, attempt = job_of(parent)
    job.spent(0)
    job.spent(1_532)
    assert attempt.weights == [0, 1_532]
    assert job.key == "a"


HOLDS: dict[str, Callable[[Job], object]] = {
    "number": lambda job: job.hold(20),  # type: ignore[arg-type]
    "text": lambda job: job.hold("20s"),  # type: ignore[arg-type]
    "None": lambda job: job.hold(None),  # type: ignore[arg-type]
    "class": lambda job: job.hold(After),  # type: ignore[arg-type]
    "another class": lambda job: job.hold(At),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", HOLDS)
def test_a_hold_needs_a_time(parent: ClaimedJob, name: str) -> None:
    job, _ = job_of(parent)
    with pytest.raises(HeadwayError, match=r"job.hold\(\) takes At\(...\) or After\(...\), not"):
        HOLDS[name](job)


def test_a_job_without_a_key_cannot_hold_it(parent: ClaimedJob) -> None:
    job, _ = job_of(msgspec.structs.replace(parent, key=None))
    with pytest.raises(HeadwayError, match="holds the jobs of this job's key, and it has none"):
        job.hold(After(seconds=5), key=True)


async def test_start_many_and_schedules_take_a_key() -> None:
    app = Headway("memory://")

    @app.job
    async def send(n: int) -> None: ...

    app.schedule("daily", Every(days=1), send.request(0), key="tenant-7")
    assert app.registry.schedules()["daily"].job.key == "tenant-7"
    async with app:
        started = await app.start_many([send.request(1), send.request(2)], key="tenant-8")
        jobs = [await app.get(each) for each in started]
        await app.schedules.put("hourly", Every(hours=1), send.request(0), key="tenant-9")
        put = await app.schedules.get("hourly")
    assert [job.key for job in jobs] == ["tenant-8"] * 2
    assert put.definition.job.key == "tenant-9"
