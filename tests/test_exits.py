"""A script that used `app.sync` and ends without closing it: quietly, and having lost nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from headway import Headway, JobState
from headway.ports.notifications import JobsScheduled, Notification

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


@pytest.fixture(params=["sqlite", "postgres", "mongodb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    if request.param == "mongodb":
        mongodb: str = request.getfixturevalue("mongo_url")
        return mongodb
    postgres: str = request.getfixturevalue("postgres_url")
    return postgres.replace("127.0.0.1", "localhost")  # a name is looked up in a thread


async def test_a_script_ends_quietly_and_its_notifications_are_sent(url: str) -> None:
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
