"""Commands for MongoDB, and their execution in pymongo's sessions, async and sync."""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import unquote

import msgspec
import pymongo
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.common import URI_OPTIONS_VALIDATOR_MAP
from pymongo.errors import (
    BulkWriteError,
    DuplicateKeyError,
    InvalidURI,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
)
from pymongo.errors import ConfigurationError as PyMongoConfigurationError
from pymongo.synchronous.client_session import ClientSession
from pymongo.synchronous.database import Database
from pymongo.uri_parser import parse_uri

from headway.domain.validation import check_parameters
from headway.errors import ConfigurationError

Document = dict[str, Any]

DEFAULT_DATABASE = "headway"
NO_WAIT = 0.25
"""Time limit, in seconds, of a command that must not wait for the transactions of others."""

_READS = frozenset({"find", "aggregate"})
_DUPLICATE_KEY = 11000


class Command(msgspec.Struct, frozen=True, gc=False):
    """One command for the database. The runner sends the operation the documents found by a query,
    or the server's reply to any other command.

    An `alone` command is the only one of its verb, or only reads: when the verb is run by itself,
    it needs no transaction.
    """

    body: Document
    alone: bool = False
    no_wait: bool = False
    """Outside of a transaction: do not wait for a document that an open transaction has changed;
    the reply then has `blocked`. Only one server acknowledges the command, so its changes must be
    read `after` it."""
    after: Any = None
    """Outside of a transaction: read the majority's state at this operation time or later."""
    latest: bool = False
    """Outside of a transaction: read the primary's state, confirmed by a majority."""
    brief: bool = False
    """This command locks a queue. The transaction that begins with it is brief: others end it when
    it is idle."""

    @property
    def reads(self) -> bool:
        return next(iter(self.body)) in _READS


class Try(msgspec.Struct, frozen=True, gc=False):
    """The current try of an operation."""

    mark: int
    """A number that an update writes into the documents that it changes, to find them afterwards.
    It is the same in every try of the operation, and unique to it."""
    again: bool
    """Whether there were earlier tries that may have had effects."""
    memory: dict[str, Any]
    """What earlier tries have learnt; the next try gets the same dictionary."""


class TryRequest(msgspec.Struct, frozen=True, gc=False):
    """An operation yields this to be sent a Try."""


class TryCounter:
    """Numbers the tries of one operation."""

    def __init__(self) -> None:
        self._first_mark = random.getrandbits(62)
        self._uncertain = 0
        self._again = False
        self._asked = 0
        self._memories: dict[int, dict[str, Any]] = {}
        self.brief = False
        """Whether a try began a brief transaction."""

    @property
    def uncertain(self) -> bool:
        """Whether a try that has ended may have had effects."""
        return self._uncertain > 0

    def begin(self) -> None:
        self._again = self.uncertain
        self._uncertain += 1
        self._asked = 0

    def rolled_back(self) -> None:
        """The try that has just ended had no effects."""
        self._uncertain -= 1

    def answer(self) -> Try:
        self._asked += 1
        memory = self._memories.setdefault(self._asked, {})
        return Try(self._first_mark + self._asked, self._again, memory)


def describe(url: str) -> tuple[str, str]:
    """The name of a store with this URL, without secrets, and the name of the database."""
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    hosts = authority.rpartition("@")[2]
    database = unquote(path.partition("?")[0]) or DEFAULT_DATABASE
    try:
        if scheme == "mongodb":  # the hosts of mongodb+srv are looked up when connecting
            parse_uri(url, validate=False)
    except (InvalidURI, PyMongoConfigurationError, ValueError):
        raise ConfigurationError(
            "the MongoDB URL cannot be read; write mongodb://user:password@host:port/database"
            " with special characters in user and password percent-encoded"
        ) from None
    check_parameters("a MongoDB URL", path.partition("?")[2], URI_OPTIONS_VALIDATOR_MAP)
    return f"MongoDB database {database!r} at {hosts}", database


async def run_command(
    database: AsyncDatabase[Document], command: Command, session: AsyncClientSession | None
) -> Any:
    """Run a command, in the session's transaction if there is one."""
    within = session is not None and session.in_transaction
    body = _complete(command, within)
    if next(iter(body)) in _READS:
        cursor = await database.cursor_command(body, session=session)
        return await cursor.to_list()
    if not command.no_wait or within:
        return checked(await database.command(body, session=session))
    try:
        with pymongo.timeout(NO_WAIT):
            return checked(await database.command(body))
    except PyMongoError as error:
        return _blocked(error)


def run_command_sync(
    database: Database[Document], command: Command, session: ClientSession | None
) -> Any:
    """The same without an event loop."""
    within = session is not None and session.in_transaction
    body = _complete(command, within)
    if next(iter(body)) in _READS:
        return database.cursor_command(body, session=session).to_list()
    if not command.no_wait or within:
        return checked(database.command(body, session=session))
    try:
        with pymongo.timeout(NO_WAIT):
            return checked(database.command(body))
    except PyMongoError as error:
        return _blocked(error)


def checked(reply: Document) -> Document:
    """The reply to a write; raises if any part of it failed."""
    errors: list[Document] = reply.get("writeErrors", [])
    if errors:
        first = errors[0]
        kind = DuplicateKeyError if first["code"] == _DUPLICATE_KEY else BulkWriteError
        if kind is BulkWriteError:
            raise BulkWriteError(reply)
        raise DuplicateKeyError(first["errmsg"], first["code"], first)
    trouble: Document | None = reply.get("writeConcernError")
    if trouble is not None:
        raise WriteConcernError(trouble["errmsg"], trouble["code"], {**reply, **trouble})
    return reply


def require_transaction(session: AsyncClientSession | ClientSession) -> None:
    if not session.in_transaction:
        raise ConfigurationError(
            "tx= is a session without an open transaction; "
            "open one with `session.start_transaction()`, or leave tx out"
        )


def _complete(command: Command, within: bool) -> Document:
    """The command with its read or write concern, which is `majority` unless the command says
    otherwise. A transaction has its own."""
    body = dict(command.body)
    if within or next(iter(body)) == "count":
        return body
    if next(iter(body)) in _READS:
        body["readConcern"] = {"level": "linearizable" if command.latest else "majority"}
        if command.after is not None:
            body["readConcern"]["afterClusterTime"] = command.after
    elif command.no_wait:
        # Journaled at once: the majority's next journal flush takes up to a tenth of a second.
        body["writeConcern"] = {"w": 1, "j": True}
    else:
        body["writeConcern"] = {"w": "majority"}
    return body


def _blocked(error: PyMongoError) -> Document:
    """The reply of a command whose short time limit has passed; raises all other errors."""
    if not error.timeout:
        raise error
    details = error.details if isinstance(error, OperationFailure) else None
    return {"n": 0, "blocked": True, "operationTime": (details or {}).get("operationTime")}
