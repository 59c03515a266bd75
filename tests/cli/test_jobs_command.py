"""`headway jobs`, `why`, `stats`, `workers`, `queues`: the answers and the levers."""

from __future__ import annotations

import asyncio
import getpass
import socket
from pathlib import Path

import pytest

from headway import JobState
from tests.cli.command import command, printed
from tests.cli.populated_store import Populated, make_app, populate

ALIKE = ("7302099a8057", "8302099a8057", "9302099a8059")


@pytest.fixture
def jobs(dsn: str) -> Populated:
    return populate(dsn)


def state_of(dsn: str, id: str) -> JobState:
    with make_app(dsn).sync as client:
        return client.get(id).state


def ids(dsn: str, *words: str) -> list[str]:
    return [job["id"] for job in printed("jobs", "list", *words, "-a", dsn)["jobs"]]


def test_lists_what_matches(dsn: str, jobs: Populated) -> None:
    assert ids(dsn, "state:failed") == [jobs.blocker, jobs.failed]
    assert ids(dsn, "state:scheduled") == [jobs.scheduled]
    assert ids(dsn, "state:failed", "args.order_id:8") == [jobs.failed]
    assert ids(dsn, "type:charge", "queue:nobody") == [jobs.pending]
    assert ids(dsn, "state:completed", "state:cancelled", "args.order_id:10") == [jobs.cancelled]
    assert len(ids(dsn)) == 9


def test_pages_go_on_with_the_cursor(dsn: str, jobs: Populated) -> None:
    everything = ids(dsn)
    first = printed("jobs", "list", "-n", "4", "-a", dsn)
    second = printed("jobs", "list", "--cursor", first["cursor"], "-a", dsn)
    assert [job["id"] for job in [*first["jobs"], *second["jobs"]]] == everything
    assert second["cursor"] is None


def test_a_table_for_people(dsn: str, jobs: Populated) -> None:
    result = command("jobs", "list", "state:failed", "queue:tax", "-a", dsn)
    assert result.exit_code == 0, result.stderr
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["ID", "TYPE", "STATE", "QUEUE", "FAILED", "CREATED", "NOTE"]
    assert rows[1].startswith(jobs.failed)
    assert "RuntimeError: the tax office is closed for 8" in rows[1]
    nothing = command("jobs", "list", "type:nothing", "-a", dsn)
    assert (nothing.stdout, nothing.stderr) == ("", "no jobs match\n")


def test_shows_one_job(dsn: str, jobs: Populated) -> None:
    shown = printed("jobs", "show", jobs.failed, "-a", dsn)
    assert shown["job"]["input"] == {"order_id": 8}
    assert shown["job"]["last_error"]["message"] == "the tax office is closed for 8"
    assert [each["outcome"] for each in shown["attempts"]] == ["failed", "failed"]
    assert {each["error"]["type"] for each in shown["attempts"]} == {"RuntimeError"}
    text = command("jobs", "show", jobs.failed, "-a", dsn).stdout
    assert "attempt 2 failed" in text
    assert 'raise RuntimeError(f"the tax office' in text
    assert "2 failed of at most 2" in text


def test_why(dsn: str, jobs: Populated) -> None:
    sentences = {
        jobs.scheduled: "in ",
        jobs.pending: "worker",
        jobs.failed: "RuntimeError",
        jobs.completed: "completed",
    }
    for id, part in sentences.items():
        result = command("why", id, "-a", dsn)
        assert result.exit_code == 0, result.stderr
        assert len(result.stdout.splitlines()) == 1
        assert part in result.stdout, id
    sentence, reason = command("why", jobs.blocked, "-a", dsn).stdout.splitlines()
    assert "blocked" in sentence or "waits" in sentence
    assert reason.startswith("  ")
    assert "RuntimeError" in reason
    assert printed("why", jobs.blocked, "-a", dsn)["because"][0]["job_id"] == jobs.blocker


def test_retries_one_by_its_id_without_asking(dsn: str, jobs: Populated) -> None:
    result = command("jobs", "retry", jobs.failed, "-a", dsn)
    assert (result.exit_code, result.stdout) == (0, "1 job retried\n")
    assert state_of(dsn, jobs.failed) is JobState.PENDING


async def test_it_is_written_down_who_did_it(sqlite_path: Path) -> None:
    dsn = f"sqlite:///{sqlite_path}"
    jobs = await asyncio.to_thread(populate, dsn)
    done = await asyncio.to_thread(command, "jobs", "retry", jobs.failed, "-a", dsn)
    assert done.exit_code == 0
    async with make_app(dsn) as app:
        (record,) = (await app.questions.audit()).records
    assert record.actor == f"cli:{getpass.getuser()}@{socket.gethostname()}"
    assert (record.action, record.count) == ("retry", 1)


def test_says_why_one_cannot_be_retried(dsn: str, jobs: Populated) -> None:
    result = command("jobs", "retry", jobs.completed, "-a", dsn)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: nothing was retried: ")


