"""Many jobs go to PostgreSQL by COPY, and nobody can tell but by the clock."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from headway import After, Headway
from headway.domain.job import NewJob
from headway.jobs.ids import new_id
from headway.stores.postgres.bulk_copy import COPY_FROM, CopyStatement
from tests.support.servers.postgres import PostgresServer

AWKWARD = "tab\tline\nreturn\rquote\"back\\slash\\n\\N\\.\\t {}, 'ü 🦊 \x01 \u2028"
NOTE = """create function note() returns trigger language plpgsql as $$ begin
    insert into how values (tg_op || ' ' || split_part(lower(current_query()), ' ', 1));
    return null; end $$;
create table how (what text);
create trigger note after insert on headway.job for each statement execute function note()"""


@pytest.fixture
async def url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    """A database that notes by which statement jobs come."""
    name = postgres_server.create_database()
    url = postgres_server.url(name)
    await Headway(url).store.migrate()
    with psycopg.connect(url) as connection:
        connection.execute(NOTE)
    yield url
    postgres_server.drop_database(name)


def ways(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("select what from how")]


async def test_what_is_copied_is_what_was_asked_for(url: str) -> None:
    app = Headway(url)

    @app.job(queue="mail", max_attempts=7)
    async def send(text: str) -> str:
        return text

    texts = [AWKWARD, "", *map(str, range(COPY_FROM))]
    async with app:
        asked = [send.request(text).using(priority=-3, timeout=1.5) for text in texts]
        sequences = await app.start_many(asked)
        assert ways(url) == ["INSERT copy"]
        job = await app.get(sequences[0])
        assert (job.queue, job.priority, job.timeout, job.max_attempts) == ("mail", -3, 1.5, 7)
        assert (job.sequence_id, job.root_id, job.origin_id) == (job.id, job.id, None)
        assert job.run_at == job.created_at
        await app.worker(queues=["mail"]).run(drain=True)
        assert [await sequence.result(timeout=60) for sequence in sequences] == texts


def test_a_caller_without_a_loop_copies_too(url: str) -> None:
    app = Headway(url)

    @app.job
    async def send(text: str) -> None: ...

    with app.sync as client:
        sequences = client.start_many([send.request(AWKWARD) for _ in range(COPY_FROM)])
        assert client.get(sequences[-1]).state == "pending"
    assert ways(url) == ["INSERT copy"]


async def test_jobs_that_an_earlier_try_has_stored_are_stored_once(url: str) -> None:
    """The answer to the first was lost with its connection."""
    async with Headway(url) as app:
        store = app.store
        jobs = [NewJob(id=new_id(), type="send", input="{}") for _ in range(COPY_FROM)]
        first = await store.run(store.insert, jobs)
        again = await store.run(store.insert, jobs)
        assert [each.id for each in again] == [each.id for each in first]
        assert sum(each.count for each in await app.counts()) == COPY_FROM
    assert ways(url) == ["INSERT copy", "INSERT with"]


async def test_row_level_security_has_them_inserted(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("drop role if exists tenant")
        connection.execute("create role tenant login")
        connection.execute("grant usage on schema headway to tenant")
        connection.execute("grant all on all tables in schema headway to tenant")
        connection.execute("grant all on how to tenant")
        connection.execute("alter table headway.job enable row level security")
        connection.execute("create policy all_of_it on headway.job using (true)")
    app = Headway(url.replace("postgres@", "tenant@"))

    @app.job
    async def send(text: str) -> None: ...

    async with app:
        await app.start_many([send.request("hi") for _ in range(COPY_FROM)])
        assert sum(each.count for each in await app.counts()) == COPY_FROM
    assert ways(url) == ["INSERT with"]


@pytest.mark.parametrize("few", [COPY_FROM - 1, COPY_FROM], ids=["few", "later"])
async def test_few_jobs_and_later_ones_are_inserted(url: str, few: int) -> None:
    app = Headway(url)

    @app.job
    async def send(text: str) -> None: ...

    request = send.request("hi")
    if few == COPY_FROM:
        request = request.using(schedule=After(seconds=60))
    async with app:
        await app.start_many([request for _ in range(few)])
    assert ways(url) == ["INSERT with"]


async def test_in_the_callers_transaction_they_are_inserted(url: str) -> None:
    app = Headway(url)

    @app.job
    async def send(text: str) -> None: ...

    async with app, await psycopg.AsyncConnection.connect(url) as connection:
        await app.start_many([send.request("hi") for _ in range(COPY_FROM)], tx=connection)
        await connection.rollback()
        assert await app.counts() == []


def test_lines_are_what_copy_reads() -> None:
    jobs = [NewJob(id="a", type="send", input='{"n":1}'), NewJob(id="b", type="send", input="\\")]
    copy = CopyStatement("insert", into="copy", jobs=jobs, rest=("send", None, 1.5, False))
    assert copy.lines() == (
        'a\ta\ta\t{"n":1}\t\\N\tnow\tnow\tsend\t\\N\t1.5\tFalse\n'
        "b\tb\tb\t\\\\\t\\N\tnow\tnow\tsend\t\\N\t1.5\tFalse\n"
    )
