"""An order: payment and packing run side by side; shipping waits for both, gets their results and
continues with a message to the customer. Run it: `python examples/order.py`
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from headway import Continuation, Headway, Job

FOLDER = Path(tempfile.mkdtemp(prefix="headway-order-"))
app = Headway(f"sqlite:///{FOLDER}/orders.db")


@dataclass
class Parcel:
    order_id: int
    grams: int


@app.job(queue="payments")
async def charge(order_id: int, cents: int) -> str:
    await asyncio.sleep(0.2)
    print(f"charge: order {order_id} is paid, {cents / 100:.2f} EUR")
    return f"receipt-{order_id}"


@app.job(queue="warehouse")
async def pack(order_id: int, items: list[str]) -> Parcel:
    await asyncio.sleep(0.1)
    print(f"pack:   order {order_id} is packed: {', '.join(items)}")
    return Parcel(order_id, grams=350 * len(items))


@app.job
async def ship(job: Job[str, Parcel], address: str) -> Continuation[str]:
    receipt, parcel = job.blockers  # a str and a Parcel, and type checkers know
    print(f"ship:   {parcel.grams} g go to {address}, with {receipt}")
    return job.continue_with(tell.request("ada@example.com", f"track-{parcel.order_id}"))


@app.job(entry=False)
async def tell(to: str, tracking: str) -> str:
    print(f"tell:   {to} can follow {tracking}")
    return tracking


async def main() -> None:
    async with app:
        worker = app.worker()
        await worker.start()
        order = await app.start(
            ship.request("12 Analytical Row").using(
                blockers=(charge.request(7, 1999), pack.request(7, ["gears", "cards"]))
            )
        )
        print(f"the order is {(await order.get()).state} until it is paid and packed")
        tracking: str = await order.result(timeout=10)  # the result of the last job
        jobs = (await app.list(sequence=order)).jobs[::-1]
        print(f"done: {tracking}, by way of {' and '.join(job.type for job in jobs)}")
        await worker.stop()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    finally:
        shutil.rmtree(FOLDER)
