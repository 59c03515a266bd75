"""Part kill: workers are killed with SIGKILL and frozen beyond their lease, over and over."""

from __future__ import annotations

import random
import signal
import tempfile
import time
from pathlib import Path

from headway import Request
from proof.tools.databases import Place, PostgresPlace, SqlitePlace, left
from proof.tools.fork_server import kill, nursery, wait_until_gone
from proof.tools.invariants import Strike, check, read_diaries, recoveries
from proof.tools.producer import Ledger, Producer
from proof.tools.report import Trial
from proof.tools.work import Work
from tests.support.servers.postgres import PostgresServer

WORKERS = 4
LEASE = 2.0
LENGTH = 4
"""Jobs in a sequence."""
RECOVERY = LEASE + 1.5
SETTINGS = {"lease_for": LEASE, "concurrency": 10, "poll_every": 0.5}


def prove(trial: Trial) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _try(trial, SqlitePlace(f"{folder}/proof.db"), Path(folder))
    with PostgresServer(durable=True) as server, tempfile.TemporaryDirectory() as folder:
        _try(trial, PostgresPlace(server.url(server.create_database())), Path(folder))


def _try(trial: Trial, place: Place, folder: Path) -> None:
    jobs, kills, freezes = (2_000, 20, 8) if trial.short else (20_000, 300, 100)
    place.prepare()
    logs = folder / "logs"
    logs.mkdir()
    ledger = Ledger(folder / "ledger")
    state = {"left": 0, "struck": 0}

    def batch(work: Work) -> list[Request[int]]:
        return [work.chain.request(LENGTH - 1, 0.03) for _ in range(50)]

    def wanted() -> bool:
        enough = len(ledger.ids) * LENGTH >= jobs and state["struck"] >= kills + freezes
        return not enough and state["left"] < 1_500

    strikes: list[Strike] = []
    with nursery(folder) as parent:
        producer = Producer(place.dsn, ledger, batch, wanted)
        pids = [parent.spawn(place.dsn, logs, **SETTINGS) for _ in range(WORKERS)]
        frozen: dict[int, float] = {}
        # Kills first: a process that is frozen may hold a lock, and then nobody can recover.
        todo = ["freeze"] * freezes + ["kill"] * kills
        said = looked = time.time()
        deadline = said + (120 if trial.short else 420)
        next_strike = said + 1.0
        while time.time() < deadline:
            now = time.time()
            for pid in [pid for pid, until in frozen.items() if until <= now]:
                del frozen[pid]
                kill(pid, signal.SIGCONT)
            if todo and now >= next_strike:
                next_strike = now + random.uniform(0.05, 0.35)
                place_of_victim = random.randrange(WORKERS)
                victim = pids[place_of_victim]
                if victim in frozen:
                    continue
                state["struck"] += 1
                if todo.pop() == "freeze":
                    kill(victim, signal.SIGSTOP)
                    frozen[victim] = now + LEASE * random.uniform(1.1, 1.8)
                    strikes.append(Strike(victim, now, frozen[victim]))
                else:
                    kill(victim)
                    strikes.append(Strike(victim, now))
                    pids[place_of_victim] = parent.spawn(place.dsn, logs, **SETTINGS)
            if now - looked > 0.25:
                looked = now
                state["left"] = left(place)
                if not todo and not frozen and not state["left"] and not wanted():
                    break
            if now - said > 10:
                said = now
                trial.say(
                    f"{place.kind}: {len(todo)} strikes to come, {state['left']} jobs left of "
                    f"{len(ledger.ids) * LENGTH:,}"
                )
            time.sleep(0.01)
        producer.stop()
        for pid in pids:
            kill(pid, signal.SIGTERM)
        stuck = wait_until_gone(pids, 40)
        trial.check(not stuck, f"{place.kind}: {len(stuck)} workers did not stop")
    trial.check(not parent.crashes(), f"{place.kind}: {parent.crashes()}")
    trial.check(producer.error is None, f"{place.kind}: the producer failed: {producer.error!r}")
    trial.check(not todo, f"{place.kind}: time was up with {len(todo)} strikes to come")
    entries = read_diaries(logs)
    check(trial, place.kind, place, ledger, entries, LENGTH)
    ledger.close()
    trial.figure(f"{place.kind}: strikes", f"{kills} kills, {freezes} freezes")
    trial.figure(f"{place.kind}: jobs", len(ledger.ids) * LENGTH)
    for kind, times in recoveries(place, entries, strikes).items():
        if not trial.check(bool(times), f"{place.kind}: no job was {kind} with its worker"):
            continue
        figures = {"jobs": len(times), "p50": times[len(times) // 2], "max": times[-1]}
        trial.figure(f"{place.kind}: recovery s of jobs {kind}", _rounded(figures))
        late = [round(seconds, 2) for seconds in times if seconds > RECOVERY]
        trial.check(
            not late, f"{place.kind}: {len(late)} {kind} jobs took over {RECOVERY} s: {late[-5:]}"
        )


def _rounded(figures: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in figures.items()}
