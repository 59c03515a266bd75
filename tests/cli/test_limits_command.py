"""`headway queues limit`, `show` and `release`, and what other commands say of limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import pytest
from msgspec import structs

from headway import After, Headway, Rate
from headway.cli.doctor import limits as doctor
from headway.cli.doctor import store as doctor_store
from headway.domain.limits.queue_limits import QueueLimits, QueueState
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.queries import WorkerRecord
from headway.jobs.ids import new_id
from headway.limits.changes import declare, hold
from headway.limits.claim import claim_limited
from headway.limits.key_claim import KeyTurns
from tests.cli.command import command, printed


class Shop:
    """A store with limits, as programs and workers leave it."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.app = app = Headway(dsn, migrate=True)

        @app.job(queue="openai")
        async def ask(prompt: str) -> None: ...

        self.ask = ask

    def do(self, work: Callable[[Headway], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            async with self.app as app:
                return await work(app)

        return asyncio.run(run())

    def declare(self, **limits: Any) -> None:
        """As a living worker does it."""
        now = datetime.now(UTC)
        declared = {"openai": QueueLimits(**limits)}
        worker = WorkerRecord(
            id="anna:1",
            host="anna",
            pid=1,
            queues=("openai",),
            types=("ask",),
            concurrency=20,
            running=0,
            started_at=now,
            seen_at=now,
            limits={name: each.fingerprint for name, each in declared.items()},
        )
        self.do(lambda app: app.store.run(declare, app.store, worker, declared))

    def stop_workers(self) -> None:
        self.do(lambda app: app.store.run(app.store.delete_workers, ["anna:1"]))

    def hold(self, seconds: float, key: str | None = None) -> None:
        after = After(seconds=seconds)
        self.do(lambda app: app.store.run(hold, app.store, "openai", key, after))

    def start(self, *keys: str) -> list[str]:
        async def start(app: Headway) -> list[str]:
            return [(await app.start(self.ask.request("?"), key=key)).id for key in keys]

        found: list[str] = self.do(start)
        return found

    def claim(self) -> int:
        order = ClaimOrder(
            worker="anna:1",
            token=new_id(),
            lease_for=30,
            queues=(QueueShare("openai", 20),),
            types=("ask",),
            limit=20,
        )
        claim = self.do(lambda app: app.store.run(claim_limited, app.store, order, KeyTurns()))
        return len(claim.jobs)

    def change(self, **fields: Any) -> None:
        """As time would have changed the queue."""

        async def change(app: Headway) -> None:
            state: QueueState | None = await app.store.run(app.store.queue_state, "openai")
            assert state is not None
            await app.store.run(app.store.save_queue, structs.replace(state, **fields))

        self.do(change)

    def run(self, *arguments: str) -> Any:
        return command(*arguments, "-a", self.dsn)

    def printed(self, *arguments: str) -> Any:
        return printed(*arguments, "-a", self.dsn)

    def examined(self) -> list[dict[str, str]]:
        result = command("doctor", self.dsn, "--json")
        found = json.loads(result.stdout)
        return [each for each in found if each["subject"] in ("limits", "queues")]


@pytest.fixture
def shop(dsn: str) -> Shop:
    return Shop(dsn)


def test_limit(shop: Shop) -> None:
    shop.declare(running=40, per_key=2, fair=True)
    changed = shop.printed("queues", "limit", "openai", "--running", "10", "--rate", "90/1m")
    assert changed["override"] == {"running": 10, "rate": {"limit": 90, "per": 60.0, "burst": 1}}
    assert changed["effective"]["per_key"] == 2
    assert changed["warning"] is None
    said = shop.run("queues", "limit", "openai", "--rate", "90/60s", "--burst", "10")
    assert said.stdout == (
        "openai: 10 running; 2 per key; 90 in 60 s, 10 at once; fair (overridden: running, rate)\n"
    )
    said = shop.run("queues", "limit", "openai", "--per-key", "none", "--running", "none")
    assert said.stdout == (
        "openai: 90 in 60 s, 10 at once; fair (overridden: running, per key, rate)\n"
    )
    assert shop.printed("queues", "limit", "openai", "--rate", "none")["override"] == {
        "running": None,
        "per_key": None,
        "rate": None,
    }
    said = shop.run("queues", "limit", "openai", "--clear")
    assert said.stdout == "openai: 40 running; 2 per key; fair\n"
    said = shop.run("queues", "limit", "opnai", "--running", "1")
    assert said.stderr == (
        "Warning: no job, worker or job type uses queue opnai; did you mean openai?\n"
    )
    assert said.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--running", "0"), "running must be at least 1; to start nothing, pause the queue"),
        (("--running", "-3"), "running is between 1 and 1,000,000, not -3"),
        (("--running", "1.5"), "'1.5' is not a whole number; write 40, or none"),
        (("--running", "many"), "'many' is not a whole number; write 40, or none"),
        (("--per-key", "0"), "per_key must be at least 1; to start nothing, pause the queue"),
        (("--per-key", "9999999"), "per_key is between 1 and 1,000,000, not 9999999"),
        (("--rate", "90"), "'90' is not a rate; write 90/60s"),
        (("--rate", "1.5/60s"), "'1.5/60s' is not a rate"),
        (("--rate", "90/60s/10"), "'60s/10' is not a duration"),
        (("--rate", "90/"), "'' is not a duration"),
        (("--rate", "90/0s"), "must be longer than 0 seconds"),
        (("--rate", "0/60s"), "to start nothing, pause the queue"),
        (("--rate", "10/60s", "--burst", "11"), "between 1 and its limit of 10, not 11"),
        (("--rate", "10/60s", "--burst", "0"), "between 1 and its limit of 10, not 0"),
        (("--burst", "3"), "--burst belongs to a rate: --rate 90/60s --burst 10"),
        (("--rate", "none", "--burst", "3"), "--burst belongs to a rate"),
        (("--clear", "--running", "3"), "--clear takes all overrides back"),
        (("--clear", "--per-key", "none"), "--clear takes all overrides back"),
        ((), "name a limit to change: --running, --per-key, --rate, or --clear"),
    ],
)
@pytest.mark.parametrize("dsn", ["sqlite"], indirect=True)
def test_limits_that_cannot_be(shop: Shop, arguments: tuple[str, ...], sentence: str) -> None:
    shop.start("a")
    result = shop.run("queues", "limit", "openai", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert shop.printed("queues", "show", "openai")["queue"]["permits"] is None


def test_show(shop: Shop) -> None:
    shop.start("a", "a", "b")
    shown = shop.run("queues", "show", "openai").stdout
    assert "limits" not in shown
    shop.declare(running=40, per_key=2, rate=Rate(90, per=60, burst=10))
    assert shop.claim() == 3
    shop.run("queues", "limit", "openai", "--running", "4")
    shop.hold(600)
    shop.hold(600, "z")
    permits = shop.printed("queues", "show", "openai")["queue"]["permits"]
    assert (permits["running"], permits["free"], permits["declared_by"]) == (3, 1, 1)
    assert (permits["next_start_in"], permits["override"]) == (0.0, {"running": 4})
    assert [(use["key"], use["running"]) for use in permits["keys"]] == [
        ("z", 0),
        ("a", 2),
        ("b", 1),
    ]
    shown = " ".join(shop.run("queues", "show", "openai").stdout.split())
    for text in (
        "name openai",
        "limits 4 running; 2 per key; 90 in 60 s, 10 at once (overridden: running)",
        "permits 3 of 4 used, 1 free",
        "next start now, by the rate",
        "held until ",
        "declared 40 running; 2 per key; 90 in 60 s, 10 at once, by 1 living worker",
        "overridden 20",
        "keys z 0 of 2 running, held until ",
        "a 2 of 2 running b 1 of 2 running",
    ):
        assert text in shown, text
    shop.change(paid_until=datetime.now(UTC) + timedelta(hours=1))
    assert "next start  in 59 m" in shop.run("queues", "show", "openai").stdout
    unknown = shop.run("queues", "show", "opnai")
    assert unknown.exit_code == 0
    assert "did you mean openai?" in unknown.stderr


def test_list_has_columns_for_limits_only_if_a_queue_has_some(shop: Shop) -> None:
    shop.start("a")
    assert "LIMITS" not in shop.run("queues", "list").stdout
    assert shop.printed("queues", "list")[0]["permits"] is None
    shop.run("queues", "limit", "openai", "--running", "4")
    shop.run("queues", "pause", "other")
    head, openai, other = shop.run("queues", "list").stdout.splitlines()
    assert head.split()[-2:] == ["FREE", "LIMITS"]
    assert openai.split("  ")[-1] == "4 running (overridden: running)"
    assert openai.split()[-5] == "4"
    assert "running" not in other
    shop.hold(600)
    assert "(overridden: running), held for 1" in shop.run("queues", "list").stdout


def test_release(shop: Shop) -> None:
    shop.start("a")
    shop.hold(600)
    shop.hold(600, "z")
    said = shop.run("queues", "release", "openai")
    assert said.stdout.startswith("openai: released; it was held until 20")
    assert said.stdout.endswith("); 1 key released\n")
    assert shop.claim() == 1
    said = shop.run("queues", "release", "openai", "opnai")
    assert said.stdout == "openai: was not held\nopnai: was not held\n"
    assert "did you mean openai?" in said.stderr
    (released,) = shop.printed("queues", "release", "openai")
    assert (released["held_until"], released["held_keys"]) == (None, 0)


def test_why_and_keys_of_jobs(shop: Shop) -> None:
    shop.declare(running=1)
    first, second = shop.start("tenant-7", "tenant-8")
    assert shop.claim() == 1
    said = shop.run("why", second)
    assert said.stdout == "waiting for a permit: 1 of 1 jobs of openai are running\n"
    explained = shop.printed("why", second)
    assert explained["reason"] == "permit"
    (wait,) = explained["waits_for"]
    assert (wait["limit"], wait["used"], wait["most"]) == ("running", 1, 1)
    jobs = shop.printed("jobs", "list", "key:tenant-7")["jobs"]
    assert [(job["id"], job["key"], job["dedup_key"]) for job in jobs] == [
        (first, "tenant-7", None)
    ]
    assert shop.printed("jobs", "list", "dedup:tenant-7")["jobs"] == []
    assert "key       tenant-7" in shop.run("jobs", "show", first).stdout


def test_running_workers_follow_within_a_second(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.worker.claims.claim_timing.SHORTEST_POLL", 60.0)
    asyncio.run(_followed(shop))


async def _followed(shop: Shop) -> None:
    started: asyncio.Queue[float] = asyncio.Queue()
    over = asyncio.Event()

    @shop.app.job(queue="openai")
    async def stay() -> None:
        started.put_nowait(monotonic())
        await over.wait()

    async def run(*arguments: str) -> float:
        """The command, with connections of its own; when it was done."""
        result = await asyncio.to_thread(shop.run, *arguments)
        assert result.exit_code == 0, result.stderr
        return monotonic()

    async def begun() -> float:
        return await asyncio.wait_for(started.get(), 10)

    shop.app.queue("openai", running=1)
    async with shop.app as app:
        worker = app.worker(queues=["openai"], concurrency=10, poll_every=60)
        await worker.start()
        try:
            await app.start_many([stay.request() for _ in range(5)])
            await begun()
            done = await run("queues", "limit", "openai", "--running", "3")
            assert max([await begun(), await begun()]) - done < 1
            await app.store.run(hold, app.store, "openai", None, After(hours=1))
            await run("queues", "limit", "openai", "--running", "none")
            done = await run("queues", "release", "openai")
            assert max([await begun(), await begun()]) - done < 1
            assert started.empty()
        finally:
            over.set()
            await worker.stop()


def test_doctor(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.start("a", "b")

    def limits() -> list[tuple[str, str]]:
        return [
            (each["level"], each["finding"])
            for each in shop.examined()
            if each["subject"] == "limits"
        ]

    assert limits() == [("ok", "none")]
    shop.declare(running=1)
    assert limits() == [("ok", "1 queue with limits, and no job waits for a permit for long")]
    shop.stop_workers()
    assert limits()[0][0] == "ok"  # that there is no worker is said elsewhere
    shop.declare(running=2)
    shop.change(limits=structs.replace(_limits(shop), declared=QueueLimits(running=1)))
    ((level, finding),) = limits()
    assert level == "warn"
    assert finding == (
        "no living worker declares the limits of openai, which stay in force: 1 running"
    )
    shop.declare(running=1)
    assert shop.claim() == 1
    monkeypatch.setattr(doctor, "LONG_WAIT", 0.0)
    monkeypatch.setattr(doctor_store, "LONG_WAIT", 0.0)
    ((level, finding),) = limits()
    assert level == "ok"
    assert finding.startswith("the oldest due job of openai waits for ")
    assert "and all permits are used (1 running); see headway queues show openai" in finding
    (queues,) = [each for each in shop.examined() if each["subject"] == "queues"]
    assert queues["level"] == "ok"  # more workers would not help
    shop.run("queues", "limit", "openai", "--running", "3")
    assert limits()[0][1].startswith("1 queue with limits")
    (queues,) = [each for each in shop.examined() if each["subject"] == "queues"]
    assert queues["level"] == "warn"
    long_ago = datetime.now(UTC) - timedelta(days=8)
    shop.change(limits=structs.replace(_limits(shop), overridden_at=long_ago))
    ((level, finding),) = limits()
    assert level == "ok"
    assert finding.startswith(
        "the limits of openai were overridden 8 d ago: 3 running instead of 1 running; to take "
        "that back: headway queues limit openai --clear"
    )
    shop.run("queues", "limit", "openai", "--clear")
    shop.hold(30)
    ((level, finding),) = limits()
    assert (level, "openai is held until " in finding) == ("ok", True)
    shop.hold(7_200)
    ((level, finding),) = limits()
    assert (level, "(for 2 h)" in finding or "(for 1 h 59 m)" in finding) == ("warn", True)


def _limits(shop: Shop) -> Any:
    return shop.do(lambda app: app.store.run(app.store.queue_state, "openai")).limits
