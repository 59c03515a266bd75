"""Part kill: workers are killed with SIGKILL and frozen beyond their lease, over and over."""

from __future__ import annotations

import random
import signal
import tempfile
import time
from pathlib import Path

from headway import Request
from proof.tools.databases import Database, PostgresDatabase, SqliteDatabase, left
from proof.tools.fork_server import fork_server, kill, wait_until_gone
from proof.tools.invariants import Interruption, check, read_logs, recoveries
from proof.tools.part_run import PartRun
from proof.tools.producer import Producer, StartLog
from proof.tools.work import Work
from tests.support.servers.postgres import PostgresServer

WORKERS = 4
LEASE = 2.0
LENGTH = 4
"""Jobs in a sequence."""
RECOVERY = LEASE + 1.5
SETTINGS = {"lease_for": LEASE, "concurrency": 10, "poll_every": 0.5}


def prove(run: PartRun) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _try(run, SqliteDatabase(f"{folder}/proof.db"), Path(folder))
    with PostgresServer(durable=True) as server, tempfile.TemporaryDirectory() as folder:
        _try(run, PostgresDatabase(server.url(server.create_database())), Path(folder))


def _try(run: PartRun, database: Database, folder: Path) -> None:
    jobs, kills, freezes = (2_000, 20, 8) if run.short else (20_000, 300, 100)
    database.prepare()
    logs = folder / "logs"
    logs.mkdir()
    start_log = StartLog(folder / "start_log")
    state = {"left": 0, "struck": 0}

    def batch(work: Work) -> list[Request[int]]:
        return [work.chain.request(LENGTH - 1, 0.03) for _ in range(50)]

    def wanted() -> bool:
        enough = len(start_log.ids) * LENGTH >= jobs and state["struck"] >= kills + freezes
        return not enough and state["left"] < 1_500

    interruptions: list[Interruption] = []
    with fork_server(folder) as parent:
        producer = Producer(database.dsn, start_log, batch, wanted)
        pids = [parent.spawn(database.dsn, logs, **SETTINGS) for _ in range(WORKERS)]
        frozen: dict[int, float] = {}
        # Kills first: a process that is frozen may hold a lock, and then nobody can recover.
        todo = ["freeze"] * freezes + ["kill"] * kills
        said = looked = time.time()
        deadline = said + (120 if run.short else 420)
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
                    interruptions.append(Interruption(victim, now, frozen[victim]))
                else:
                    kill(victim)
                    interruptions.append(Interruption(victim, now))
                    pids[place_of_victim] = parent.spawn(database.dsn, logs, **SETTINGS)
            if now - looked > 0.25:
                looked = now
                state["left"] = left(database)
                if not todo and not frozen and not state["left"] and not wanted():
                    break
            if now - said > 10:
                said = now
                run.say(
                    f"{database.kind}: {len(todo)} interruptions to come, {state['left']} jobs "
                    f"left of {len(start_log.ids) * LENGTH:,}"
                )
            time.sleep(0.01)
        producer.stop()
        for pid in pids:
            kill(pid, signal.SIGTERM)
        stuck = wait_until_gone(pids, 40)
        run.check(not stuck, f"{database.kind}: {len(stuck)} workers did not stop")
    run.check(not parent.crashes(), f"{database.kind}: {parent.crashes()}")
    run.check(producer.error is None, f"{database.kind}: the producer failed: {producer.error!r}")
    run.check(not todo, f"{database.kind}: time was up with {len(todo)} interruptions to come")
    entries = read_logs(logs)
    check(run, database.kind, database, start_log, entries, LENGTH)
    start_log.close()
    run.figure(f"{database.kind}: interruptions", f"{kills} kills, {freezes} freezes")
    run.figure(f"{database.kind}: jobs", len(start_log.ids) * LENGTH)
    for kind, times in recoveries(database, entries, interruptions).items():
        if not run.check(bool(times), f"{database.kind}: no job was {kind} with its worker"):
            continue
        figures = {"jobs": len(times), "p50": times[len(times) // 2], "max": times[-1]}
        run.figure(f"{database.kind}: recovery s of jobs {kind}", _rounded(figures))
        late = [round(seconds, 2) for seconds in times if seconds > RECOVERY]
        run.check(
            not late,
            f"{database.kind}: {len(late)} {kind} jobs took over {RECOVERY} s: {late[-5:]}",
        )


def _rounded(figures: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in figures.items()}
