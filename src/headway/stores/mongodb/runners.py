"""Driving operations: the two loops, one awaits and the other does not; transactions around them,
and what can go wrong.

MongoDB never lets a transaction wait for a document that another one has changed: it ends it, and
says by a label that it may be tried again. Outside of the caller's transactions that is done here,
with short pauses, until the operation's time is up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
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
    Tries,
    WhichTry,
    run_command,
    run_command_sync,
)
from headway.ports.statement import Operation
from headway.runtime.cancellation import Cancels
from headway.stores.time_limits import LONGEST

T = TypeVar("T")

PAUSES = Backoff(base=0.002, cap=0.1)
"""Before a transaction that met another one is tried again."""

MAJORITY = WriteConcern("majority")
SNAPSHOT = ReadConcern("snapshot")

_WRITE_CONFLICT = 112
_TIME_IS_UP = 50
# Shutting down, stepping down, not (yet) primary, interrupted by either.
_AWAY = frozenset({6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
# A document or a key that is too large, before or after a change; one that a rule forbids.
_DATAS_FAULT = frozenset({121, 10334, 17280, 17419, 17420})
DRIVERS_ERRORS = (PyMongoError, BSONError, UnicodeError, OverflowError)
"""What pymongo raises; the last two are Python's, about values that cannot be sent."""


async def drive(
    operation: Operation[T], tries: Tries, execute: Callable[[Command], Awaitable[Any]]
) -> T:
    """Run an operation to its end, sending each command's answer back to it."""
    tries.begin()
    try:
        asked: Command | WhichTry = next(operation)
        while True:
            if isinstance(asked, WhichTry):
                asked = operation.send(tries.answer())
            else:
                asked = operation.send(await execute(asked))
    except StopIteration as end:
        answer: T = end.value
        return answer
    finally:
        operation.close()


def drive_sync(operation: Operation[T], tries: Tries, execute: Callable[[Command], Any]) -> T:
    """The same, blocking."""
    tries.begin()
    try:
        asked: Command | WhichTry = next(operation)
        while True:
            if isinstance(asked, WhichTry):
                asked = operation.send(tries.answer())
            else:
                asked = operation.send(execute(asked))
    except StopIteration as end:
        answer: T = end.value
        return answer
    finally:
        operation.close()


class AsyncRunner:
    """Runs one operation; begins a transaction before the first command that needs one.
    `is_verb`: the operation is one of the store's own, so what it says to be atomic by itself
    needs none; a flow made of several always does."""

    def __init__(self, client: AsyncMongoClient[Document], database: str, *, is_verb: bool) -> None:
        self._client = client
        self._database: AsyncDatabase[Document] = client[database]
        self._is_verb = is_verb
        self._session: AsyncClientSession | None = None

    async def run(self, operation: Operation[T], tries: Tries) -> T:
        try:
            answer = await drive(operation, tries, self._execute)
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


class BlockingRunner:
    """The same without an event loop."""

    def __init__(self, client: MongoClient[Document], database: str, *, is_verb: bool) -> None:
        self._client = client
        self._database: Database[Document] = client[database]
        self._is_verb = is_verb
        self._session: ClientSession | None = None

    def run(self, operation: Operation[T], tries: Tries) -> T:
        try:
            answer = drive_sync(operation, tries, self._execute)
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
    """Commit, and ask again for as long as the answer is unknown and there is time."""
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


async def through_conflicts(attempt: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Try until no other transaction is in the way, or the time is up."""
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


def through_conflicts_sync(attempt: Callable[[], T], seconds: float) -> T:
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
    """Another transaction was in the way, or stored the same id or key first."""
    if isinstance(error, DuplicateKeyError):
        return True
    return isinstance(error, OperationFailure) and (
        error.code == _WRITE_CONFLICT
        or (error.has_error_label("TransientTransactionError") and error.code not in _AWAY)
    )


def is_unknown(error: PyMongoError) -> bool:
    """Whether a commit may or may not have happened, and there is time to ask again."""
    return error.has_error_label("UnknownTransactionCommitResult") and not error.timeout


def is_away(error: BaseException) -> bool:
    """There is no primary, it goes away, or it does not answer."""
    if isinstance(error, ConnectionFailure | ExecutionTimeout):
        return True
    return isinstance(error, OperationFailure) and (
        error.code in _AWAY
        or error.code == _TIME_IS_UP
        or error.has_error_label("RetryableWriteError")
    )


def is_refusal(error: BaseException) -> bool:
    """The data is at fault: text that MongoDB cannot hold, a number out of range, too much."""
    if isinstance(error, BulkWriteError):
        codes = {each.get("code") for each in error.details.get("writeErrors", [])}
        return bool(codes & _DATAS_FAULT)
    if isinstance(error, OperationFailure):
        return error.code in _DATAS_FAULT
    return isinstance(error, BSONError | UnicodeError | OverflowError)


def is_transient(error: BaseException) -> bool:
    """Trying the whole operation again may help. Having looked for a primary in vain, it has been
    tried for long enough."""
    if isinstance(error, ServerSelectionTimeoutError | WaitQueueTimeoutError):
        return False
    return isinstance(error, AutoReconnect) or is_away(error)
