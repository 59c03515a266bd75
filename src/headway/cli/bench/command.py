"""`headway bench DSN`: figures on stdout, progress on stderr if somebody watches."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from typing import Any

import click

from headway.cli.bench.database import bench_database
from headway.cli.bench.measurements import LARGE, measure
from headway.cli.event_loop import run_loop

MEASURED = {
    "A": "start one at a time",
    "B": "start {jobs:,} in bulk",
    "C": "drain, one worker process",
    "D": "drain, two worker processes",
    "E": "from start to handler, a job every 20 ms",
    "F": "from start to result",
    "G": "drain {large:,}, one worker process",
    "H": "memory of a worker process",
}


def run_bench(dsn: str, *, jobs: int, as_json: bool) -> None:
    run_loop(_bench(dsn, jobs, as_json=as_json))


async def _bench(dsn: str, jobs: int, *, as_json: bool) -> None:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    interrupted = False

    def stop() -> None:
        nonlocal interrupted
        if not interrupted:  # what was made has to be removed, once
            interrupted = True
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows: KeyboardInterrupt cancels too
            loop.add_signal_handler(number, stop)
    try:
        async with bench_database(dsn) as database:
            about = await asyncio.to_thread(database.describe)
            found = await measure(database, jobs, _say)
    except asyncio.CancelledError:
        raise click.ClickException(
            "interrupted; what was made for the benchmark is removed"
        ) from None
    if as_json:
        click.echo(json.dumps({**about, "jobs": jobs, "measured": found}, indent=2))
    else:
        click.echo(_table(about, jobs, found))


def _say(text: str) -> None:
    if sys.stderr.isatty():
        click.echo(text, err=True)


def _table(about: dict[str, str], jobs: int, found: dict[str, Any]) -> str:
    head = ", ".join(
        value if name == "store" else f"{name}={value}" for name, value in about.items()
    )
    lines = [head]
    for letter, measured in found.items():
        match measured:
            case {"jobs_per_second": rate}:
                figure = f"{rate:,.0f} jobs/s"
            case {"milliseconds": waits}:
                figure = ", ".join(f"{name} {value:.1f} ms" for name, value in waits.items())
            case _:
                figure = f"{measured['megabytes']:.0f} MB"
        what = MEASURED[letter].format(jobs=jobs, large=LARGE * jobs)
        if about["store"] == "memory":
            what = what.replace("one worker process", "in this process")
        lines.append(f"{letter}  {what:<42}{figure}")
    return "\n".join(lines)
