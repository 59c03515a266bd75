"""`headway worker`: runs jobs."""

from __future__ import annotations

import threading
from datetime import timedelta

import click

from headway.app import Headway
from headway.cli.target import app_argument
from headway.cli.times import duration
from headway.cli.worker.process import run_worker
from headway.cli.worker.supervisor import supervise
from headway.domain.job import JobState
from headway.errors import InvalidRequest
from headway.worker.settings import Retention, WorkQueue


@click.command()
@app_argument
@click.option("--queues", help="Queues, in order: a,b or with limits a=10,b=2.")
@click.option("--weights", help="Shares of the queues: a=3,b=1.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), help="Jobs run at once per process.  [default: 50]"
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Worker processes; one that dies is replaced.",
)
@click.option("--drain", is_flag=True, help="Stop when no job is due.")
@click.option("--lease", type=duration, help="Length of a lease.  [default: 30s]")
@click.option(
    "--grace", type=duration, help="Time for running jobs to finish on shutdown.  [default: 30s]"
)
@click.option(
    "--retention",
    help="Retention of finished jobs: completed=1d,cancelled=1d,failed=forever."
    "  [default: 7d, failed forever]",
)
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="Serve /metrics, /livez and /readyz there; each of several processes on the next port.",
)
@click.option("--no-schedules", is_flag=True, help="Fire no schedules; other workers do.")
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
def worker(
    app: Headway,
    queues: str | None,
    weights: str | None,
    concurrency: int | None,
    processes: int,
    drain: bool,
    lease: float | None,
    grace: float | None,
    retention: str | None,
    http: str | None,
    no_schedules: bool,
    verbose: bool,
) -> None:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C stops claiming, lets running jobs finish within the grace time and gives the
    rest back; a second one stops at once.
    """
    if processes > 1 and threading.current_thread() is not threading.main_thread():
        raise click.UsageError(
            "--processes needs the main thread, which hears the signals that stop them; "
            "leave it out, or start several workers"
        )
    if processes > 1:
        raise SystemExit(supervise(processes))
    raise SystemExit(
        run_worker(
            app,
            queues=parse_queues(queues, weights),
            concurrency=concurrency,
            drain=drain,
            lease=lease,
            grace=grace,
            retention=None if retention is None else parse_retention(retention),
            http=http,
            schedules=not no_schedules,
            verbose=verbose,
        )
    )


def parse_queues(queues: str | None, weights: str | None) -> list[WorkQueue] | None:
    """`a,b=10` and `a=3,b=1` to the queues, their limits and weights."""
    if queues is None and weights is None:
        return None
    weighted = _pairs("--weights", weights or "")
    limited = _pairs("--queues", queues) if queues is not None else dict.fromkeys(weighted, "")
    if not limited:
        raise click.UsageError("--queues: name at least one queue")
    if unknown := sorted(weighted.keys() - limited):
        raise click.UsageError(f"--weights names {unknown[0]!r}, which --queues does not")
    try:
        return [
            WorkQueue(name, _limit(name, limit), _weight(name, weighted.get(name)))
            for name, limit in limited.items()
        ]
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error


def parse_retention(text: str) -> Retention:
    """`completed=1d,failed=forever`."""
    known = ("completed", "cancelled", "failed")
    kept: dict[str, timedelta | None] = {}
    for state, much in _pairs("--retention", text).items():
        if state not in known:
            raise click.UsageError(f"--retention: {state!r} is none of {', '.join(known)}")
        kept[state] = None if much == "forever" else timedelta(seconds=duration(much))
    usual = dict(Retention().by_state())
    return Retention(
        completed=kept.get("completed", usual[JobState.COMPLETED]),
        cancelled=kept.get("cancelled", usual[JobState.CANCELLED]),
        failed=kept.get("failed", usual[JobState.FAILED]),
    )


def _pairs(option: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = part.partition("=")
        if name in found:
            raise click.UsageError(f"{option} names {name!r} twice")
        found[name] = value
    return found


def _limit(name: str, text: str) -> int | None:
    if text and not text.isdecimal():
        raise click.UsageError(f"the limit of queue {name!r} is a number, not {text!r}")
    return int(text) if text else None


def _weight(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"the weight of queue {name!r} is a number, not {text!r}") from None
