"""A recurring job: each run starts the next one, under its own deduplication key. So at most one
run is waiting, however often the report is started or a run is tried again.
Run it: `python examples/recurring.py`
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from headway import After, Dedup, Fixed, Headway, Job

FOLDER = Path(tempfile.mkdtemp(prefix="headway-recurring-"))
app = Headway(f"sqlite:///{FOLDER}/reports.db")

KEY = "hourly-report"
LAST = 4
ended = asyncio.Event()


@app.job(retry=Fixed(0))
async def report(job: Job, number: int) -> None:
    if number < LAST:
        # An incomplete sequence with this key would stand in the way, and this one is not complete
        # yet: its own does not count.
        following = await app.start(
            report.request(number + 1),
            dedup=Dedup(KEY, but_not=job.sequence_id),
            schedule=After(seconds=0.5),  # hours=1, if you have the time
        )
        found = "found scheduled" if following.deduplicated else "scheduled"
        print(f"report {number}: the next one is {found}")
    if number == 2 and job.attempt == 1:
        print(f"report {number}: fails, after the next one was scheduled")
        raise ConnectionError("the printer is on fire")
    print(f"report {number}: done on attempt {job.attempt}")
    if number == LAST:
        ended.set()


async def main() -> None:
    async with app:
        worker = app.worker()
        await worker.start()
        first = await app.start(report.request(1), dedup=Dedup(KEY), schedule=After(seconds=0.2))
        again = await app.start(report.request(1), dedup=Dedup(KEY))
        print(f"started twice: {'the same sequence' if again.id == first.id else 'two sequences'}")
        await asyncio.wait_for(ended.wait(), 20)
        await worker.stop()
        print(f"{len((await app.list(type=report)).jobs)} reports in all")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    finally:
        shutil.rmtree(FOLDER)
