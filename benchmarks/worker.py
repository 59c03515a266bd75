"""One worker process: `python -m benchmarks.worker DSN [--drain]`; prints READY when it works."""

from __future__ import annotations

import argparse
import asyncio
import signal

from benchmarks.work import Work


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
    try:
        import uvloop  # noqa: PLC0415 - it may not be installed
    except ModuleNotFoundError:
        run = asyncio.run
    else:
        run = uvloop.run
    run(work(options.dsn, options.notifier, options.concurrency, drain=options.drain))


if __name__ == "__main__":
    main()