def test_a_filter_needs_yes(dsn: str, jobs: Populated) -> None:
    asked = command("jobs", "retry", "state:failed", "-a", dsn)
    assert asked.exit_code == 5
    assert "retry 2 jobs that match in " in asked.stderr
    assert "add --yes" in asked.stderr
    assert state_of(dsn, jobs.failed) is JobState.FAILED

    assert printed("jobs", "retry", "state:failed", "--yes", "-a", dsn)["changed"] == 2
    assert state_of(dsn, jobs.failed) is JobState.PENDING


@pytest.mark.parametrize("verb", ["cancel", "delete"])
def test_destructive_verbs_need_yes_for_one_job_too(dsn: str, jobs: Populated, verb: str) -> None:
    target = {"cancel": jobs.scheduled, "delete": jobs.completed}[verb]
    asked = command("jobs", verb, target, "-a", dsn)
    assert (asked.exit_code, asked.stdout) == (5, "")
    assert f"{verb} 1 job in " in asked.stderr
    done = command("jobs", verb, target, "-y", "-a", dsn)
    assert done.exit_code == 0, done.stderr
    if verb == "cancel":
        assert state_of(dsn, target) is JobState.CANCELLED
    else:
        assert command("jobs", "show", target, "-a", dsn).exit_code == 3


def test_runs_a_scheduled_job_now(dsn: str, jobs: Populated) -> None:
    assert command("jobs", "trigger", jobs.scheduled, "-a", dsn).stdout == "1 job triggered\n"
    assert ids(dsn, "state:scheduled") == []


def test_matching_jobs_that_cannot_be_retried_are_counted(dsn: str, jobs: Populated) -> None:
    none = command("jobs", "retry", "state:completed", "--yes", "-a", dsn)
    assert none.exit_code == 1
    assert "nothing was retried: no job that matches is in a state that allows it" in none.stderr

    completed = len(ids(dsn, "state:completed"))
    assert completed
    both = ("state:completed", "state:failed")
    done = printed("jobs", "retry", *both, "--yes", "-a", dsn)
    assert (done["changed"], done["passed_over"]) == (2, completed)


def test_nothing_matches_nothing_is_done(dsn: str, jobs: Populated) -> None:
    result = command("jobs", "delete", "type:nothing", "-a", dsn)
    assert (result.exit_code, result.stdout) == (0, "0 jobs deleted\n")
    assert "no jobs match" in result.stderr


def test_sequences(dsn: str, jobs: Populated) -> None:
    page = printed("sequences", "list", "type:charge", "-a", dsn)["sequences"]
    (found,) = [each for each in page if each["id"] == jobs.sequence]
    assert (found["type"], found["job_type"], found["state"]) == ("place", "charge", "completed")
    shown = printed("sequences", "show", jobs.sequence, "-a", dsn)
    assert [job["type"] for job in shown["jobs"]] == ["place", "charge"]
    last = shown["jobs"][-1]["id"]
    assert printed("sequences", "show", last, "-a", dsn)["id"] == jobs.sequence
    assert command("sequences", "show", last, "-a", dsn).exit_code == 0

    first, second = command("sequences", "tree", jobs.sequence, "-a", dsn).stdout.splitlines()
    assert first == f"place  completed  {jobs.sequence}"
    assert second == f"then charge  completed  {last}"
    waiting = command("sequences", "tree", jobs.blocked, "-a", dsn).stdout.splitlines()
    assert waiting == [
        f"letter  blocked  {jobs.blocked}",
        f"└─ waits for report  failed  {jobs.blocker}  2 failed",
    ]
    assert len(printed("sequences", "tree", jobs.blocked, "-a", dsn)["edges"]) == 1
    assert command("sequences", "list", "-a", dsn).stdout.startswith("ID ")


def test_queues(dsn: str, jobs: Populated) -> None:
    assert command("queues", "pause", "tax", "mail", "-a", dsn).stdout == "tax, mail paused\n"
    found = {each["name"]: each for each in printed("queues", "list", dsn)}
    assert found["tax"]["paused_at"] is not None
    assert found["tax"]["states"]["failed"] == {"value": 2, "exact": True}
    assert found["default"]["paused_at"] is None
    resumed = {"queues": ["tax"], "paused": False, "warnings": []}
    assert printed("queues", "resume", "tax", "-a", dsn) == resumed
    text = command("queues", "list", "-a", dsn).stdout
    assert [line.split()[0] for line in text.splitlines()] == [
        "QUEUE", "default", "mail", "nobody", "tax",
    ]  # fmt: skip


