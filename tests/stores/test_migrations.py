"""Migrations can be run again, at once, under hostile names, and by hand."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from msgspec import structs

from headway.domain.job import NewJob
from headway.errors import (
    ConfigurationError,
    InvalidName,
    SchemaMissing,
    SchemaOutdated,
    StoreError,
    StoreUnreachable,
)
from headway.jobs.ids import new_id
from headway.ports.store import Store
from headway.stores.postgres import PostgresStore
from headway.stores.postgres.migrate import LOCK
from headway.stores.sqlite import SqliteStore
from tests.support.servers.postgres import PostgresServer

SqlStore = TypeVar("SqlStore", bound=PostgresStore | SqliteStore)


async def works(store: Store) -> None:
    await store.open()
    await store.run(store.insert, [NewJob(id=new_id(), type="t", input="{}")])
    await store.close()


async def test_postgres_twice_and_at_once(postgres_url: str) -> None:
    stores = [PostgresStore(postgres_url) for _ in range(4)]
    applied = await asyncio.gather(*(store.migrate() for store in stores))
    assert sorted(map(len, applied)) == [0, 0, 0, 4]
    assert await stores[0].migrate() == []
    assert all(step.applied_at for step in await stores[0].migration_status())
    await works(stores[0])


async def test_postgres_waits_for_nobody_if_there_is_nothing_to_do(postgres_url: str) -> None:
    await PostgresStore(postgres_url).migrate()
    with psycopg.connect(postgres_url) as other:
        other.execute("select pg_advisory_xact_lock(%s)", (LOCK,))
        assert await PostgresStore(postgres_url).migrate() == []


async def test_postgres_says_that_a_transaction_is_in_the_way(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the caller's own, which would wait for the migration in turn."""
    monkeypatch.setattr("headway.stores.postgres.migrate.LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr("headway.stores.postgres.store.PATIENCE", 0.0)
    with psycopg.connect(postgres_url) as other:
        other.execute("create schema headway")
        with pytest.raises(StoreError, match="an open transaction has locked its tables"):
            await PostgresStore(postgres_url).migrate()
        other.rollback()
    assert await PostgresStore(postgres_url).migrate() != []


LATER = ["0002_schedules", "0003_limits", "0004_keys"]


START = """
insert into headway.job (
    id, sequence_id, root_id, run_at, created_at, position, max_losses, priority, state, type,
    queue, input
)
select id, id, id, now(), now(), 0, 5, 0, 'pending', 't', 'default', '{}'
from (select gen_random_uuid() as id) new
"""
"""A start by the first release."""


def up_to(version: int, store: SqlStore) -> SqlStore:
    del store._migrations[version:]
    return store


def of_the_first_release(store: SqlStore) -> SqlStore:
    return up_to(1, store)


async def test_postgres_lets_jobs_pass_while_a_transaction_is_in_the_way(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Starts wait behind one try, and pass before the next."""
    monkeypatch.setattr("headway.stores.postgres.migrate.PAUSE", 0.2)
    await of_the_first_release(PostgresStore(postgres_url)).migrate()
    slowest = 0.0
    with psycopg.connect(postgres_url) as other:
        other.execute("select count(*) from headway.job")
        migrating = asyncio.create_task(PostgresStore(postgres_url).migrate())
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as old:
            while len(caplog.records) < 3:
                began = time.monotonic()
                await old.execute(START)
                slowest = max(slowest, time.monotonic() - began)
                assert not migrating.done()
        held = f"(process {other.info.backend_pid} of PostgreSQL, open for "
        other.rollback()
        assert await migrating == LATER
    assert slowest < 3.0  # a try takes half a second; the rest is for a busy machine
    assert all(held in record.getMessage() for record in caplog.records)
    assert (
        "0002_schedules, 0003_limits has to wait: an open transaction"
        in caplog.records[0].getMessage()
    )
    await works(PostgresStore(postgres_url))


VALID = "select indisvalid from pg_index where indexrelid = to_regclass('headway.job_keyed')"


async def test_postgres_builds_the_index_of_keys_while_jobs_start(postgres_url: str) -> None:
    """The build waits for a transaction, and nobody waits for the build."""
    await up_to(3, PostgresStore(postgres_url)).migrate()
    with (
        psycopg.connect(postgres_url) as holder,
        psycopg.connect(postgres_url, autocommit=True) as client,
    ):
        holder.execute(START)
        migration = asyncio.create_task(PostgresStore(postgres_url).migrate())
        while client.execute(VALID).fetchone() != (False,):
            await asyncio.sleep(0.01)
        client.execute("set lock_timeout = '50ms'")
        for _ in range(10):
            client.execute(START)  # raises if it has to wait
            client.execute("update headway.job set priority = priority")
        status = await PostgresStore(postgres_url).migration_status()
        assert [step.name for step in status if step.applied_at is None] == ["0004_keys"]
        with pytest.raises(SchemaOutdated, match="is at version 3, this release needs 4"):
            await PostgresStore(postgres_url).open()
        holder.commit()
        assert await migration == ["0004_keys"]
        assert client.execute(VALID).fetchone() == (True,)
    await works(PostgresStore(postgres_url))


@pytest.mark.parametrize("reads", ["insert", "select"])
async def test_postgres_builds_the_index_of_keys_anew_after_an_interruption(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    """The transaction in the way has written jobs, or has an old snapshot of other tables."""
    await up_to(3, PostgresStore(postgres_url)).migrate()
    with (
        psycopg.connect(postgres_url) as holder,
        psycopg.connect(postgres_url, autocommit=True) as client,
    ):
        holder.execute("set transaction isolation level repeatable read")
        holder.execute(START if reads == "insert" else "select count(*) from pg_class")
        held = rf"waits for an open transaction \(process {holder.info.backend_pid} of PostgreSQL"
        with monkeypatch.context() as patch, pytest.raises(StoreError, match=held):
            patch.setattr("headway.stores.postgres.store.PATIENCE", 0.2)
            await PostgresStore(postgres_url).migrate()
        assert client.execute(VALID).fetchone() == (False,)
        holder.commit()
        assert await PostgresStore(postgres_url).migrate() == ["0004_keys"]
        assert client.execute(VALID).fetchone() == (True,)


async def test_postgres_builds_the_index_of_keys_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others wait until it is built, without being in its way."""
    monkeypatch.setattr("headway.stores.postgres.migrate.PAUSE", 0.05)
    await up_to(3, PostgresStore(postgres_url)).migrate()
    with psycopg.connect(postgres_url) as holder:
        holder.execute(START)
        migrations = [asyncio.create_task(PostgresStore(postgres_url).migrate()) for _ in range(4)]
        done, _ = await asyncio.wait(migrations, timeout=1.5)  # PostgreSQL looks for deadlocks
        assert not done
        holder.commit()
    assert sorted(await asyncio.gather(*migrations)) == [[], [], [], ["0004_keys"]]
    await works(PostgresStore(postgres_url))


async def test_postgres_waits_for_a_build_of_the_index_by_hand(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And nobody waits for the migration."""
    monkeypatch.setattr("headway.stores.postgres.migrate.PAUSE", 0.1)
    await up_to(3, PostgresStore(postgres_url)).migrate()
    by_hand = PostgresStore(postgres_url)._migrations[3].sql
    async with (
        await psycopg.AsyncConnection.connect(postgres_url) as holder,
        await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as operator,
        await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as client,
    ):
        await holder.execute(START)
        build = asyncio.create_task(operator.execute(by_hand.encode()))
        oid = "select to_regclass('headway.job_keyed')::oid"
        while (built := await (await client.execute(oid)).fetchone()) == (None,):
            await asyncio.sleep(0.01)
        await client.execute("set lock_timeout = '100ms'")
        migration = asyncio.create_task(PostgresStore(postgres_url).migrate())
        while len(caplog.records) < 2:
            await client.execute(START)  # raises if it has to wait
        await holder.commit()
        await build
        assert await migration == ["0004_keys"]
        assert await (await client.execute(oid)).fetchone() == built


async def test_postgres_keeps_an_index_that_a_killed_process_has_built(postgres_url: str) -> None:
    await PostgresStore(postgres_url).migrate()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        oid = "select to_regclass('headway.job_keyed')::oid"
        before = connection.execute(oid).fetchone()
        connection.execute("delete from headway.migration where version = 4")
        assert await PostgresStore(postgres_url).migrate() == ["0004_keys"]
        assert connection.execute(oid).fetchone() == before


async def test_postgres_records_no_step_without_its_index(postgres_url: str) -> None:
    await up_to(3, PostgresStore(postgres_url)).migrate()
    store = PostgresStore(postgres_url)
    step = store._migrations[3]
    store._migrations[3] = structs.replace(step, sql=f"/* {step.sql} */ select 1")
    with pytest.raises(StoreError, match="another process builds the index"):
        await store.migrate()
    assert (await store.migration_status())[3].applied_at is None


async def test_sqlite_twice_and_at_once(sqlite_path: Path) -> None:
    code = (
        "import asyncio, sys; from headway.stores.sqlite import SqliteStore;"
        "print(len(asyncio.run(SqliteStore(sys.argv[1]).migrate())))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(sqlite_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    assert sorted(process.communicate()[0].strip() for process in processes) == list("0004")
    assert await SqliteStore(sqlite_path).migrate() == []
    await works(SqliteStore(sqlite_path))


async def test_postgres_schemas_live_side_by_side(postgres_url: str) -> None:
    for schema in ("headway", "other_queue"):
        store = PostgresStore(postgres_url, schema=schema)
        await store.migrate()
        await works(store)
    with psycopg.connect(postgres_url) as connection:
        for schema in ("headway", "other_queue"):
            row = connection.execute(f"select count(*) from {schema}.job".encode()).fetchone()
            assert row == (1,)


async def test_sqlite_prefixes_live_side_by_side(sqlite_path: Path) -> None:
    for prefix in ("headway_", "other_", ""):
        store = SqliteStore(sqlite_path, prefix=prefix)
        await store.migrate()
        await works(store)
    with closing(sqlite3.connect(sqlite_path)) as connection:
        for prefix in ("headway_", "other_", ""):
            assert connection.execute(f"select count(*) from {prefix}job").fetchone() == (1,)


@pytest.mark.parametrize("name", ["", 'x"; drop table job; --', "Ünïcode", "a" * 41, "1a", "a.b"])
def test_hostile_schema_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName, match="schema name"):
        PostgresStore("postgresql://localhost/x", schema=name)
    if name:
        with pytest.raises(InvalidName, match="table prefix"):
            SqliteStore("x.db", prefix=name)


def psql(server: PostgresServer, url: str, script: str) -> str:
    """As by hand: errors do not end the script. They are the answer."""
    command = [str(server.binaries / "psql"), "-X", "-q", url]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=True)
    return "\n".join(line for line in done.stderr.splitlines() if "NOTICE" not in line)


async def test_the_script_does_the_same(
    postgres_server: PostgresServer, postgres_url: str, sqlite_path: Path
) -> None:
    assert psql(postgres_server, postgres_url, PostgresStore(postgres_url).migration_script()) == ""
    assert await PostgresStore(postgres_url).migrate() == []
    await works(PostgresStore(postgres_url))
    with closing(sqlite3.connect(sqlite_path)) as connection:
        connection.executescript(SqliteStore(sqlite_path).migration_script())
    assert await SqliteStore(sqlite_path).migrate() == []
    await works(SqliteStore(sqlite_path))


async def test_the_script_of_the_missing_steps(
    postgres_server: PostgresServer, postgres_url: str, sqlite_path: Path
) -> None:
    await of_the_first_release(PostgresStore(postgres_url)).migrate()
    script = PostgresStore(postgres_url).migration_script(after=1)
    assert psql(postgres_server, postgres_url, script) == ""
    assert await PostgresStore(postgres_url).migrate() == []
    await works(PostgresStore(postgres_url))
    await of_the_first_release(SqliteStore(sqlite_path)).migrate()
    with closing(sqlite3.connect(sqlite_path)) as connection:
        connection.executescript(SqliteStore(sqlite_path).migration_script(after=1))
    assert await SqliteStore(sqlite_path).migrate() == []
    await works(SqliteStore(sqlite_path))


async def test_the_script_can_be_repeated_after_an_interrupted_build(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    await up_to(3, PostgresStore(postgres_url)).migrate()
    script = PostgresStore(postgres_url).migration_script(after=3)
    interrupted = script.replace("statement_timeout = 0", "statement_timeout = 500")
    with psycopg.connect(postgres_url) as holder:
        holder.execute(START)
        assert "canceling statement" in psql(postgres_server, postgres_url, interrupted)
        assert (await PostgresStore(postgres_url).migration_status())[3].applied_at is None
    assert psql(postgres_server, postgres_url, script) == ""
    assert await PostgresStore(postgres_url).migrate() == []


@pytest.mark.parametrize("version", [1, 3])
async def test_a_short_limit_for_statements_does_not_end_the_wait_for_a_lock(
    postgres_url: str, version: int
) -> None:
    await up_to(version, PostgresStore(postgres_url)).migrate()
    with (
        psycopg.connect(postgres_url) as holder,
        psycopg.connect(postgres_url, autocommit=True) as operator,
    ):
        holder.execute("lock table headway.job in row exclusive mode")
        name = operator.info.dbname
        for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
            operator.execute(f'alter database "{name}" set {limit} = 200'.encode())
        migration = asyncio.create_task(PostgresStore(postgres_url).migrate())
        done, _ = await asyncio.wait([migration], timeout=1.0)
        assert not done
        holder.commit()
        assert await migration == LATER[version - 1 :]


async def test_jobs_are_not_locked_while_the_migration_waits_for_workers(postgres_url: str) -> None:
    await of_the_first_release(PostgresStore(postgres_url)).migrate()
    with (
        psycopg.connect(postgres_url) as holder,
        psycopg.connect(postgres_url, autocommit=True) as client,
    ):
        holder.execute("select from headway.worker")
        migration = asyncio.create_task(PostgresStore(postgres_url).migrate())
        client.execute("set lock_timeout = '50ms'")
        until = time.monotonic() + 2.0  # more than one try, with its pause
        while time.monotonic() < until:
            client.execute("select from headway.job")  # raises if it has to wait
            await asyncio.sleep(0.01)
        holder.commit()
        assert await migration == LATER


async def test_a_missing_schema_names_the_command(postgres_url: str, sqlite_path: Path) -> None:
    for store in (PostgresStore(postgres_url), SqliteStore(sqlite_path)):
        with pytest.raises(SchemaMissing, match="headway migrate up"):
            await store.open()


async def test_an_older_schema_names_the_command(postgres_url: str, sqlite_path: Path) -> None:
    for make in (lambda: PostgresStore(postgres_url), lambda: SqliteStore(sqlite_path)):
        await of_the_first_release(make()).migrate()
        with pytest.raises(
            SchemaOutdated,
            match=r"is at version 1, this release needs 4; run `headway migrate up`",
        ):
            await make().open()
        assert await make().migrate() == LATER
        await works(make())


async def test_older_code_goes_on_with_a_newer_schema(postgres_url: str, sqlite_path: Path) -> None:
    for make in (lambda: PostgresStore(postgres_url), lambda: SqliteStore(sqlite_path)):
        await make().migrate()
        await works(of_the_first_release(make()))


async def test_an_unreachable_server_is_named_without_its_password() -> None:
    store = PostgresStore("postgresql://someone:topsecret@127.0.0.1:1/shop")
    assert "topsecret" not in repr(store)
    with pytest.raises(StoreUnreachable) as caught:
        await store.open()
    assert "'shop' at 127.0.0.1:1" in str(caught.value)
    assert "topsecret" not in str(caught.value)


def test_an_unreadable_dsn_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as caught:
        PostgresStore("postgresql://someone:top%secret@host/db")
    assert "secret" not in str(caught.value)


async def test_asking_for_the_status_makes_no_file(sqlite_path: Path) -> None:
    (step, *_) = await SqliteStore(sqlite_path).migration_status()
    assert step.applied_at is None
    assert not sqlite_path.exists()


async def test_an_unreachable_file_is_named(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "missing" / "shop.db")
    with pytest.raises(StoreUnreachable, match=r"shop\.db"):
        await store.migrate()
