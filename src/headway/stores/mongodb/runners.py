"""Execution of operations, async and sync: their transactions, conflicts and errors.

A transaction that meets a document which another transaction has changed does not wait: MongoDB
ends it with a label that allows another try. Outside of the caller's transactions the tries are
repeated here, with short pauses, until the operation's time is up.

A process that is killed or frozen leaves its transaction open, and the server ends it only after a
minute. Transactions that lock a queue must not keep others waiting for so long: they are *brief*,
and whoever waits for one of them ends it when it has been idle for a few seconds. They are known by
the client's name and by their read concern, which no other transaction of Headway has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing, suppress
from typing import Any, TypeVar

from bson.errors import BSONError
from pymongo import AsyncMongoClient, MongoClient, WriteConcern
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ConnectionFailure,
    DuplicateKeyError,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)
from pymongo.read_concern import ReadConcern
from pymongo.synchronous.client_session import ClientSession
from pymongo.synchronous.database import Database

from headway.domain.retry import Backoff
from headway.drivers.mongodb import (
    Command,
    Document,
    TryCounter,
    TryRequest,
    run_command,
    run_command_sync,
)
from headway.ports.statement import Operation
from headway.runtime.cancellation import Cancels
from headway.stores.drive import drive, drive_sync
from headway.stores.time_limits import LONGEST

T = TypeVar("T")

PAUSES = Backoff(base=0.002, cap=0.1)
"""Between the tries of a transaction that conflicts with another one."""

MAJORITY = WriteConcern("majority")
SNAPSHOT = ReadConcern("snapshot")
BRIEF = ReadConcern("majority")
"""On a replica set a transaction reads from one snapshot in any case: with this read concern from
the newest one."""
IDLE = 3.0
"""Seconds for which a brief transaction is idle before others end it."""
CLIENT = "headway"
"""Part of the name of each client of Headway's."""

