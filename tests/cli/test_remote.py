"""The same commands against a dashboard: same answers, same levers, same exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from headway import Every
from tests.cli.command import command, printed
from tests.cli.populated_store import Populated, make_app, populate

SCHEDULE = "tenants/7:sync"
TOKEN = "a-token-that-is-long-enough"
APP = """
from headway import Headway

app = Headway({dsn!r})


@app.job
async def charge(order_id: int, note: str = "") -> str:
    return f"receipt-{{order_id}}"
"""


@contextmanager
def dashboard(folder: Path, dsn: str, *options: str, **environment: str) -> Iterator[str]:
    """A dashboard in a process of its own; its address."""
    (folder / "served.py").write_text(APP.format(dsn=dsn))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / f"dashboard-{port}.txt"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "headway",
                "dashboard",
                "served.py",
                "--port",
                str(port),
                *options,
            ],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + 30
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0, log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.wait()


class Served:
    def __init__(self, folder: Path, dsn: str, url: str, jobs: Populated) -> None:
        self.folder = folder
        self.dsn = dsn
        self.url = url
        self.jobs = jobs
        self.environment = {"HEADWAY_TOKEN": TOKEN}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    dsn = f"sqlite:///{folder / 'shop.db'}"
    jobs = populate(dsn)
    app = make_app(dsn)
    charge: Any = app.request("charge", order_id=7)
    with app.sync as client:
        client.schedules.put(SCHEDULE, Every(hours=1), charge)
    with dashboard(folder, dsn, "--write", HEADWAY_TOKEN=TOKEN) as url:
        yield Served(folder, dsn, url, jobs)


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs", "list"),
        ("jobs", "list", "state:failed", 'args.order_id:"8"'),
        ("jobs", "list", "-n", "3"),
        ("jobs", "show", "failed"),
        ("jobs", "show", "failed[-8:]"),
        ("jobs", "list", "office"),
        ("sequences", "list"),
        ("sequences", "show", "sequence"),
        ("sequences", "tree", "blocked"),
        ("workers", "list"),
        ("queues", "show", "default"),
        ("jobs", "list", "key:tenant-7", "dedup:order-7"),
        ("schedules", "list"),
        ("schedules", "list", "tenants", "--state", "active"),
        ("schedules", "show", SCHEDULE),
        ("why", SCHEDULE),
    ],
    ids=" ".join,
)
def test_the_same_answers(served: Served, arguments: tuple[str, ...]) -> None:
    named = [getattr(served.jobs, word, word) for word in arguments]
    named = [served.jobs.failed[-8:] if word == "failed[-8:]" else word for word in named]
    here = printed(*named, "-a", served.dsn)
    there = printed(*named, "-a", served.url, env=served.environment)
    assert without_times(there) == without_times(here)


def without_times(shown: object) -> str:
    """Sentences tell how long ago something was, and that changes."""
    text = re.sub(r"\d+(\.\d+)? (ms|s|m|h|d)( \d+ [smh])?", "SOME TIME", json.dumps(shown))
    return re.sub(r'"(cursor|token)": "[^"]+"', "", text)


def test_text_too(served: Served) -> None:
    for arguments in (("stats",), ("queues", "list"), ("why", served.jobs.failed)):
        result = command(*arguments, "-a", served.url, env=served.environment)
        assert result.exit_code == 0, result.stderr
        assert result.stdout


def test_the_environment_may_name_it(served: Served) -> None:
    env: dict[str, str | None] = {**served.environment, "HEADWAY_APP": served.url}
    assert len(printed("jobs", "list", env=env)["jobs"]) >= 9


def test_levers(served: Served) -> None:
    def run(*arguments: str) -> str:
        result = command(*arguments, "-a", served.url, env=served.environment)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    id = run("start", "charge", '{"order_id": 99}', "--in", "1h", "--queue", "later").strip()
    assert printed("jobs", "show", id, "-a", served.dsn)["job"]["queue"] == "later"
    assert run("jobs", "trigger", id) == "1 job triggered\n"
    assert run("jobs", "cancel", "queue:later", "--yes") == "1 job cancelled\n"
    assert run("jobs", "retry", id) == "1 job retried\n"
    assert run("queues", "pause", "later") == "later paused\n"
    (queue,) = [q for q in printed("queues", "list", served.dsn) if q["name"] == "later"]
    assert queue["paused_at"] is not None
    assert run("queues", "resume", "later") == "later resumed\n"
    assert run("jobs", "cancel", id[-8:], "-y") == "1 job cancelled\n"
    assert run("jobs", "delete", id, "-y") == "1 job deleted\n"
    mistyped = command("queues", "pause", "latr", "-a", served.url, env=served.environment)
    assert mistyped.stderr.startswith("Warning: no job, worker or job type uses queue latr")


def test_levers_of_limits(served: Served) -> None:
    def run(*arguments: str) -> str:
        result = command(*arguments, "-a", served.url, env=served.environment)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def override() -> Any:
        return printed("queues", "show", "slow", "-a", served.dsn)["queue"]["permits"]["override"]

    start = ("start", "charge", '{"order_id": 99}', "--in", "1h", "--queue", "slow")
    id = run(*start, "--key", "tenant-7", "--dedup", "order-99").strip()
    assert run(*start, "--dedup", "order-99").strip() == id
    job = printed("jobs", "show", id, "-a", served.dsn)["job"]
    assert (job["key"], job["dedup_key"]) == ("tenant-7", "order-99")
    limit = ("queues", "limit", "slow")
    assert run(*limit, "--running", "4", "--rate", "90/60s", "--burst", "10") == (
        "slow: 4 running; 90 in 60 s, 10 at once (overridden: running, rate)\n"
    )
    assert override() == {"running": 4, "rate": {"limit": 90, "per": 60.0, "burst": 10}}
    assert run(*limit, "--rate", "none") == "slow: 4 running (overridden: running, rate)\n"
    assert override() == {"running": 4, "rate": None}
    assert "0 of 4 used, 4 free" in run("queues", "show", "slow")
    assert run(*limit, "--clear") == "slow: no limits\n"
    assert run("queues", "release", "slow") == "slow: was not held\n"
    assert run("jobs", "cancel", id, "-y") == "1 job cancelled\n"
    assert run("jobs", "delete", id, "-y") == "1 job deleted\n"


def test_levers_of_schedules(served: Served) -> None:
    def run(*arguments: str) -> str:
        result = command(*arguments, "-a", served.url, env=served.environment)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    assert run("schedules", "pause", SCHEDULE) == f"{SCHEDULE} paused\n"
    assert printed("why", SCHEDULE, "-a", served.dsn)["reason"] == "paused"
    assert run("schedules", "resume", SCHEDULE).startswith(f"{SCHEDULE} resumed, next tick at ")
    id = run("schedules", "trigger", SCHEDULE).strip()
    assert printed("jobs", "show", id, "-a", served.dsn)["job"]["schedule"] == SCHEDULE
    since = (datetime.now(UTC) - timedelta(minutes=90)).isoformat()
    backfill = ("schedules", "backfill", SCHEDULE, "--since", since, "--at-most", "1", "--yes")
    assert run(*backfill) == "1 job started\n"
    assert run(*backfill) == "0 jobs started; 1 tick had a job already\n"
    app = make_app(served.dsn)
    charge: Any = app.request("charge", order_id=7)
    with app.sync as client:
        client.schedules.put("b/../c", Every(hours=1), charge)
    assert "every 1 h" in run("schedules", "show", "b/../c")
    assert run("schedules", "delete", "b/../c", "-y") == "b/../c deleted\n"


def test_waiting_for_a_result(served: Served) -> None:
    def start(order_id: int, timeout: str) -> Result:
        return command(
            *("start", "charge", f'{{"order_id": {order_id}}}', "--wait", "--timeout", timeout),
            *("-a", served.url),
            env=served.environment,
        )

    late = start(100, "100ms")
    assert (late.exit_code, late.stdout) == (6, "")
    assert "is still pending after 0.1 seconds" in late.stderr
    worker = subprocess.Popen(
        [sys.executable, "-m", "headway", "worker", str(served.folder / "served.py")],
        stderr=subprocess.DEVNULL,
    )
    try:
        assert start(101, "30s").stdout == '"receipt-101"\n'
    finally:
        worker.kill()
        worker.wait()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("jobs", "show", "01a1dd6f-c9a4-7ff5-8e0a-3cbb8ab1c3a6"), 3, "there is no job"),
        (("jobs", "show", "../../etc/passwd"), 2, "../../etc/passwd"),
        (("jobs", "list", "color:red"), 2, "a filter has no key"),
        (("start", "nothing"), 2, "unknown job type"),
        (("schedules", "show", "nothing"), 3, "there is no schedule 'nothing'"),
        (("schedules", "pause", "no name"), 2, "is not allowed"),
        (("why", "nothing"), 3, "there is no schedule 'nothing', and it is no id of a job"),
        (("why", "beefbeef"), 3, "neither a schedule 'beefbeef' nor a job whose id ends so"),
        (("worker",), 2, "not a server"),
        (("migrate", "up"), 2, "not a server"),
        (("queues", "drain", "default"), 2, "not a server"),
    ],
)
def test_exit_codes(served: Served, arguments: tuple[str, ...], code: int, sentence: str) -> None:
    result = command(*arguments, "-a", served.url, env=served.environment)
    assert result.exit_code == code, result.output
    assert sentence in result.stderr


def test_who_is_not_let_in(served: Served) -> None:
    for token in (None, "another-token-that-is-long"):
        result = command("stats", served.url, env={"HEADWAY_TOKEN": token})
        assert result.exit_code == 5
        assert "set HEADWAY_TOKEN" in result.stderr


def test_read_only_and_with_a_password(tmp_path: Path) -> None:
    dsn = f"sqlite:///{tmp_path / 'shop.db'}"
    jobs = populate(dsn)
    password = {"HEADWAY_DASHBOARD_PASSWORD": "correct horse"}
    with dashboard(tmp_path, dsn, "--user", "ada", **password) as url:
        address = url.replace("http://", "http://ada:correct%20horse@")
        assert printed("jobs", "show", jobs.failed, "-a", address)["job"]["id"] == jobs.failed
        refused = command("jobs", "retry", jobs.failed, "-a", address)
        assert refused.exit_code == 5
        assert "is read-only; it was started without --write" in refused.stderr
        assert "horse" not in refused.output


def test_nobody_is_there_or_somebody_else(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{probe.getsockname()[1]}"
    result = command("stats", away)
    assert result.exit_code == 4
    assert f"cannot reach {away}" in result.stderr

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.end_headers()
            self.wfile.write(b"<h1>\x1b[31mnot here</h1>")

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        result = command("stats", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()
    assert result.exit_code == 4
    assert "does not look like a Headway dashboard" in result.stderr
