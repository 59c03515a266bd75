"""`make soak`: a million jobs with retention on, produced and drained at once.

What is shown is whether it lasts: jobs per second in each tenth, the size of table and indexes, and
the worker's memory. It is run twice: by itself, and while another session holds a transaction open
from the first job to the last, so that vacuum can remove nothing.

Autovacuum looks every 10 seconds instead of every minute, as on a server that runs so many jobs it
should: at 30,000 jobs a second, a run between two of the default's looks is all there is.

All tenths are alike: the backlog is there before the first job runs, time is taken from the first
handler, and the producer goes on until the last of the million is done.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import psycopg

from benchmarks.peers.processes import resident
from benchmarks.steady_load import Crew, PostgresCpu, Steady, crew
from tests.support.servers.postgres import PostgresServer

NAPTIME = "10s"
LEAST = 0.8
"""What the last tenth has to be of the first."""
TENTHS = 10
SIZES = """select pg_table_size('headway.job') / 1e6, pg_indexes_size('headway.job') / 1e6,
    coalesce(n_live_tup, 0), coalesce(n_dead_tup, 0)
    from pg_stat_user_tables where schemaname = 'headway' and relname = 'job'"""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def soak(server: PostgresServer, options: argparse.Namespace, *, held: bool) -> dict[str, Any]:
    dsn = server.url(server.create_database())
    # As many more as there are ahead: the producer does not end before what is measured does.
    produced = options.jobs + options.backlog
    told = Steady(dsn, jobs=produced, keep=options.keep, backlog=options.backlog)
    with (
        crew(told) as hands,
        psycopg.connect(dsn, autocommit=True) as watcher,
        ExitStack() as stack,
    ):
        watcher.execute(f"alter system set autovacuum_naptime = '{NAPTIME}'".encode())
        watcher.execute("select pg_reload_conf()")
        cpu = PostgresCpu(watcher)
        hands.hire(options.workers)
        if held:
            holder = stack.enter_context(psycopg.connect(dsn))
            holder.execute("set transaction isolation level repeatable read")
            holder.execute("select count(*) from headway.job")
        producer = hands.produce()
        wait_for_backlog(watcher, min(options.backlog, options.jobs))
        spent = cpu.read()
        hands.probe.open_gate()
        tenths: list[dict[str, float]] = []
        samples: list[dict[str, float]] = []
        began = last = wait_for_first(hands)
        while len(tenths) < TENTHS:
            hands.check()
            if producer.poll() not in (None, 0):
                raise RuntimeError(f"the producer ended with {producer.returncode}")
            seen, now = hands.probe.read(), time.monotonic()
            if now - began > options.limit:
                raise RuntimeError(f"{seen.count} jobs were done after {options.limit:.0f} s")
            if now - last >= options.every:
                samples.append(
                    {"second": now - began, "jobs": seen.count, **sample(watcher, hands)}
                )
                last = now
            if seen.count >= options.jobs * (len(tenths) + 1) // TENTHS:
                tenths.append({"second": now - began, **sample(watcher, hands)})
                state = "held" if held else "plain"
                say(f"{state}: {len(tenths)} tenths after {now - began:.0f} s")
            time.sleep(0.01)
        spent = cpu.read() - spent
        wait_until_recorded(watcher, hands, produced)
    return report_on(tenths, samples, options.jobs, spent)


def sample(watcher: psycopg.Connection, hands: Crew) -> dict[str, float]:
    row = watcher.execute(SIZES).fetchone()
    assert row is not None
    names = ("table MB", "indexes MB", "live rows", "dead rows")
    return {
        **{name: float(value) for name, value in zip(names, row, strict=True)},
        "worker MB": max(resident(worker.pid) for worker in hands.workers),
    }


def wait_for_backlog(watcher: psycopg.Connection, backlog: int) -> None:
    deadline = time.monotonic() + 120
    sql = "select count(*) from headway.job where state = 'pending'"
    while (row := watcher.execute(sql).fetchone()) and row[0] < backlog:
        if time.monotonic() > deadline:
            raise RuntimeError(f"only {row[0]} of {backlog} jobs were started")
        time.sleep(0.05)


def wait_for_first(hands: Crew) -> float:
    """When the first handler ran."""
    deadline = time.monotonic() + 60
    while not (seen := hands.probe.read()).count:
        hands.check()
        if time.monotonic() > deadline:
            raise RuntimeError("no job had begun within 60 s")
        time.sleep(0.002)
    return seen.first


def wait_until_recorded(watcher: psycopg.Connection, hands: Crew, produced: int) -> None:
    """All that was produced is done too, and no handler ran twice or not at all."""
    deadline = time.monotonic() + 120
    sql = "select count(*) from headway.job where state in ('pending', 'running')"
    while (row := watcher.execute(sql).fetchone()) and (
        row[0] or hands.probe.read().count < produced
    ):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{row[0]} jobs were not completed")
        time.sleep(0.05)
    if (ran := hands.probe.read().count) != produced:
        raise RuntimeError(f"{produced} jobs were started, {ran} handlers ran")


def report_on(
    tenths: list[dict[str, float]], samples: list[dict[str, float]], jobs: int, cpu: float
) -> dict[str, Any]:
    before = 0.0  # seconds are counted from the first handler
    for tenth in tenths:
        tenth["jobs/s"] = jobs / TENTHS / (tenth["second"] - before)
        before = tenth["second"]
    return {
        "tenths": tenths,
        "samples": samples,
        "last / first": tenths[-1]["jobs/s"] / tenths[0]["jobs/s"],
        "worker grew by MB": tenths[-1]["worker MB"] - tenths[1]["worker MB"],
        "postgres µs per job": cpu / jobs * 1e6,
    }


def markdown(results: dict[str, Any]) -> str:
    about = (
        f"{results['jobs']:,} jobs, kept for {results['keep']:.0f} s once completed, produced and "
        f"drained at once by {results['workers']} worker process(es); autovacuum_naptime = "
        f"{results['naptime']}. `{results['command']}`"
    )
    lines = [about]
    titles = {"plain": "By itself", "held": "While a transaction is open all the time"}
    columns = ("jobs/s", "table MB", "indexes MB", "live rows", "dead rows", "worker MB")
    for name, run in results["runs"].items():
        verdict = "as it should be" if run["last / first"] >= LEAST else f"less than {LEAST}"
        found = (
            f"**{titles[name]}**: the last tenth is {run['last / first']:.2f} of the first "
            f"({verdict}); the worker grew by {run['worker grew by MB']:.1f} MB since the second "
            f"tenth; PostgreSQL spent {run['postgres µs per job']:.0f} µs of CPU per job, starting "
            "included."
        )
        head = "| tenth | " + " | ".join(columns) + " |"
        lines += ["", found, "", head, "|--:|" + "--:|" * len(columns)]
        for number, tenth in enumerate(run["tenths"], 1):
            lines.append(
                f"| {number} | " + " | ".join(f"{tenth[name]:,.0f}" for name in columns) + " |"
            )
    return "\n".join(lines) + "\n"


def _terminated(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", type=float, default=10.0, help="retention in seconds")
    parser.add_argument("--backlog", type=int, default=20_000, help="how far producing runs ahead")
    parser.add_argument("--hold", choices=("no", "yes", "both"), default="both")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between samples")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds that a run may take")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, help="write the report here, not to stdout")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _terminated)
    runs = {"no": ["plain"], "yes": ["held"], "both": ["plain", "held"]}[options.hold]
    results: dict[str, Any] = {
        "command": "make soak" + (f' ARGS="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else ""),
        "jobs": options.jobs,
        "keep": options.keep,
        "naptime": NAPTIME,
        "workers": options.workers,
        "runs": {},
    }
    for run in runs:
        with PostgresServer(durable=True) as server:
            results["runs"][run] = soak(server, options, held=run == "held")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if options.markdown:
        options.markdown.write_text(markdown(results))
    else:
        print(markdown(results), end="")


if __name__ == "__main__":
    main()