def test_a_queue_that_nobody_uses_is_paused_with_a_warning(dsn: str, jobs: Populated) -> None:
    for verb in ("pause", "resume", "resume"):
        done = command("queues", verb, "nobdy", "-a", dsn)
        assert (done.exit_code, done.stdout) == (0, f"nobdy {verb}d\n")
        warning = "no job, worker or job type uses queue nobdy; did you mean nobody?"
        assert done.stderr == f"Warning: {warning}\n"
        assert printed("queues", verb, "nobdy", "-a", dsn)["warnings"] == [warning]
    assert command("queues", "pause", "zzz", "-a", dsn).stderr.endswith("uses queue zzz\n")


def test_short_ids_can_be_used(dsn: str, jobs: Populated) -> None:
    def short(id: str) -> str:
        return f"…{id[-8:]}"

    def done(*words: str) -> int:
        return int(printed("jobs", *words, "-a", dsn)["changed"])

    assert printed("jobs", "show", short(jobs.failed), "-a", dsn)["job"]["id"] == jobs.failed
    assert printed("why", short(jobs.failed)[1:], "-a", dsn)["job_id"] == jobs.failed
    shown = printed("sequences", "show", short(jobs.sequence), "-a", dsn)
    assert (shown["id"], len(shown["jobs"])) == (jobs.sequence, 2)
    tree = printed("sequences", "tree", short(jobs.sequence), "-a", dsn)
    assert tree["root_id"] == jobs.sequence
    assert ids(dsn, f"id:{short(jobs.failed)}", short(jobs.failed)) == [jobs.failed]
    assert done("retry", short(jobs.failed)) == 1
    assert state_of(dsn, jobs.failed) is JobState.PENDING
    assert done("trigger", short(jobs.scheduled)) == 1
    assert done("cancel", short(jobs.scheduled), jobs.failed, "--yes") == 2
    assert done("delete", short(jobs.scheduled), "--yes") == 1
    assert command("jobs", "show", short(jobs.scheduled), "-a", dsn).exit_code == 3


def test_an_ambiguous_id_is_refused_before_it_asks(dsn: str) -> None:
    app = make_app(dsn)
    one, two, other = (f"01890a5d-ac96-774b-bcce-{end}" for end in ALIKE)
    with app.sync as client:
        for id in (one, two, other):
            client.start(app.request("charge", order_id=7).using(id=id))
    for words in (("8057",), ("8057", other)):
        result = command("jobs", "cancel", *words, "--yes", "-a", dsn)
        assert (result.exit_code, result.stdout) == (2, "")
        for id in (one, two):
            assert f"{id} (charge, pending)" in result.stderr
    assert state_of(dsn, other) is JobState.PENDING


def test_stats_and_workers(dsn: str, jobs: Populated) -> None:
    found = printed("stats", dsn)
    assert found["states"]["failed"]["value"] == 2
    text = command("stats", "--app", dsn).stdout
    assert "failed" in text
    assert "completed, " in text
    assert printed("workers", "list", dsn) == []
    assert "no worker runs" in command("workers", "list", dsn).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("jobs", "show", "01a1dd6f-c9a4-7ff5-8e0a-3cbb8ab1c3a6"), 3, "there is no job"),
        (("why", "01a1dd6f-c9a4-7ff5-8e0a-3cbb8ab1c3a6"), 3, "there is no job"),
        (("jobs", "retry", "01a1dd6f-c9a4-7ff5-8e0a-3cbb8ab1c3a6"), 3, "there is no job"),
        (("sequences", "tree", "01a1dd6f-c9a4-7ff5-8e0a-3cbb8ab1c3a6"), 3, "there is no job"),
        (("jobs", "show", "nonsense"), 2, "'nonsense' is not an id; give a whole id or its last"),
        (("jobs", "show", "0123beef"), 3, "no job whose id ends with 0123beef"),
        (("jobs", "cancel", "charge"), 2, "or a filter such as type:charge"),
        (("jobs", "list", "color:red"), 2, "a filter has no key"),
        (("jobs", "list", "--cursor", "nonsense"), 2, "cursor"),
        (("jobs", "retry"), 2, "Missing argument"),
        (("jobs", "cancel", "01a1dd6f-c9a4-7ff5-8e0a-3cbb8ab1c3a6", "a:b"), 2, "not by both"),
        (("queues", "pause", "not a name"), 2, "is not allowed"),
        (("start", "nothing"), 2, "a database knows no job types"),
    ],
)
def test_exit_codes(
    sqlite_path: object, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    dsn = f"sqlite:///{sqlite_path}"
    assert command("migrate", "up", dsn).exit_code == 0
    result = command(*arguments, "-a", dsn)
    assert result.exit_code == code, result.stderr
    assert sentence in result.stderr
    assert result.stdout == ""


def test_without_a_schema_or_a_server(postgres_url: str) -> None:
    missing = command("jobs", "list", "-a", postgres_url)
    assert missing.exit_code == 4
    assert "headway migrate up" in missing.stderr
    away = command("stats", "postgresql://me:topsecret@127.0.0.1:1/shop")
    assert away.exit_code == 4
    assert "cannot reach PostgreSQL" in away.stderr
    assert "topsecret" not in away.output
