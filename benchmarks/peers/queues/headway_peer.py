"""Headway on PostgreSQL and on SQLite."""

from __future__ import annotations

from benchmarks.peers import probe
from benchmarks.peers.contract import TEXT, Peer, Settings
from benchmarks.peers.queues.raw_peer import left_on_sqlite
from headway import Headway, Sequence

CHOSEN = {"concurrency": 100, "uvloop": True}


class HeadwayPeer(Peer):
    title = "Headway"
    bulk = "start_many() of 20,000"
    packages = ("headway",)
    settings = Settings(drain=CHOSEN, latency=CHOSEN, result=CHOSEN)
    step = 20_000

    @property
    def url(self) -> str:
        raise NotImplementedError

    def _make(self) -> Headway:
        app = Headway(self.url, migrate=True)
        answers = self.location.use == "result"

        @app.job
        async def noop(n: int, text: str) -> int | None:
            probe.hit(n)
            return n if answers else None

        self._noop = noop
        return app

    async def open(self) -> None:
        self._app = await self._make().__aenter__()

    async def close(self) -> None:
        await self._app.close()

    async def start_one(self, n: int) -> Sequence[int | None]:
        return await self._app.start(self._noop.request(n, TEXT))

    async def start_many(self, numbers: range) -> None:
        await self._app.start_many([self._noop.request(n, TEXT) for n in numbers])

    async def run_worker(self) -> None:
        async with self._make() as app:
            await app.worker(concurrency=self.chosen["concurrency"]).run()

    async def wait(self, started: Sequence[int | None]) -> None:
        await started.result(timeout=10)


class HeadwayOnPostgres(HeadwayPeer):
    name = "headway-postgres"
    store = "PostgreSQL"
    durability = "fsync at every commit, claims too; finished jobs are kept"
    packages = ("headway", "psycopg")

    @property
    def url(self) -> str:
        return self.location.postgres_url

    async def set_up(self) -> None:
        self.new_database()
        await self._make().store.migrate()

    def remaining(self) -> int:
        return self.ask_postgres(
            "select (select count(*) from headway.job where state = 'pending')"
            " + (select count(*) from headway.job where state = 'running')"
        )


class HeadwayOnSqlite(HeadwayPeer):
    name = "headway-sqlite"
    store = "SQLite"
    durability = "WAL, synchronous=FULL; finished jobs are kept"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.location.file}"

    async def set_up(self) -> None:
        self.new_file()
        await self._make().store.migrate()

    def remaining(self) -> int:
        return left_on_sqlite(self.location.file)


PEERS = (HeadwayOnPostgres, HeadwayOnSqlite)
