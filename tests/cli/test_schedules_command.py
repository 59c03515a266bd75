"""`headway schedules` and what other commands say of schedules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from headway import Cron, Every, Headway
from headway.cli.commands.schedules_show import print_schedule, print_schedule_explanation
from headway.cli.doctor import schedules as doctor
from headway.domain.queries import WorkerRecord
from headway.domain.schedules.schedule import ScheduleAdvance, ScheduleRecord, ScheduleRun
from headway.domain.schedules.schedule_views import (
    RunOutcome,
    ScheduleExplanation,
    ScheduleReason,
    ScheduleRunView,
)
from headway.domain.views import Explanation, Reason
from headway.schedules.declaration import declare
from tests.cli.command import command, printed

NAME = "tenants/7:sync"
HOUR = timedelta(hours=1)


class Shop:
    """A store with schedules, as programs and workers leave it."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.app = app = Headway(dsn, migrate=True)

        @app.job(queue="mail")
        async def sync(tenant: int, token: str = "") -> None: ...

        @app.job(schedule=Cron("30 2 * * *", tz="Europe/Berlin"))
        async def nightly() -> None: ...

        self.sync, self.nightly = sync, nightly

    def do(self, work: Callable[[Headway], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            async with self.app as app:
                return await work(app)

        return asyncio.run(run())

    def put(self, *names: str) -> None:
        async def put(app: Headway) -> None:
            for name in names:
                await app.schedules.put(name, Every(hours=1), self.sync.request(7))

        self.do(put)

    def beat(self, id: str = "anna:1", schedules: dict[str, str] | None = None) -> WorkerRecord:
        """A worker that lives."""
        now = datetime.now(UTC)
        worker = WorkerRecord(
            id=id,
            host="anna",
            pid=1,
            queues=("default", "mail"),
            types=("sync", "nightly"),
            concurrency=2,
            running=0,
            started_at=now,
            seen_at=now,
            schedules=schedules,
        )
        self.do(lambda app: app.store.run(app.store.save_worker, worker))
        return worker

    def declare(self) -> None:
        definitions = self.app.registry.schedules()
        prints = {name: each.fingerprint for name, each in definitions.items()}
        worker = self.beat(schedules=prints)
        self.do(lambda app: app.store.run(declare, app.store, worker, definitions))

    def change(self, name: str, **fields: Any) -> None:
        """As time, or an operator, would have changed it."""

        async def change(app: Headway) -> None:
            record = structs.replace(await app.schedules.get(name), **fields)
            await app.store.run(app.store.put_schedules, [record])

        self.do(change)

    def skip(self, name: str, count: int) -> None:
        """So many ticks in a row, because of an overlap."""

        async def skip(app: Headway) -> None:
            record: ScheduleRecord = await app.schedules.get(name)
            now = datetime.now(UTC)
            runs = [
                ScheduleRun(tick=now - n * HOUR, at=now - n * HOUR, skipped="overlap")
                for n in reversed(range(count))
            ]
            advance = ScheduleAdvance(
                name=name,
                next_at=record.next_at,
                waiting_tick=None,
                started=None,
                fired=0,
                skipped=count,
                first_run=record.runs,
                runs=tuple(runs),
            )
            await app.store.run(app.store.advance_schedules, [advance])

        self.do(skip)

    def run(self, *arguments: str) -> Any:
        return command(*arguments, "-a", self.dsn)

    def printed(self, *arguments: str) -> Any:
        return printed(*arguments, "-a", self.dsn)


@pytest.fixture
def shop(dsn: str) -> Shop:
    return Shop(dsn)


def test_list(shop: Shop) -> None:
    assert command("migrate", "up", shop.dsn).exit_code == 0
    assert shop.run("schedules", "list").stderr == "there are no schedules\n"
    shop.declare()
    assert shop.run("schedules", "list", "nothing").stderr == "no schedules match\n"
    assert shop.run("schedules", "list", "--state", "late").stderr == "no schedules match\n"
    shop.put(NAME, "weekly")
    table = shop.run("schedules", "list").stdout.splitlines()
    assert table[0].split()[:5] == ["NAME", "TIMETABLE", "TYPE", "STATE", "NEXT"]
    assert [line.split()[0] for line in table[1:]] == ["nightly", NAME, "weekly"]
    assert "30 2 * * * Europe/Berlin" in table[1]
    assert table[1].split()[-1] == "declared"
    page = shop.printed("schedules", "list", "TENANTS", "sync")
    assert [each["name"] for each in page["schedules"]] == [NAME]
    shop.run("schedules", "pause", "weekly")
    page = shop.printed("schedules", "list", "--state", "paused")
    assert [each["name"] for each in page["schedules"]] == ["weekly"]
    first = shop.run("schedules", "list", "-n", "2")
    assert "there may be more: " in first.stderr
    page = shop.printed("schedules", "list", "--cursor", NAME)
    assert [each["name"] for each in page["schedules"]] == ["weekly"]


def test_show(shop: Shop) -> None:
    shop.put(NAME)
    id = shop.printed("schedules", "trigger", NAME)["id"]
    detail = shop.printed("schedules", "show", NAME)
    assert detail["job"]["input"] == {"tenant": 7}
    assert [run["sequence_id"] for run in detail["runs"]] == [id]
    assert len(detail["next_ticks"]) == 5
    shown = shop.run("schedules", "show", NAME).stdout
    for text in ("every 1 h", '{"tenant": 7}', "skip", "latest within 1 h", "no living worker"):
        assert text in shown
    assert f"pending  {id}  triggered by hand" in shown
    job = shop.run("jobs", "show", id).stdout
    assert f"schedule  {NAME}" in job


def test_jobs_of_a_schedule(shop: Shop) -> None:
    shop.put(NAME, "weekly")
    id, other = (shop.printed("schedules", "trigger", each)["id"] for each in (NAME, "weekly"))
    shop.do(lambda app: app.start(shop.sync.request(7)))
    assert [job["id"] for job in shop.printed("jobs", "list", f"schedule:{NAME}")["jobs"]] == [id]
    cancelled = shop.run("jobs", "cancel", "schedule:weekly", "--yes")
    assert cancelled.exit_code == 0, cancelled.stderr
    jobs = shop.printed("jobs", "list", "state:cancelled")["jobs"]
    assert [job["id"] for job in jobs] == [other]


def test_show_has_the_times_of_the_time_zone(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.declare()
    detail = shop.do(lambda app: app.questions.schedule("nightly"))
    tick = datetime(2026, 11, 17, 1, 30, tzinfo=UTC)
    run = ScheduleRunView(
        tick=tick - 24 * HOUR,
        at=tick,
        outcome=RunOutcome.SKIPPED,
        skipped="missed",
        triggered=False,
        sequence_id=None,
        job_id=None,
    )
    soon = datetime.now(UTC) + timedelta(seconds=0.9)
    for next_at, when in ((tick, ""), (soon, ", in ")):
        print_schedule(
            structs.replace(
                detail,
                schedule=structs.replace(detail.schedule, next_at=next_at),
                next_ticks=[tick, tick + 24 * HOUR],
                runs=[run],
            )
        )
        shown = capsys.readouterr().out
        lines = {line.split()[0]: line for line in shown.splitlines() if line}
        assert when in lines["next"]
        assert "(now)" not in lines["next"]
        assert "2026-11-18 01:30:00 UTC (02:30 Europe/Berlin)" in lines["then"]
        assert "  2026-11-16 01:30:00 UTC (02:30 Europe/Berlin)  skipped: missed" in shown
        assert "+00:00" not in shown
    assert " UTC (0" in shop.run("why", "nightly").stdout


def test_pause_resume_and_delete(shop: Shop) -> None:
    shop.put(NAME, "weekly")
    assert shop.run("schedules", "pause", NAME, "weekly").stdout == (
        f"{NAME} paused\nweekly paused\n"
    )
    assert shop.run("schedules", "pause", NAME).stdout == f"{NAME} was paused already\n"
    resumed = shop.run("schedules", "resume", NAME)
    assert resumed.stdout.startswith(f"{NAME} resumed, next tick at ")
    (changed,) = shop.printed("schedules", "pause", NAME)
    assert (changed["before"], changed["after"]) == ("active", "paused")
    refused = shop.run("schedules", "delete", NAME)
    assert refused.exit_code == 5
    assert f"delete 1 schedule in {shop.app.store.name}: {NAME}: add --yes" in refused.stderr
    missing = shop.run("schedules", "delete", NAME, "nightly", "--yes")
    assert missing.exit_code == 3
    assert "there is no schedule 'nightly'" in missing.stderr
    assert len(shop.printed("schedules", "list")["schedules"]) == 2
    assert shop.run("schedules", "delete", NAME, "--yes").stdout == f"{NAME} deleted\n"
    shop.declare()
    declared = shop.run("schedules", "delete", "nightly", "--yes")
    assert declared.exit_code == 2
    assert "is declared by the code of running workers" in declared.stderr


@pytest.mark.parametrize("verb", ["pause", "resume", "delete"])
def test_nothing_is_changed_if_one_of_the_names_does_not_exist(shop: Shop, verb: str) -> None:
    shop.put(NAME)
    if verb == "resume":
        shop.run("schedules", "pause", NAME)
    before = shop.printed("schedules", "list")["schedules"]
    yes = ["--yes"] if verb == "delete" else []
    assert shop.run("schedules", verb, NAME, "nothing", *yes).exit_code == 3
    assert shop.printed("schedules", "list")["schedules"] == before
    assert len(shop.printed("schedules", verb, NAME, NAME, *yes)) == 1


@pytest.mark.parametrize("verb", ["show", "pause", "resume", "trigger"])
def test_a_schedule_that_does_not_exist(shop: Shop, verb: str) -> None:
    shop.put(NAME)
    done = shop.run("schedules", verb, "nothing")
    assert done.exit_code == 3
    assert "there is no schedule 'nothing'" in done.stderr
    assert shop.run("schedules", verb, "no name").exit_code == 2


def test_backfill(shop: Shop) -> None:
    shop.put(NAME)
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 3 * HOUR
    since, until = first.isoformat(), (first + 2 * HOUR).isoformat()
    asked = ("schedules", "backfill", NAME, "--since", since, "--until", until)
    refused = shop.run(*asked)
    assert refused.exit_code == 5
    assert f"start 3 jobs of {NAME} for the 3 ticks from " in refused.stderr
    assert printed("jobs", "list", "-a", shop.dsn)["jobs"] == []
    done = shop.run(*asked, "--at-most", "1", "--yes")
    assert f"start 1 job of {NAME} for the tick of " in done.stderr
    assert done.stdout == "1 job started\n"
    assert shop.printed(*asked, "--yes") == {"name": NAME, "started": 2, "existing": 1}
    again = shop.run(*asked, "--yes")
    assert again.stdout == "0 jobs started; 3 ticks had a job already\n"
    jobs = printed("jobs", "list", "-a", shop.dsn)["jobs"]
    assert {job["scheduled_for"] for job in jobs} == {
        (first + n * HOUR).isoformat().replace("+00:00", "Z") for n in range(3)
    }
    too_many = shop.run("schedules", "backfill", NAME, "--since", "2000-01-01", "--yes")
    assert too_many.exit_code == 2
    assert "more than 10,000 ticks" in too_many.stderr
    later = (datetime.now(UTC) + 2 * HOUR).isoformat()
    future = shop.run("schedules", "backfill", NAME, "--since", since, "--until", later, "--yes")
    assert future.exit_code == 2
    assert "a backfill ends now at the latest" in future.stderr


def test_why(shop: Shop) -> None:
    shop.put(NAME, "cafe")
    said = shop.run("why", NAME)
    assert said.stdout.startswith("not fired: there is no living worker; its next tick is at ")
    assert shop.printed("why", NAME)["reason"] == "no_worker"
    assert shop.run("why", "cafe").stdout == said.stdout  # not taken for the ending of an id
    id = shop.printed("schedules", "trigger", NAME)["id"]
    assert shop.run("why", id).stdout == "waiting: there is no living worker\n"
    assert shop.run("why", id[-8:]).stdout == "waiting: there is no living worker\n"
    for name, sentence in (
        ("nothing", "there is no schedule 'nothing', and it is no id of a job; "),
        ("beef", "there is neither a schedule 'beef' nor a job whose id ends so"),
    ):
        missing = shop.run("why", name)
        assert missing.exit_code == 3
        assert sentence in missing.stderr


def test_why_prints_the_job_that_is_waited_for(shop: Shop) -> None:
    shop.put(NAME)
    id = shop.printed("schedules", "trigger", NAME)["id"]
    shop.skip(NAME, 2)
    shop.beat(schedules={})
    (line,) = shop.run("why", NAME).stdout.splitlines()
    assert line.startswith("skipping its ticks since ")
    assert line.endswith(
        f", because sync {id} of its last run has not ended: it is due, and about to be claimed"
    )


def test_why_prints_the_blockers_of_the_job_that_is_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    blocker = Explanation(job_id="2", reason=Reason.RUNNING, sentence="running for 3 m")
    job = Explanation(
        job_id="1", reason=Reason.BLOCKED, sentence="blocked by 1 sequence", because=(blocker,)
    )
    sentence = "skipping its ticks, because sync 1 is blocked by 1 sequence"
    print_schedule_explanation(
        ScheduleExplanation(
            name=NAME, reason=ScheduleReason.OVERLAP, sentence=sentence, because=job
        )
    )
    assert capsys.readouterr().out == f"{sentence}\n  2: running for 3 m\n"


def findings(shop: Shop, code: int = 0) -> list[tuple[str, str]]:
    """What the doctor says of schedules."""
    result = command("doctor", shop.dsn, "--json")
    found = [each for each in json.loads(result.stdout) if each["subject"] == "schedules"]
    assert any(each["level"] == "fail" for each in found) is bool(code), found
    return [(each["level"], each["finding"]) for each in found]


def test_the_doctor_finds_nothing(shop: Shop) -> None:
    assert command("migrate", "up", shop.dsn).exit_code == 0
    assert findings(shop) == [("ok", "none")]
    shop.put(NAME)
    shop.declare()
    assert findings(shop) == [("ok", "2 schedules, fired on time")]
    shop.beat("bert:1")
    idle = "1 of 2 living workers fire none: they run with --no-schedules, or an earlier version"
    assert findings(shop)[1] == ("ok", f"{idle} of Headway")


def test_the_doctor_finds_schedules_that_nobody_fires(shop: Shop) -> None:
    shop.put(NAME, "weekly")
    shop.run("schedules", "pause", "weekly")
    assert findings(shop) == [("warn", "1 schedule cannot be fired: no worker is alive")]
    shop.change(NAME, next_at=datetime.now(UTC) - HOUR)
    shop.beat()
    who = "all living workers run with --no-schedules, or an earlier version of Headway"
    assert findings(shop, 1) == [("fail", f"1 schedule cannot be fired: {who}")]
    shop.beat(schedules={})
    assert findings(shop, 1) == [("fail", f"late by more than a minute: {NAME}")]


def test_the_doctor_takes_an_outage_for_no_orphan(shop: Shop) -> None:
    shop.declare()
    shop.beat(schedules=None)
    who = "all living workers run with --no-schedules, or an earlier version of Headway"
    assert findings(shop) == [("warn", f"1 schedule cannot be fired: {who}")]
    assert "orphaned" not in shop.run("schedules", "list").stdout


def test_the_doctor_finds_orphans_and_taken_names(shop: Shop) -> None:
    shop.put(NAME)
    shop.declare()
    shop.beat(schedules={NAME: "of its code"})
    orphaned, taken = findings(shop)
    assert orphaned == (
        "warn",
        "declared in code that no living worker has, so not fired: nightly",
    )
    assert taken == (
        "warn",
        f"declared in code, but put at run time under the same name: {NAME}",
    )


def test_the_doctor_finds_long_pauses_and_overlaps(shop: Shop) -> None:
    shop.put(*(f"s{n}" for n in range(7)), "four", "five")
    shop.beat(schedules={})
    for n in range(7):
        shop.change(f"s{n}", paused_at=datetime.now(UTC) - timedelta(days=8))
    shop.skip("four", 4)
    shop.skip("five", 5)
    paused, overlapping = findings(shop)
    assert paused == ("warn", "paused for more than 7 days: s0, s1, s2, s3, s4 and 2 more")
    assert overlapping[0] == "warn"
    assert overlapping[1].startswith("the last 5 ticks or more were skipped")
    assert overlapping[1].endswith(" has not ended: five")


def test_the_doctor_says_how_far_it_looked(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "EXAMINED", 2)
    monkeypatch.setattr(doctor, "MAX_PAGE", 1)
    shop.put("a", "b", "c")
    shop.beat(schedules={})
    assert findings(shop)[1] == ("ok", "the first 2 by name were examined, no others")


CODE = """
from datetime import timedelta

from headway import Every, Headway

app = Headway({dsn!r})


@app.job(queue="mail")
async def sync(tenant: str) -> None: ...


app.schedule("taken", Every(timedelta(hours=1)), sync.request("x"))
"""


def test_check_finds_schedules_that_a_deployment_would_break(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "checked_app.py"
    file.write_text(CODE.format(dsn=shop.dsn))
    shop.declare()
    unfit = command("check", str(file))
    assert unfit.exit_code == 0
    assert "1 schedule checked, 0 do not fit" in unfit.stderr
    assert "no other worker declares them: nightly" in unfit.stderr
    shop.put(NAME)
    unfit = command("check", str(file))
    assert "0 waiting jobs checked, 0 do not fit" in unfit.stderr
    assert "2 schedules checked, 1 does not fit" in unfit.stderr
    shop.put("taken")
    unfit = command("check", str(file), "--json")
    assert unfit.exit_code == 1
    report = json.loads(unfit.stdout)
    assert report["undeclared_schedules"] == ["nightly"]
    problems = {each["name"]: each["problem"] for each in report["incompatible_schedules"]}
    assert set(problems) == {NAME, "taken"}
    assert "same name" in problems["taken"]
    assert "at tenant: expected str, got int" in problems[NAME]


def test_workers_that_fire_no_schedules(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "fired_app.py"
    file.write_text(CODE.format(dsn=shop.dsn))
    assert command("migrate", "up", shop.dsn).exit_code == 0
    for arguments in (
        ("worker", str(file), "--drain", "--no-schedules"),
        ("queues", "drain", "mail", "-a", str(file)),
    ):
        assert command(*arguments).exit_code == 0
        assert shop.printed("schedules", "list")["schedules"] == []
    assert command("worker", str(file), "--drain").exit_code == 0
    assert [each["name"] for each in shop.printed("schedules", "list")["schedules"]] == ["taken"]


def test_a_move_says_which_schedules_stay(shop: Shop, tmp_path: Path) -> None:
    shop.declare()
    shop.put(NAME, "weekly")
    target = f"sqlite:///{tmp_path / 'target.db'}"
    assert command("migrate", "up", target).exit_code == 0
    done = command("move", shop.dsn, target, "--yes")
    assert done.exit_code == 0, done.output
    assert "not moved: 2 schedules that your program put at run time" in done.stderr
    again = command("move", shop.dsn, target, "--yes", "--json")
    assert json.loads(again.stdout)["schedules_left"] == 2
