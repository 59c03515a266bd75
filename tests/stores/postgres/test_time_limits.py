"""A network that swallows everything does not keep the PostgreSQL store waiting for ever."""

from __future__ import annotations

import asyncio
import time

import pytest
from msgspec import structs

from headway.domain.orders import ClaimOrder, QueueShare
from headway.errors import StoreUnreachable
from headway.limits.claim import KeyTurns, claim_limited
from headway.stores.operation_retry import OperationRetry
from headway.stores.postgres import PostgresStore
from proof.tools.proxy import Proxy
from tests.support.servers.postgres import PostgresServer

ORDER = ClaimOrder(
    worker="w",
    token="00000000-0000-4000-8000-000000000000",
    lease_for=6.0,
    queues=(QueueShare("default", 1),),
    types=("t",),
    limit=1,
)


@pytest.mark.slow
async def test_calls_end_before_the_lease_would(postgres_server: PostgresServer) -> None:
    database = postgres_server.create_database()
    await PostgresStore(postgres_server.url(database)).migrate()
    proxy = Proxy(postgres_server.port)
    store = PostgresStore(
        f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}", retry=OperationRetry(tries=1)
    )
    try:
        await store.open()
        await store.run(store.claim, ORDER)
        await asyncio.to_thread(store.run_sync, store.expired, 1)
        proxy.swallow = True
        for call in (
            store.run(store.claim, ORDER),
            store.run(claim_limited, store, structs.replace(ORDER, limited=True), KeyTurns()),
            asyncio.to_thread(store.run_sync, store.expired, 1),
        ):
            began = time.monotonic()
            with pytest.raises(StoreUnreachable):
                await call
            assert time.monotonic() - began < ORDER.lease_for
        proxy.reset_all()
        proxy.swallow = False
        async with asyncio.timeout(60):
            while True:
                try:
                    assert await store.run(store.claim, ORDER) == []
                except StoreUnreachable:
                    continue
                break
    finally:
        proxy.swallow = False
        await store.close()
        proxy.close()
        postgres_server.drop_database(database)