_WRITE_CONFLICT = 112
_TIME_IS_UP = 50
# Shutting down, stepping down, not primary, or interrupted by one of these.
_UNREACHABLE = frozenset({6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
# A document or a key that is too large, or that fails a validation rule.
_DATA_ERRORS = frozenset({121, 10334, 17280, 17419, 17420})
DRIVER_ERRORS = (PyMongoError, BSONError, UnicodeError, OverflowError)
"""Errors that pymongo raises; the last two are Python's, for values that cannot be encoded."""


def with_tries(operation: Operation[T], tries: TryCounter) -> Operation[T]:
    """A try of the operation: its requests for the number of the try are answered."""
    tries.begin()
    with closing(operation):
        try:
            asked: Command | TryRequest = next(operation)
            while True:
                is_request = isinstance(asked, TryRequest)
                asked = operation.send(tries.answer() if is_request else (yield asked))
        except StopIteration as end:
            answer: T = end.value
            return answer


class MongoRunner:
    """Runs one operation; begins a transaction before the first command that needs one. The
    `alone` commands of a single verb need none; an operation of several verbs always needs one."""

    def __init__(self, client: AsyncMongoClient[Document], database: str, *, is_verb: bool) -> None:
        self._client = client
        self._database: AsyncDatabase[Document] = client[database]
        self._is_verb = is_verb
        self._session: AsyncClientSession | None = None
        self._brief = False
        self._outside = False
        """Whether a change was made outside of the transaction."""
        self._changed = False
        """Whether there is anything to commit; a lock alone is given up."""

    async def run(self, operation: Operation[T], tries: TryCounter) -> T:
        try:
            answer = await drive(with_tries(operation, tries), self._execute)
            if self._session is not None and self._changed:
                await commit(self._session)
        except PyMongoError as error:
            tries.brief = self._brief
            if not self._outside and is_conflict(error):
                tries.rolled_back()
            raise
        finally:
            if self._session is not None:
                await self._session.end_session()  # rolls back what was not committed
        return answer

    async def _execute(self, command: Command) -> Any:
        if self._session is None and command.alone and self._is_verb:
            self._outside = self._outside or not command.reads
        elif self._session is None:
            self._brief = command.brief
            self._session = self._client.start_session(causal_consistency=False)
            await begin(self._session, brief=command.brief)
        self._changed = self._changed or not (command.reads or command.brief)
        return await run_command(self._database, command, self._session)


class MongoSyncRunner:
    """The same without an event loop."""

    def __init__(self, client: MongoClient[Document], database: str, *, is_verb: bool) -> None:
        self._client = client
        self._database: Database[Document] = client[database]
        self._is_verb = is_verb
        self._session: ClientSession | None = None
        self._brief = False
        self._outside = False
        self._changed = False

    def run(self, operation: Operation[T], tries: TryCounter) -> T:
        try:
            answer = drive_sync(with_tries(operation, tries), self._execute)
            if self._session is not None and self._changed:
                commit_sync(self._session)
        except PyMongoError as error:
            tries.brief = self._brief
            if not self._outside and is_conflict(error):
                tries.rolled_back()
            raise
        finally:
            if self._session is not None:
                self._session.end_session()
        return answer

    def _execute(self, command: Command) -> Any:
        if self._session is None and command.alone and self._is_verb:
            self._outside = self._outside or not command.reads
        elif self._session is None:
            self._brief = command.brief
            self._session = self._client.start_session(causal_consistency=False)
            self._session.start_transaction(BRIEF if command.brief else SNAPSHOT, MAJORITY)
        self._changed = self._changed or not (command.reads or command.brief)
        return run_command_sync(self._database, command, self._session)


async def begin(session: AsyncClientSession, *, brief: bool = False) -> None:
    await session.start_transaction(BRIEF if brief else SNAPSHOT, MAJORITY)


async def commit(session: AsyncClientSession) -> None:
    """Commit; repeated while the outcome is unknown and there is time."""
    deadline = time.monotonic() + LONGEST
    failures = 0
    while True:
        try:
            return await session.commit_transaction()
        except PyMongoError as error:
            if not is_unknown(error) or time.monotonic() > deadline:
                raise
        failures += 1
        await asyncio.sleep(PAUSES.delay(failures))


def commit_sync(session: ClientSession) -> None:
    deadline = time.monotonic() + LONGEST
    failures = 0
    while True:
        try:
            return session.commit_transaction()
        except PyMongoError as error:
            if not is_unknown(error) or time.monotonic() > deadline:
                raise
        failures += 1
        time.sleep(PAUSES.delay(failures))


async def end_idle_transactions(client: AsyncMongoClient[Document]) -> None:
    """End the brief transactions of processes that were killed or frozen."""
    with suppress(PyMongoError):  # a server that refuses it ends them itself
        found = await (await client.admin.aggregate(_idle())).to_list()
        if found:
            await client.admin.command(_ending(found))


def end_idle_transactions_sync(client: MongoClient[Document]) -> None:
    with suppress(PyMongoError):
        found = client.admin.aggregate(_idle()).to_list()
        if found:
            client.admin.command(_ending(found))


def _idle() -> list[Document]:
    return [
        {"$currentOp": {"allUsers": False, "idleSessions": True}},
        {
            "$match": {
                "active": False,
                "transaction.timeInactiveMicros": {"$gt": round(IDLE * 1e6)},
                "transaction.parameters.readConcern.level": BRIEF.level,
                "clientMetadata.driver.name": {"$regex": rf"\|{CLIENT}\b"},
            }
        },
        {"$project": {"lsid.id": 1}},
    ]


def _ending(found: Iterable[Document]) -> Document:
    return {"killSessions": [{"id": each["lsid"]["id"]} for each in found]}


async def retry_conflicts(
    attempt: Callable[[], Awaitable[T]],
    seconds: float,
    when_stuck: Callable[[], Awaitable[None]] | None = None,
) -> T:
    """Repeat the attempt until it meets no conflict, or the time is up."""
    began = looked = time.monotonic()
    failures = 0
    while True:
        try:
            with Cancels():
                return await attempt()
        except PyMongoError as error:
            now = time.monotonic()
            if not is_conflict(error) or now > began + seconds:
                raise
        failures += 1
        if when_stuck is not None and now > looked + IDLE:
            looked = now
            await when_stuck()
        await asyncio.sleep(PAUSES.delay(failures))


def retry_conflicts_sync(
    attempt: Callable[[], T], seconds: float, when_stuck: Callable[[], None]
) -> T:
    began = looked = time.monotonic()
    failures = 0
    while True:
        try:
            return attempt()
        except PyMongoError as error:
            now = time.monotonic()
            if not is_conflict(error) or now > began + seconds:
                raise
        failures += 1
        if now > looked + IDLE:
            looked = now
            when_stuck()
        time.sleep(PAUSES.delay(failures))


def is_conflict(error: BaseException) -> bool:
    """Another transaction has changed a document, or inserted the same id or key."""
    if isinstance(error, DuplicateKeyError):
        return True
    return isinstance(error, OperationFailure) and (
        error.code == _WRITE_CONFLICT
        or (error.has_error_label("TransientTransactionError") and error.code not in _UNREACHABLE)
    )


def is_unknown(error: PyMongoError) -> bool:
    """Whether the outcome of a commit is unknown, and there is time to repeat it."""
    return error.has_error_label("UnknownTransactionCommitResult") and not error.timeout


def is_unreachable(error: BaseException) -> bool:
    """There is no primary, it is shutting down, or it does not answer."""
    if isinstance(error, ConnectionFailure | ExecutionTimeout):
        return True
    return isinstance(error, OperationFailure) and (
        error.code in _UNREACHABLE
        or error.code == _TIME_IS_UP
        or error.has_error_label("RetryableWriteError")
    )


def is_data_error(error: BaseException) -> bool:
    """MongoDB cannot store the data: invalid text, a number out of range, or too much of it."""
    if isinstance(error, BulkWriteError):
        codes = {each.get("code") for each in error.details.get("writeErrors", [])}
        return bool(codes & _DATA_ERRORS)
    if isinstance(error, OperationFailure):
        return error.code in _DATA_ERRORS
    return isinstance(error, BSONError | UnicodeError | OverflowError)


def is_transient(error: BaseException) -> bool:
    """Another try of the operation may succeed. A failed search for a primary is not repeated: it
    has taken long enough."""
    if isinstance(error, ServerSelectionTimeoutError | WaitQueueTimeoutError):
        return False
    return isinstance(error, AutoReconnect) or is_unreachable(error)
