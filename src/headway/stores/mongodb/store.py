"""The MongoDB store: its parts, its clients, and the execution of its operations."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from datetime import datetime
from functools import partial
from typing import Any, ParamSpec, TypeVar
from urllib.parse import parse_qsl

import pymongo
from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.driver_info import DriverInfo
from pymongo.errors import ConfigurationError as PyMongoConfigurationError
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.synchronous.client_session import ClientSession

from headway.domain.failure import first_line
from headway.domain.validation import check_identifier
from headway.drivers.mongodb import (
    Document,
    TryCounter,
    describe,
    require_transaction,
    run_command,
    run_command_sync,
)
from headway.errors import (
    ConfigurationError,
    DataRefused,
    SchemaMissing,
    SchemaOutdated,
    StoreClosed,
    StoreError,
    StoreRefused,
    StoreUnreachable,
)
from headway.ports.statement import Operation, only_reads
from headway.ports.store import Capabilities, MigrationStatus
from headway.runtime.cancellation import Cancels
from headway.runtime.forks import Forkable
from headway.stores.drive import drive, drive_sync
from headway.stores.mongodb.audit import MongoAudit
from headway.stores.mongodb.documents import CollectionNames, MongoPart
from headway.stores.mongodb.find import MongoFind
from headway.stores.mongodb.insert import MongoInsert
from headway.stores.mongodb.limits import MongoLimits
from headway.stores.mongodb.manage import MongoManage
from headway.stores.mongodb.migrate import applied_migrations, apply_migrations, migrations
from headway.stores.mongodb.read import MongoRead
from headway.stores.mongodb.runners import (
    CLIENT,
    DRIVER_ERRORS,
    MongoRunner,
    MongoSyncRunner,
    begin,
    commit,
    end_idle_transactions,
    end_idle_transactions_sync,
    is_conflict,
    is_data_error,
    is_transient,
    is_unreachable,
    retry_conflicts,
    retry_conflicts_sync,
    with_tries,
)
from headway.stores.mongodb.schedules import MongoSchedules
from headway.stores.mongodb.settle import MongoSettle
from headway.stores.mongodb.statistics import MongoStatistics
from headway.stores.mongodb.transfer import MongoTransfer
from headway.stores.mongodb.workers import MongoWorkers
from headway.stores.operation_retry import OperationRetry, once_more
from headway.stores.time_limits import LONGEST, TimeLimits

P = ParamSpec("P")
T = TypeVar("T")

SETTINGS: dict[str, Any] = {
    "appname": "headway",
    "connectTimeoutMS": 5_000,
    "heartbeatFrequencyMS": 2_000,
    "serverSelectionTimeoutMS": 15_000,  # an election takes about ten seconds
    "socketTimeoutMS": int(LONGEST * 1_000),
}
"""Defaults of settings that the URL may set."""
OPEN_TIMEOUT = 5.0
"""Seconds that opening waits for a server."""
_RIGHTS = "grant the user readWrite on the database, or name another user in the URL"
_LOGIN = "check the user, the password and authSource in the URL"
ADVICE = {11: _LOGIN, 13: _RIGHTS, 18: _LOGIN, 8000: _LOGIN}
"""Advice by error code."""
OLDEST_WIRE_VERSION = 17
"""That of MongoDB 6.0."""


class MongoStore(
    MongoInsert,
    MongoLimits,
    MongoSettle,
    MongoRead,
    MongoFind,
    MongoStatistics,
    MongoManage,
    MongoAudit,
    MongoWorkers,
    MongoSchedules,
    Forkable,
):
    """Jobs in collections of a MongoDB replica set."""

    capabilities = Capabilities(durable=True, across_processes=True, transactions=True)
    transactions: int | None = None  # between two commands a session holds no connection

    def __init__(
        self,
        url: str,
        *,
        schema: str = "headway",
        connections: int = 16,
        retry: OperationRetry | None = None,
    ) -> None:
        super().__init__(CollectionNames(check_identifier("schema name", schema)))
        self.transfer = MongoTransfer(self._names, self, self._connected)
        self.name, self._database = describe(url)
        self._url = url
        self._schema = schema
        self._connections = connections
        self._operation_retry = retry or OperationRetry()
        self._limits = TimeLimits()
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._client: AsyncMongoClient[Document] | None = None
        self._sync_client: MongoClient[Document] | None = None
        self._lock = threading.Lock()
        self._claiming = asyncio.Lock()
        self._sync_claiming = threading.Lock()
        """Held by a claim under limits."""
        self._callbacks: dict[int, list[Callable[[], None]]] = {}
        """Callbacks after the commit, for each open transaction that `begin` has handed out."""

    def __repr__(self) -> str:
        return f"<MongoStore {self.name}, schema {self._schema}>"

    async def open(self, *, migrate: bool = False) -> None:
        if self._client is not None:
            return
        if migrate:
            await self.migrate()
        client = self._connect()
        try:
            await self._check(client)
        except BaseException:
            await client.close()
            raise
        self._client = client
        self._claiming = asyncio.Lock()  # of this loop

    async def close(self) -> None:
        client, self._client = self._client, None
        with self._lock:
            sync_client, self._sync_client = self._sync_client, None
        if client is not None:
            await client.close()
        if sync_client is not None:
            sync_client.close()

    async def migrate(self) -> list[str]:
        async with self._connected() as database:
            return await apply_migrations(database, self._names)

    async def migration_status(self) -> list[MigrationStatus]:
        async with self._connected() as database:
            applied = await applied_migrations(database, self._names)
        return [
            MigrationStatus(migration.version, migration.name, applied.get(migration.version))
            for migration in migrations(self._names)
        ]

    def migration_script(self, *, after: int = 0) -> str:
        return ""

    async def run(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        limit = self._limits.of(operation, args)
        is_verb = self._is_verb(operation)
        from_lock = hasattr(operation, "atomic_from_lock")
        made = partial(operation, *args, **kwargs)
        tries = TryCounter()

        async def attempt() -> T:
            if self._client is None:
                raise StoreClosed(self.name)
            runner = MongoRunner(self._client, self._database, is_verb=is_verb)
            # Of this process one at a time, which would only conflict with one another.
            async with self._claiming if from_lock else nullcontext():
                with pymongo.timeout(limit):
                    return await runner.run((once_more(made) if tries.uncertain else made)(), tries)

        async def when_stuck() -> None:
            if tries.brief and self._client is not None:
                await end_idle_transactions(self._client)

        try:
            return await self._operation_retry.run(
                lambda: retry_conflicts(attempt, limit or LONGEST, when_stuck), is_transient
            )
        except DRIVER_ERRORS as error:
            raise self._explained(error) from error

    def run_sync(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        limit = self._limits.of(operation, args)
        is_verb = self._is_verb(operation)
        from_lock = hasattr(operation, "atomic_from_lock")
        made = partial(operation, *args, **kwargs)
        tries = TryCounter()

        def attempt() -> T:
            runner = MongoSyncRunner(self._get_sync_client(), self._database, is_verb=is_verb)
            with self._sync_claiming if from_lock else nullcontext(), pymongo.timeout(limit):
                return runner.run((once_more(made) if tries.uncertain else made)(), tries)

        def when_stuck() -> None:
            if tries.brief:
                end_idle_transactions_sync(self._get_sync_client())

        try:
            return self._operation_retry.run_sync(
                lambda: retry_conflicts_sync(attempt, limit or LONGEST, when_stuck), is_transient
            )
        except DRIVER_ERRORS as error:
            raise self._explained(error) from error

    async def run_in(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if not isinstance(tx, AsyncClientSession):
            return self.run_in_sync(tx, operation, *args, **kwargs)
        require_transaction(tx)
        database: Any = tx.client[self._database]
        tries = TryCounter()

        async def attempt() -> T:
            if not tx.in_transaction:  # the last try conflicted with another transaction
                await begin(tx)
            try:
                return await drive(
                    with_tries(operation(*args, **kwargs), tries),
                    lambda command: run_command(database, command, tx),
                )
            except PyMongoError as error:
                if is_first and (is_conflict(error) or is_transient(error)):
                    await tx.abort_transaction()
                    tries.rolled_back()
                raise

        # In a transaction of `begin` that has run no command yet, conflicts and dead connections
        # are handled by beginning the transaction again.
        is_first = id(tx) in self._callbacks and tx.operation_time is None
        try:
            with Cancels():
                if not is_first:
                    return await attempt()
                return await self._operation_retry.run(
                    lambda: retry_conflicts(attempt, LONGEST), is_transient
                )
        except PyMongoError as error:
            if id(tx) in self._callbacks and (is_unreachable(error) or is_conflict(error)):
                raise self._explained(error) from error
            raise

    def run_in_sync(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if not isinstance(tx, ClientSession):
            raise ConfigurationError(
                f"tx= is a {type(tx).__module__}.{type(tx).__qualname__}, which cannot be used "
                f"with {self.name}; pass a session of pymongo"
            )
        require_transaction(tx)
        database: Any = tx.client[self._database]
        return drive_sync(
            with_tries(operation(*args, **kwargs), TryCounter()),
            lambda command: run_command_sync(database, command, tx),
        )

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool:
        callbacks = self._callbacks.get(id(tx))
        if callbacks is None:
            return False
        callbacks.append(callback)
        return True

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[AsyncClientSession]:
        if self._client is None:
            raise StoreClosed(self.name)
        callbacks: list[Callable[[], None]] = []
        async with self._client.start_session(causal_consistency=False) as session:
            self._callbacks[id(session)] = callbacks
            try:
                with Cancels():
                    await begin(session)
                yield session
                try:
                    with Cancels():
                        await commit(session)
                except PyMongoError as error:
                    raise self._explained(error) from error
            finally:
                del self._callbacks[id(session)]
        for callback in callbacks:
            callback()

    def expect(self, queue: str, run_at: datetime | None) -> None:
        """Nothing to do: every claim looks at all pending jobs."""

    def _is_verb(self, operation: Callable[..., Operation[Any]]) -> bool:
        """Whether the operation's `alone` commands need no transaction."""
        return (
            isinstance(getattr(operation, "__self__", None), MongoPart)
            or only_reads(operation, lock=False)
            or hasattr(operation, "atomic_from_lock")
        )

    def _connect(self) -> AsyncMongoClient[Document]:
        try:
            return AsyncMongoClient(self._url, **self._settings())
        except (PyMongoConfigurationError, ValueError) as error:
            reason = first_line(error)[:200]
            raise ConfigurationError(f"the URL of {self.name} is not right: {reason}") from None

    def _get_sync_client(self) -> MongoClient[Document]:
        with self._lock:
            if self._client is None:
                raise StoreClosed(self.name)
            if self._sync_client is None:
                self._sync_client = MongoClient(self._url, **self._settings())
            return self._sync_client

    def _settings(self) -> dict[str, Any]:
        given = {name.lower() for name, _ in parse_qsl(self._url.partition("?")[2])}
        settings = {**SETTINGS, "driver": DriverInfo(CLIENT), "maxPoolSize": self._connections}
        return {name: value for name, value in settings.items() if name.lower() not in given}

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[AsyncDatabase[Document]]:
        """The database, whether the store is open or not."""
        if self._client is not None:
            yield self._client[self._database]
            return
        async with self._connect() as client:
            try:
                await self._check_server(client)
                yield client[self._database]
            except PyMongoError as error:
                raise self._unreachable(error) from None

    async def _check(self, client: AsyncMongoClient[Document]) -> None:
        try:
            await self._check_server(client)
            found = max(await applied_migrations(client[self._database], self._names), default=0)
        except PyMongoError as error:
            raise self._unreachable(error) from None
        needed = migrations(self._names)[-1].version
        if found == 0:
            raise SchemaMissing(self.name)
        if found < needed:
            raise SchemaOutdated(self.name, found, needed)

    async def _check_server(self, client: AsyncMongoClient[Document]) -> None:
        with pymongo.timeout(min(OPEN_TIMEOUT, client.options.server_selection_timeout)):
            hello = await client.admin.command("hello")
        if "setName" not in hello and hello.get("msg") != "isdbgrid":
            raise ConfigurationError(
                f"{self.name} is not a replica set, and only these have transactions; start mongod "
                "with --replSet rs0 and run rs.initiate() once, a single node is enough"
            )
        if hello["maxWireVersion"] < OLDEST_WIRE_VERSION:
            raise ConfigurationError(f"{self.name} is too old; use MongoDB 6.0 or later")

    def _unreachable(self, error: PyMongoError) -> StoreUnreachable:
        """The reason why there is no connection: the server does not answer, or it refuses us."""
        said = first_line(error)[:200]
        if advice := _advice(error):
            return StoreRefused(self.name, said.partition(", full error")[0], advice)
        if "SSL handshake failed" in said or "certificate verify failed" in said:
            advice = "check tls in the URL, and whether the server offers TLS"
            return StoreRefused(self.name, said, advice)
        return StoreUnreachable(self.name, said)

    def _explained(self, error: Exception) -> Exception:
        if isinstance(error, PyMongoError) and (is_unreachable(error) or _advice(error)):
            return self._unreachable(error)
        if is_conflict(error):
            return StoreError(
                f"{self.name}: others kept changing the same jobs ({first_line(error)[:200]}); "
                "try it again"
            )
        if is_data_error(error):
            return DataRefused(self.name, first_line(error)[:200])
        return error


def _advice(error: PyMongoError) -> str | None:
    if not isinstance(error, OperationFailure):
        return None
    return _LOGIN if "requires authentication" in str(error) else ADVICE.get(error.code or 0)
