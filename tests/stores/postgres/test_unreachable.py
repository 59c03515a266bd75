"""A server that goes away: one clear sentence, soon, and back to work when it returns."""

from __future__ import annotations

import time

import pytest

from headway.domain.job import NewJob
from headway.errors import StoreUnreachable
from headway.jobs.ids import new_id
from headway.stores.postgres import PostgresStore
from tests.support.servers.postgres import PostgresServer


@pytest.mark.long
@pytest.mark.slow
async def test_a_server_that_goes_away_and_comes_back() -> None:
    with PostgresServer(durable=True) as server:
        store = PostgresStore(server.url(server.create_database()))
        await store.migrate()
        await store.open()
        try:
            await store.run(store.insert, [NewJob(id=new_id(), type="t", input="{}")])
            server.kill()
            started = time.monotonic()
            with pytest.raises(StoreUnreachable, match="is it running"):
                await store.run(store.counts)
            with pytest.raises(StoreUnreachable, match="is it running"):
                store.run_sync(store.counts)
            assert time.monotonic() - started < 20
            server.start()
            (count,) = await store.run(store.counts)
            assert count.count == 1
            assert store.run_sync(store.counts) == [count]
        finally:
            await store.close()
