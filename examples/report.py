"""A report of many parts: one job for each region, side by side, and a job that waits for all of
them and adds up their results. Run it: `python examples/report.py`
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from headway import Fixed, Headway, Job

FOLDER = Path(tempfile.mkdtemp(prefix="headway-report-"))
app = Headway(f"sqlite:///{FOLDER}/reports.db")

SALES = {"north": [12, 30, 7], "south": [5, 5], "east": [40], "west": [1, 2, 3, 4]}
tries: Counter[str] = Counter()


class Part(NamedTuple):
    region: str
    orders: int
    total: int


@app.job(queue="parts", retry=Fixed(0.1))
async def count(region: str) -> Part:
    tries[region] += 1
    if region == "east" and tries[region] == 1:
        raise ConnectionError("the east does not answer")  # tried again; the others do not wait
    sales = SALES[region]
    return Part(region, len(sales), sum(sales))


@app.job
async def add_up(job: Job[*tuple[Part, ...]], title: str) -> str:
    parts = sorted(job.blockers)
    for part in parts:
        print(f"{part.region:<6} {part.orders} orders, {part.total} EUR")
    return f"{title}: {sum(part.total for part in parts)} EUR in {len(parts)} regions"


async def main() -> None:
    async with app:
        worker = app.worker()
        await worker.start()
        report = await app.start(
            add_up.request("November").using(blockers=[count.request(region) for region in SALES])
        )
        print(f"the report is {(await report.get()).state} until all parts are there")
        print(await report.result(timeout=10))
        print(f"the east was asked {tries['east']} times, the north once")
        await worker.stop()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    finally:
        shutil.rmtree(FOLDER)
