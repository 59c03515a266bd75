"""`make demo`: the shop on a SQLite file in a temporary folder, with worker processes."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STARTED = time.monotonic()


def say(text: str = "") -> None:
    print(f"{time.monotonic() - STARTED:5.1f} s  {text}" if text else "", flush=True)


def start_worker() -> subprocess.Popen[bytes]:
    with worker_log().open("ab") as log:
        worker = subprocess.Popen([sys.executable, Path(__file__).with_name("shop.py")], stderr=log)
    atexit.register(worker.kill)
    return worker


def worker_log() -> Path:
    return Path(os.environ["SHOP_DB"]).with_name("worker.log")


async def main() -> None:
    from examples.shop import DATABASE, app, charge, pack, report_tax, send_email, ship, tax_office
    from headway import JobState
    from headway.errors import ResultFailed

    say(f"the shop's database is {DATABASE}; the queue lives in the same file")
    async with app:
        worker = start_worker()
        say(f"a worker runs as process {worker.pid}")
        say()

        say("1. a job, started and awaited")
        payment = await app.start(charge.request(7, 1999))
        say(f"   charge returned {await payment.result(timeout=20)!r}")
        say()

        say("2. a job that fails twice and is tried again")
        email = await app.start(send_email.request("ada@example.com"))
        say(f"   send_email: {await email.result(timeout=20)}")
        for attempt in await app.attempts(email.id):
            say(f"   kept in its history: attempt {attempt.version} {attempt.outcome}")
        say()

        say("3. a job without attempts left is kept as a dead letter, and can be retried")
        tax = await app.start(report_tax.request(7))
        try:
            await tax.result(timeout=20)
        except ResultFailed as error:
            say(f"   dead-lettered: {error.failure}")
        tax_office().touch()
        await app.retry(tax)
        say(f"   the tax office is open, the job is retried: {await tax.result(timeout=20)}")
        say()

        say("4. a worker is killed with a job in its hands")
        packing = await app.start(pack.request(7))
        shipping = await app.start(ship.request(7).using(blockers=(payment, packing)))
        say(f"   ship waits for payment and packing; it is {(await app.get(shipping)).state}")
        while (await app.get(packing)).state is not JobState.RUNNING:
            await asyncio.sleep(0.05)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        killed = time.monotonic()
        say(f"   process {worker.pid} packs, and is killed with SIGKILL")
        worker = start_worker()
        say(f"   another worker starts as process {worker.pid}")
        say(f"   {await shipping.result(timeout=30)}")
        record = await app.get(packing)
        say(
            f"   {time.monotonic() - killed:.1f} s after the kill; the lease was 2 s, the job was "
            f"claimed {record.lease_version} times and completed once"
        )
        say()

        say("5. the worker is asked to stop")
        worker.send_signal(signal.SIGTERM)
        say(f"   it finishes its jobs and exits with {worker.wait(20)}")
        states: dict[str, int] = {}
        for count in await app.counts():
            states[count.state] = states.get(count.state, 0) + count.count
        say(f"   in the database: {', '.join(f'{n} {state}' for state, n in states.items())}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="headway-demo-") as folder:
        os.environ["SHOP_DB"] = str(Path(folder) / "shop.db")
        sys.path.insert(0, str(Path(__file__).parent.parent))
        try:
            asyncio.run(main())
        except BaseException:
            print(f"the workers said:\n{worker_log().read_text()}", file=sys.stderr)
            raise
