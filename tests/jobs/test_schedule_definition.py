"""Declaring schedules: the two ways, and requests and options that are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, cast

import pytest

from headway import After, CatchUp, Dedup, Every, Headway, Job
from headway.domain.schedules.schedule import decode_definition
from headway.errors import (
    ConfigurationError,
    InvalidName,
    InvalidOption,
    InvalidRequest,
    ScheduleNotFound,
)
from headway.jobs.ids import new_id

HOURLY = Every(hours=1)


class Reports:
    def __init__(self) -> None:
        self.app = app = Headway("memory://")

        @app.job(queue="reports", priority=3, max_attempts=2, max_losses=4, timeout=60)
        async def report(name: str) -> None: ...

        @app.job
        async def tidy() -> None: ...

        @app.job
        async def collect(job: Job[None]) -> None: ...

        @app.job
        async def collect_all(job: Job[*tuple[None, ...]]) -> None: ...

        @app.job(entry=False)
        async def finish() -> None: ...

        self.report, self.tidy, self.finish = report, tidy, finish
        self.collect, self.collect_all = collect, collect_all

    def refused(self, request: Any, **options: Any) -> str:
        """What is said of a declaration, and of a put, which are refused."""
        with pytest.raises(InvalidRequest) as declared:
            self.app.schedule("name", HOURLY, request, **options)
        assert not self.app.registry.schedules()
        with pytest.raises(InvalidRequest) as put:
            self.app.sync.schedules.put("name", HOURLY, request, **options)
        with pytest.raises(ScheduleNotFound):
            self.app.sync.schedules.get("name")
        assert str(declared.value) == _as_declared(str(put.value))
        return str(declared.value)


def _as_declared(said: str) -> str:
    """What is said of a put, in the words of a declaration."""
    said = said.replace("app.schedules.put(", "app.schedule(")
    return said.replace("put takes", "schedule takes")


@pytest.fixture
def reports() -> Iterator[Reports]:
    reports = Reports()
    yield reports
    reports.app.sync.close()


def test_the_job_of_a_schedule_has_the_options_of_its_request(reports: Reports) -> None:
    app = reports.app
    catch_up = CatchUp.all(days=1)
    request = reports.report.request("vat").using(queue="slow")
    app.schedule(
        "vat", HOURLY, request, overlap="cancel", catch_up=catch_up, jitter=timedelta(seconds=30)
    )
    vat = app.registry.schedules()["vat"]
    assert (vat.timetable, vat.overlap, vat.catch_up, vat.jitter) == (
        HOURLY,
        "cancel",
        catch_up,
        30.0,
    )
    job = vat.job
    assert (job.type, job.input, job.queue) == ("report", '{"name":"vat"}', "slow")
    assert (job.priority, job.max_attempts, job.max_losses, job.timeout) == (3, 2, 4, 60.0)
    assert decode_definition(vat.encode()) == vat
    app.schedule(
        "vat", HOURLY, request, overlap="cancel", catch_up=catch_up, jitter=30
    )  # the same declaration twice is fine


def test_a_job_type_with_a_schedule(reports: Reports) -> None:
    @reports.app.job(schedule=HOURLY, queue="slow")
    async def hourly(job: Job, note: str = "none") -> None: ...

    declared = reports.app.registry.schedules()["hourly"]
    assert (declared.timetable, declared.overlap, declared.jitter) == (HOURLY, "skip", 0.0)
    assert declared.catch_up == CatchUp.latest(hours=1)
    assert (declared.job.type, declared.job.input, declared.job.queue) == (
        "hourly",
        "{}",
        "slow",
    )


def test_a_job_type_that_a_schedule_cannot_start_is_refused_and_not_registered(
    reports: Reports,
) -> None:
    app = reports.app
    job = cast("Callable[..., Any]", app.job)

    async def named(name: str) -> None: ...

    async def waits(job: Job[None]) -> None: ...

    async def plain() -> None: ...

    for options, function, said in (
        ({}, named, r"has arguments, .* write `app.schedule\('named', .*named.request\(...\)\)`"),
        ({"entry": False}, named, "has entry=False and can only continue a sequence"),
        ({"entry": False}, plain, "has entry=False and can only continue a sequence"),
        ({}, waits, "which waits for blockers"),
        ({"schedule": 5}, plain, "must be made with Cron or Every, not int"),
        (
            {"catch_up": CatchUp.none()},
            plain,
            r"no option 'catch_up': .* write `app.schedule\('plain', .*request\(...\), catch_up=",
        ),
        ({"overlap": "allow"}, plain, "no option 'overlap': leave out `schedule=`"),
        ({"jitter": 5}, plain, "no option 'jitter': leave out `schedule=`"),
        ({"schedule": "0 * * * *"}, plain, "must be made with Cron or Every, not str"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            job(**{"schedule": HOURLY, **options})(function)
        assert function.__name__ not in app.registry.handlers()
    assert not app.registry.schedules()


def test_schedules_have_a_short_repr(reports: Reports) -> None:
    schedules = reports.app.sync.schedules
    put = schedules.put("dyn", HOURLY, reports.report.request("vat"))
    assert repr(put.definition) == "<ScheduleDefinition every 1 h of 'report'>"
    next_at = f"{put.next_at:%Y-%m-%d %H:%M:%S} UTC"
    assert repr(put) == f"<ScheduleRecord 'dyn' every 1 h, next {next_at}>"
    assert repr(schedules.pause("dyn")) == "<ScheduleRecord 'dyn' every 1 h, paused>"


def test_the_runs_of_a_schedule_that_does_not_exist(reports: Reports) -> None:
    schedules = reports.app.sync.schedules
    with pytest.raises(ScheduleNotFound):
        schedules.runs("dyn")
    schedules.put("dyn", HOURLY, reports.tidy.request())
    assert schedules.runs("dyn") == []
    id = schedules.trigger("dyn").id
    assert [run.sequence_id for run in schedules.runs("dyn")] == [id]


def test_two_declarations_of_one_name_are_refused(reports: Reports) -> None:
    reports.app.schedule("tidy", HOURLY, reports.tidy.request())
    with pytest.raises(
        ConfigurationError, match=r"'tidy' is declared twice: as every 1 h .* every 2 h"
    ):
        reports.app.schedule("tidy", Every(hours=2), reports.tidy.request())
    assert reports.app.registry.schedules()["tidy"].timetable == HOURLY


def test_requests_that_are_for_one_job_only_are_refused(reports: Reports) -> None:
    tidy = reports.tidy.request()
    for request, has in (
        (tidy.using(id=new_id()), "an id"),
        (tidy.using(schedule=After(minutes=1)), "a due time"),
        (tidy.using(dedup=Dedup("once")), "a deduplication key"),
        (tidy.using(idempotency_key="once"), "a deduplication key"),
        (reports.collect_all.request().using(blockers=[tidy]), "blockers"),
    ):
        assert reports.refused(request).startswith(f"the request of schedule 'name' has {has}: ")
    said = reports.refused(reports.collect.request())
    assert said.startswith("schedule 'name' cannot start 'collect', which waits for blockers")


def test_what_is_not_a_request_is_refused(reports: Reports) -> None:
    said = reports.refused(reports.tidy)
    assert said == (
        "schedule takes a request: write `app.schedule('name', Every(hours=1), tidy.request(...))`"
        ", not `app.schedule('name', Every(hours=1), tidy)`"
    )
    assert reports.refused("tidy") == (
        "schedule takes a request, not str: for a job type `charge`, write "
        "`app.schedule('name', Every(hours=1), charge.request(...))`"
    )
    with pytest.raises(InvalidRequest, match=r"put takes .* write `app\.schedules\.put\('name', "):
        reports.app.sync.schedules.put("name", HOURLY, cast("Any", reports.tidy))
    assert "can only continue a sequence" in reports.refused(reports.finish.request())


def test_options_that_are_refused(reports: Reports) -> None:
    request = reports.tidy.request()
    said = reports.refused(request, overlap="wait")
    assert said == "overlap is 'skip', 'allow', 'queue_one' or 'cancel', not 'wait'"
    assert "catch_up" in reports.refused(request, catch_up=timedelta(hours=1))
    assert "jitter" in reports.refused(request, jitter=-1)
    assert "jitter must be 100 years or less" in reports.refused(request, jitter=10**400)
    said = reports.refused(request, tz="Europe/Berlin")
    assert said == "there is no option 'tz'; there are overlap, catch_up, jitter, key"
    with pytest.raises(InvalidOption, match="Cron or Every, not str"):
        reports.app.schedule("name", cast("Any", "@hourly"), request)
    for name, sentence in (
        ("two\nlines", r"^schedule name 'two\\nlines' is not allowed"),
        ("", "^a schedule name must not be empty"),
        ("a" * 201, "^a schedule name has at most 200 characters"),
    ):
        with pytest.raises(InvalidName, match=sentence):
            reports.app.schedule(name, HOURLY, request)
        with pytest.raises(InvalidName, match=sentence):
            reports.app.sync.schedules.put(name, HOURLY, request)


@pytest.mark.parametrize(
    "page", [{"after": 5}, {"after": "\ud800"}, {"limit": "1"}, {"limit": 1.5}, {"limit": 0}]
)
def test_pages_of_schedules_that_are_refused(reports: Reports, page: dict[str, Any]) -> None:
    with pytest.raises((InvalidName, InvalidOption)):
        reports.app.sync.schedules.list(**page)
