"""What the workers of the kill test run; the database is named by the environment."""

from __future__ import annotations

import asyncio
import os
import random

from headway import Headway, Job

app = Headway(os.environ["KILLS_DSN"])


@app.job(max_losses=100)
async def touch(job: Job, n: int) -> str:
    """Says which execution it was, so that a stale one would show in the row."""
    await asyncio.sleep(random.uniform(0.0, 0.1))
    return f"{os.getpid()}:{job.lease.version}"
