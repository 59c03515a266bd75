"""`headway doctor` finds what is wrong, and says what to do."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from headway import Headway
from headway.cli.doctor import postgres
from tests.cli.command import command


def findings(dsn: str, code: int = 0) -> dict[str, list[dict[str, str]]]:
    result = command("doctor", dsn, "--json")
    assert result.exit_code == code, result.output
    found: dict[str, list[dict[str, str]]] = {}
    for each in json.loads(result.stdout):
        found.setdefault(each["subject"], []).append(each)
    return found


def levels(found: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {subject: max(each["level"] for each in many) for subject, many in found.items()}


def migrated(dsn: str) -> str:
    assert command("migrate", "up", dsn).exit_code == 0
    return dsn


def test_a_healthy_sqlite_file(sqlite_path: Path) -> None:
    diagnoses = findings(migrated(f"sqlite:///{sqlite_path}"))
    (versions,), (extras,) = diagnoses["versions"], diagnoses["extras"]
    for package in ("click", "cronsim", "tzdata"):
        assert f", {package} " in versions["finding"]
    assert f"schedules ({version('cronsim')}), cli ({version('click')})" in extras["finding"]
    found = levels(diagnoses)
    assert found.pop("code") == "warn"  # a DSN has no job types
    assert set(found.values()) == {"ok"}, found


def test_a_healthy_server(postgres_url: str) -> None:
    found = findings(migrated(postgres_url), code=1)
    fsync = [each["finding"] for each in found.pop("durability")]
    assert "fsync is off" in fsync[0]  # the tests' server forgets on a crash, for speed
    found.pop("code")
    assert set(levels(found).values()) == {"ok"}, found


def test_every_line_for_people(sqlite_path: Path) -> None:
    result = command("doctor", migrated(f"sqlite:///{sqlite_path}"))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert any(line.startswith("ok    schema: up to date, ") for line in lines)
    (place,) = [place for place, line in enumerate(lines) if line.startswith("warn  code: ")]
    assert lines[place + 1].startswith("      Name the app")


def test_no_schema_and_no_server(postgres_url: str) -> None:
    found = findings(postgres_url, code=1)
    assert found["schema"][0]["level"] == "fail"
    assert found["schema"][0]["advice"] == f"Run: headway migrate up -a {postgres_url}"
    away = findings("postgresql://me:topsecret@127.0.0.1:1/shop", code=1)
    assert away["store"][0]["level"] == "fail"
    assert "topsecret" not in str(away)


def test_asking_does_not_make_a_file(sqlite_path: Path) -> None:
    findings(f"sqlite:///{sqlite_path}", code=1)
    assert not sqlite_path.exists()


def test_an_old_transaction_is_named(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "OLD_TRANSACTION", 0.0)
    migrated(postgres_url)
    with psycopg.connect(postgres_url, application_name="forgetful") as connection:
        pid = connection.execute("select pg_backend_pid()").fetchone()
        assert pid is not None
        (found,) = [
            each
            for each in findings(postgres_url, code=1)["transactions"]
            if "forgetful" in each["finding"]
        ]
    assert found["level"] == "warn"
    assert f"pg_terminate_backend({pid[0]})" in found["advice"]


def test_settings_that_hurt(postgres_url: str) -> None:
    migrated(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("alter table headway.job set (autovacuum_enabled = false)")
        name = conninfo_to_dict(postgres_url)["dbname"]
        connection.execute(f'alter database "{name}" set synchronous_commit = off'.encode())
    found = findings(postgres_url, code=1)
    assert found["vacuum"][0]["finding"] == "autovacuum is off for headway.job"
    assert any("synchronous_commit is off" in each["finding"] for each in found["durability"])


def test_jobs_that_nobody_runs(sqlite_path: Path) -> None:
    dsn = f"sqlite:///{sqlite_path}"
    app = Headway(dsn)

    @app.job(queue="mail")
    async def letter() -> None: ...

    with app.sync as client:
        client.start(letter.request())
        client.pause("mail")
        workers_of_old(sqlite_path)
        found = findings(dsn, code=1)
    assert any("1 due job waiting" in each["finding"] for each in found["workers"])
    assert any("sent its last heartbeat" in each["finding"] for each in found["workers"])
    assert found["queues"][0]["advice"] == f"Run: headway queues resume mail -a {dsn}"


def workers_of_old(path: Path) -> None:
    """Leave behind a worker that was killed some time ago."""
    code = (
        "import asyncio, os, signal\nfrom headway import Headway\n"
        f"app = Headway('sqlite:///{path}')\n"
        "@app.job\nasync def ping() -> None: ...\n"
        "async def main():\n"
        "    async with app:\n"
        "        await app.worker().start()\n"
        "        while not await app.workers(): await asyncio.sleep(0.01)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=30, env=dict(os.environ))
    with closing(sqlite3.connect(path)) as connection, connection:
        columns: Any = connection.execute("update headway_worker set seen_at = seen_at - 200000000")
        assert columns.rowcount == 1
