"""Execution of operations, async and sync: their transactions, conflicts and errors.

A transaction that meets a document which another transaction has changed does not wait: MongoDB
ends it with a label that allows another try. Outside of the caller's transactions the tries are
repeated here, with short pauses, until the operation's time is up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
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

    async def run(self, operation: Operation[T], tries: TryCounter) -> T:
        try:
            answer = await drive(with_tries(operation, tries), self._execute)
            if self._session is not None:
                await commit(self._session)
        finally:
            if self._session is not None:
                await self._session.end_session()  # rolls back what was not committed
        return answer

    async def _execute(self, command: Command) -> Any:
        if self._session is None and not (command.alone and self._is_verb):
            self._session = self._client.start_session(causal_consistency=False)
            await begin(self._session)
        return await run_command(self._database, command, self._session)


class MongoSyncRunner:
    """The same without an event loop."""

    def __init__(self, client: MongoClient[Document], database: str, *, is_verb: bool) -> None:
        self._client = client
        self._database: Database[Document] = client[database]
        self._is_verb = is_verb
        self._session: ClientSession | None = None

    def run(self, operation: Operation[T], tries: TryCounter) -> T:
        try:
            answer = drive_sync(with_tries(operation, tries), self._execute)
            if self._session is not None:
                commit_sync(self._session)
        finally:
            if self._session is not None:
                self._session.end_session()
        return answer

    def _execute(self, command: Command) -> Any:
        if self._session is None and not (command.alone and self._is_verb):
            self._session = self._client.start_session(causal_consistency=False)
            self._session.start_transaction(SNAPSHOT, MAJORITY)
        return run_command_sync(self._database, command, self._session)


async def begin(session: AsyncClientSession) -> None:
    await session.start_transaction(SNAPSHOT, MAJORITY)


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


async def retry_conflicts(attempt: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Repeat the attempt until it meets no conflict, or the time is up."""
    deadline = time.monotonic() + seconds
    failures = 0
    while True:
        try:
            with Cancels():
                return await attempt()
        except PyMongoError as error:
            if not is_conflict(error) or time.monotonic() > deadline:
                raise
        failures += 1
        await asyncio.sleep(PAUSES.delay(failures))


def retry_conflicts_sync(attempt: Callable[[], T], seconds: float) -> T:
    deadline = time.monotonic() + seconds
    failures = 0
    while True:
        try:
            return attempt()
        except PyMongoError as error:
            if not is_conflict(error) or time.monotonic() > deadline:
                raise
        failures += 1
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
