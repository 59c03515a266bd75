"""A script that used `app.sync` and ends without closing it: quietly, and having lost nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from headway import Headway, JobState
from headway.ports.notifications import JobsScheduled, Notification
from tests.support.stores import store_urls

PATIENCE = 60.0

SCRIPT = """
import sys
from headway import Headway

app = Headway(sys.argv[1])

@app.job
async def greet(name: str) -> str:
    return name

print(app.sync.start(greet.request("you")).id)
"""


store_url = store_urls("sqlite", "postgres", "mongodb")


async def test_a_script_ends_quietly_and_its_notifications_are_sent(store_url: str) -> None:
    url = store_url
    if url.startswith("postgres"):
        url = url.replace("127.0.0.1", "localhost")  # a name is looked up in a thread
    heard: asyncio.Queue[Notification] = asyncio.Queue()
    async with Headway(url, migrate=True) as app:
        unsubscribe = await app.notifier.subscribe(heard.put_nowait)
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", SCRIPT, url],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert (await app.get(done.stdout.strip())).state is JobState.PENDING
        async with asyncio.timeout(PATIENCE):
            assert isinstance(await heard.get(), JobsScheduled)
        await unsubscribe()
