"""A small shop, for `make demo` and `headway worker examples/shop.py`.

The queue and the table of the shop are in the SQLite file that SHOP_DB names. Run as a program, it
is a worker that needs no more than Headway itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from headway import Fixed, Headway, Job

DATABASE = os.environ.get("SHOP_DB", "shop.db")
app = Headway(f"sqlite:///{DATABASE}")


@app.job
async def charge(order_id: int, cents: int) -> str:
    """Succeeds at once."""
    return f"receipt-{order_id}-{cents}"


@app.job(retry=Fixed(0.3))
async def send_email(job: Job, to: str) -> str:
    """Its mail server is down for the first two attempts."""
    if job.attempt < 3:
        raise ConnectionError("the mail server is not there yet")
    return f"delivered to {to} on attempt {job.attempt}"


@app.job(max_attempts=2, retry=Fixed(0.2))
async def report_tax(order_id: int) -> str:
    """Fails until the tax office opens (somebody creates the file)."""
    if not tax_office().exists():
        raise RuntimeError("the tax office is closed")
    return f"order {order_id} reported"


@app.job
async def pack(order_id: int) -> str:
    """Takes a while, so that its worker can be killed in the middle of it."""
    with closing(sqlite3.connect(DATABASE)) as connection, connection:
        connection.execute("create table if not exists packing (order_id int, pid int)")
        connection.execute("insert into packing values (?, ?)", (order_id, os.getpid()))
    await asyncio.sleep(1.5)
    return f"packed by process {os.getpid()}"


@app.job
async def ship(job: Job[str, str], order_id: int) -> str:
    """Runs when payment and packing are done; gets their results."""
    receipt, packed = job.blockers
    return f"order {order_id} shipped ({receipt}, {packed})"


def tax_office() -> Path:
    return Path(DATABASE).with_name("tax-office-is-open")


async def work() -> None:
    """Run jobs until SIGTERM, with short leases: the jobs of a killed worker come back soon."""
    async with app:
        worker = app.worker(lease_for=2)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.request_stop)
        await worker.run()


if __name__ == "__main__":
    asyncio.run(work())
