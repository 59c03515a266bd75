"""MongoDB: commands, and pymongo's sessions that they are run in, awaiting and blocking."""

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
AT_ONCE = 0.25
"""Seconds that a command which must not wait for others' transactions is given."""

_READS = frozenset({"find", "aggregate"})
_DUPLICATE_KEY = 11000


class Command(msgspec.Struct, frozen=True, gc=False):
    """One command for the database. Whoever runs it sends back the documents that it found, or
    the server's reply if it was no query.

    `alone` says that the command is all that its verb does, or that it only reads: when the verb
    is run by itself, it needs no transaction around it.
    """

    body: Document
    alone: bool = False
    at_once: bool = False
    """Outside of a transaction: give up, and answer with `blocked`, instead of waiting until
    somebody else's transaction lets go of a document. It is acknowledged by one server only, so
    what was done must be read `after` it."""
    after: Any = None
    """Outside of a transaction: read what a majority has, at this operation time or later."""
    latest: bool = False
    """Outside of a transaction: read what the primary has, once a majority has it, too."""


class Try(msgspec.Struct, frozen=True, gc=False):
    """Which try of an operation this is."""

    mark: int
    """To be written with a change, so that it can be seen afterwards where it took: the same in
    every try of the operation, another one for everybody else."""
    again: bool
    """There were tries before, that may have got anywhere."""


class WhichTry(msgspec.Struct, frozen=True, gc=False):
    """What an operation yields to be sent a Try."""


class Tries:
    """The tries of one operation; `begin` each."""

    def __init__(self) -> None:
        self._first_mark = random.getrandbits(62)
        self._begun = 0
        self._asked = 0

    def begin(self) -> None:
        self._begun += 1
        self._asked = 0

    def answer(self) -> Try:
        self._asked += 1
        return Try(self._first_mark + self._asked, self._begun > 1)


def describe(url: str) -> tuple[str, str]:
    """Where a URL leads, without its secrets, and the name of the database."""
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    hosts = authority.rpartition("@")[2]
    database = unquote(path.partition("?")[0]) or DEFAULT_DATABASE
    try:
        if scheme == "mongodb":  # a mongodb+srv one is looked up when it is connected to
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
    if not command.at_once or within:
        return checked(await database.command(body, session=session))
    try:
        with pymongo.timeout(AT_ONCE):
            return checked(await database.command(body))
    except PyMongoError as error:
        return _blocked(error)


def run_command_sync(
    database: Database[Document], command: Command, session: ClientSession | None
) -> Any:
    """The same, blocking."""
    within = session is not None and session.in_transaction
    body = _complete(command, within)
    if next(iter(body)) in _READS:
        return database.cursor_command(body, session=session).to_list()
    if not command.at_once or within:
        return checked(database.command(body, session=session))
    try:
        with pymongo.timeout(AT_ONCE):
            return checked(database.command(body))
    except PyMongoError as error:
        return _blocked(error)


def checked(reply: Document) -> Document:
    """The reply to a write; raises if any of it went wrong."""
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
    """The command as it is sent: what is read has reached a majority, what is written will have;
    in a transaction that is said when it begins."""
    body = dict(command.body)
    if within or next(iter(body)) == "count":
        return body
    if next(iter(body)) in _READS:
        body["readConcern"] = {"level": "linearizable" if command.latest else "majority"}
        if command.after is not None:
            body["readConcern"]["afterClusterTime"] = command.after
    elif command.at_once:
        # Journaled here and now: a majority that has to wait for the next turn of the journal
        # takes a tenth of a second.
        body["writeConcern"] = {"w": 1, "j": True}
    else:
        body["writeConcern"] = {"w": "majority"}
    return body


def _blocked(error: PyMongoError) -> Document:
    """What a command answers that ran out of its short time; other errors are raised."""
    if not error.timeout:
        raise error
    details = error.details if isinstance(error, OperationFailure) else None
    return {"n": 0, "blocked": True, "operationTime": (details or {}).get("operationTime")}
