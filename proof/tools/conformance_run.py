"""Runs the conformance suite without pytest, on one kind of store, until a case fails."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import closing
from pathlib import Path

from headway.ports.store import Store
from headway.stores.memory import MemoryStore
from headway.testing.conformance.store import StoreCase, cases_for
from tests.support.stores import EmptyStores


def first_failure(kind: str, dsn: str = "", *, group: str = "") -> tuple[int, str | None]:
    """Number of cases tried, those of `group` first, and the first failure with its reason."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_run(kind, dsn, Path(folder), group))


async def _run(kind: str, dsn: str, folder: Path, group: str) -> tuple[int, str | None]:
    tried = 0
    stores = EmptyStores(folder)

    async def fresh() -> Store:
        match kind:
            case "memory":
                return MemoryStore()
            case "sqlite":
                return await stores.sqlite()
            case "postgres":
                return await stores.postgres(dsn)
            case "mongodb":
                return await stores.mongodb(dsn)
            case _:
                raise ValueError(kind)

    with closing(stores):
        cases = cases_for((await fresh()).capabilities)
        for case in sorted(cases, key=lambda case: not case.name.startswith(f"{group}/")):
            tried += 1
            failure = await _try(case, await fresh())
            if failure is not None:
                return tried, f"{case.name}: {failure}"
    return tried, None


async def _try(case: StoreCase, store: Store) -> str | None:
    try:
        await store.open()
        async with asyncio.timeout(30):
            await case.function(store)
    except Exception as error:
        return f"{type(error).__name__} {error}"[:300]
    finally:
        await store.close()
    return None
