"""A worker process that a notifier can be given to, and that knows sequences too.

python -m benchmarks.worker DSN [--drain] [--notifier URL]    # prints READY when it works
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.work import Work
from headway.cli.event_loop import run_loop


@contextmanager
def worker_process(dsn: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.worker", dsn, *options],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "READY":
            raise RuntimeError("the worker did not start")
        yield process
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


async def work(dsn: str, notifier: str | None, concurrency: int, *, drain: bool) -> None:
    async with Work(dsn, notifier).app as app:
        worker = app.worker(concurrency=concurrency)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.request_stop)
        running = asyncio.create_task(worker.run(drain=drain))
        print("READY", flush=True)
        await running


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dsn")
    parser.add_argument("--notifier", help="the store's own by default")
    parser.add_argument("--drain", action="store_true")
    parser.add_argument("--concurrency", type=int, default=100)
    options = parser.parse_args()
    run_loop(work(options.dsn, options.notifier, options.concurrency, drain=options.drain))


if __name__ == "__main__":
    main()
