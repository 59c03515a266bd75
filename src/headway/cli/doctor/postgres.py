"""Checks of PostgreSQL: settings, old transactions, vacuum, connections."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.app import Headway
from headway.cli.doctor.findings import fail, ok, warn
from headway.cli.json_results import Diagnosis
from headway.domain.text import span

OLD_TRANSACTION = 300.0
"""Seconds after which an open transaction keeps vacuum from its work for too long."""
BLOATED = 5.0
"""Dead rows per living one."""

SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "autovacuum")
OPEN_TRANSACTIONS = """
    select pid, coalesce(application_name, ''), state,
        extract(epoch from clock_timestamp() - xact_start)::float8
    from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
        and xact_start < clock_timestamp() - make_interval(secs => %s)
    order by xact_start limit 5
"""
PREPARED = """
    select gid, extract(epoch from clock_timestamp() - prepared)::float8 from pg_prepared_xacts
    where database = current_database()
        and prepared < clock_timestamp() - make_interval(secs => %s)
    order by prepared limit 5
"""
TABLES = """
    select t.schemaname, t.n_live_tup, t.n_dead_tup, t.last_autovacuum, t.last_vacuum,
        coalesce(array_to_string(c.reloptions, ','), '')
    from pg_stat_user_tables t join pg_class c on c.oid = t.relid
    where t.relname = 'job' and exists (
        select from pg_stat_user_tables b
        where b.schemaname = t.schemaname and b.relname = 'job_blocker'
    )
"""
CONNECTIONS = """
    select (select count(*) from pg_stat_activity where backend_type = 'client backend'),
        current_setting('max_connections')::int
"""


async def examine_postgres(app: Headway) -> list[Diagnosis]:
    async with app.store.begin() as tx:
        settings = await _settings(tx)
        return [
            *_durability(settings),
            *_vacuum(settings, await _rows(tx, TABLES)),
            *_old(
                await _rows(tx, OPEN_TRANSACTIONS, OLD_TRANSACTION),
                await _rows(tx, PREPARED, OLD_TRANSACTION),
            ),
            _connections(*(await _rows(tx, CONNECTIONS))[0]),
        ]


async def _rows(tx: Any, sql: str, *parameters: object) -> Sequence[tuple[Any, ...]]:
    cursor = await tx.execute(sql, parameters or None)
    rows: Sequence[tuple[Any, ...]] = await cursor.fetchall()
    return rows


async def _settings(tx: Any) -> dict[str, str]:
    asked = ", ".join(f"current_setting('{name}')" for name in SETTINGS)
    (found,) = await _rows(tx, f"select {asked}")
    return dict(zip(SETTINGS, found, strict=True))


def _durability(settings: dict[str, str]) -> list[Diagnosis]:
    version = settings["server_version"]
    found = [ok("server", f"PostgreSQL {version}")]
    if settings["fsync"] != "on":
        found.append(
            fail("durability", "fsync is off: a crash may destroy the database", "Set fsync = on.")
        )
    if settings["synchronous_commit"] == "off":
        found.append(
            warn(
                "durability",
                "synchronous_commit is off: a crash of the server may forget the last moments, so "
                "that started jobs vanish and finished ones run again",
                "Set synchronous_commit = on for the role that Headway uses.",
            )
        )
    if settings["full_page_writes"] != "on":
        found.append(
            warn(
                "durability",
                "full_page_writes is off: a power cut may tear pages",
                "Set full_page_writes = on unless the file system prevents torn pages.",
            )
        )
    if len(found) == 1:
        found.append(ok("durability", "what is committed survives a crash"))
    return found


def _vacuum(settings: dict[str, str], tables: Sequence[tuple[Any, ...]]) -> list[Diagnosis]:
    if settings["autovacuum"] != "on":
        return [
            fail(
                "vacuum",
                "autovacuum is off: claims get slower with every job",
                "Set autovacuum = on.",
            )
        ]
    found: list[Diagnosis] = []
    for schema, living, dead, automatic, by_hand, options in tables:
        last = max((each for each in (automatic, by_hand) if each is not None), default=None)
        lately = last is not None and datetime.now(UTC) - last < timedelta(minutes=5)
        if "autovacuum_enabled=false" in options:
            found.append(
                fail(
                    "vacuum",
                    f"autovacuum is off for {schema}.job",
                    f"Run: alter table {schema}.job reset (autovacuum_enabled)",
                )
            )
        elif dead > 10_000 and dead > BLOATED * max(living, 1) and not lately:
            found.append(
                warn(
                    "vacuum",
                    f"{schema}.job holds {dead:,} dead rows beside {living:,} living ones",
                    f"Look for old transactions, then run: vacuum analyze {schema}.job",
                )
            )
    return found or [ok("vacuum", "autovacuum is on, and few dead rows wait for it")]


def _old(
    transactions: Sequence[tuple[Any, ...]], prepared: Sequence[tuple[Any, ...]]
) -> list[Diagnosis]:
    advice = "It keeps vacuum from its work. End it: select pg_terminate_backend({})"
    found = [
        warn(
            "transactions",
            f"process {pid} ({name or 'unnamed'}, {state}) keeps one open for {span(age)}",
            advice.format(pid),
        )
        for pid, name, state, age in transactions
    ]
    found += [
        warn(
            "transactions",
            f"{gid!r} is prepared for {span(age)} and neither committed nor rolled back",
            "Commit it or roll it back: it keeps vacuum from its work.",
        )
        for gid, age in prepared
    ]
    return found or [ok("transactions", f"none is older than {span(OLD_TRANSACTION)}")]


def _connections(used: int, most: int) -> Diagnosis:
    if used < 0.8 * most:
        return ok("connections", f"{used} of {most} are used")
    return warn(
        "connections",
        f"{used} of {most} are used",
        "Raise max_connections, use a pooler, or run fewer processes: each takes a few.",
    )
