"""A recurring job: two workers, a tick each second, and one report for each tick. A report that
fails is tried again, and keeps its tick.
Run it: `python examples/recurring.py`
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from datetime import datetime
from pathlib import Path

from headway import CatchUp, Every, Fixed, Headway, Job

FOLDER = Path(tempfile.mkdtemp(prefix="headway-recurring-"))
app = Headway(f"sqlite:///{FOLDER}/reports.db")

LAST = 3
ticks: list[datetime] = []
ended = asyncio.Event()


@app.job(retry=Fixed(0))
async def report(job: Job, kind: str) -> None:
    tick = job.scheduled_for
    assert tick is not None  # the schedule started it
    if tick not in ticks:
        ticks.append(tick)
    seconds = round((tick - min(ticks)).total_seconds())
    if seconds > LAST:
        return
    if seconds == 1 and job.attempt == 1:
        print(f"{kind} after {seconds} s: fails")
        raise ConnectionError("the printer is on fire")
    print(f"{kind} after {seconds} s: done on attempt {job.attempt}")
    if seconds == LAST:
        ended.set()


app.schedule(
    "hourly-report",
    Every(seconds=1),  # hours=1, if you have the time
    report.request("report"),
    overlap="allow",
    catch_up=CatchUp.all(minutes=1),
)


async def main() -> None:
    async with app:
        workers = [app.worker(), app.worker()]
        for worker in workers:
            await worker.start()
        await asyncio.wait_for(ended.wait(), 30)
        await app.schedules.pause("hourly-report")
        for worker in workers:
            await worker.stop()
        jobs = (await app.list(type=report)).jobs
        print(f"one job for each tick: {len({job.scheduled_for for job in jobs}) == len(jobs)}")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    finally:
        shutil.rmtree(FOLDER)
