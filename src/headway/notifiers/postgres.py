"""Notifications through PostgreSQL's LISTEN and NOTIFY, on connections of their own."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection, Notify, OperationalError, sql
from psycopg.rows import TupleRow

from headway.domain.validation import check_identifier
from headway.drivers.postgres_dsn import WHO_ANSWERS, connect_arguments, describe, is_pooled
from headway.drivers.postgres_statement_parameters import array_literal
from headway.errors import ConfigurationError
from headway.notifiers.connection import ConnectionCallbacks, NotifierConnection
from headway.notifiers.packets import Message, pack
from headway.notifiers.remote import RemoteNotifier
from headway.ports.notifications import JobsScheduled, Notification, Topic
from headway.ports.notifier import Reach
from headway.ports.statement import Operation, Statement

LONGEST_CHANNEL = 63

# When the server's notification queue is full, because some listener does not read, a transaction
# with a NOTIFY cannot commit. So notifications are left out while the queue is half full.
HAS_ROOM = "where (select pg_notification_queue_usage()) < 0.5"

# No fsync: after a crash, polling finds what a lost notification announced.
NOTIFY = f"""\
select set_config('synchronous_commit', 'off', true), pg_notify(c, p)
from unnest(%s::text[], %s::text[]) as n (c, p) {HAS_ROOM}"""

# Jobs of a transaction that are due already get its start as their time: then their notifications
# are equal, and the server sends one. `@` stands for the time; names cannot hold it.
NOTIFY_WITHIN = f"""\
select pg_notify(c, replace(p, '@', coalesce(to_char(
    case when r <= clock_timestamp() then transaction_timestamp() else r end at time zone 'UTC',
    'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
), ''))) from unnest($1::text[], $2::text[], $3::timestamptz[]) as n (c, p, r) {HAS_ROOM}"""


class PostgresNotifier(RemoteNotifier):
    """Wakes all subscribers on the same database and schema.

    It keeps no budgets between processes: each wakes at most as many of its own workers as there
    are jobs. LISTEN does not work through a pooler: give it a DSN of the server itself.
    """

    reach = Reach.EVERY_COMMIT

    def __init__(self, dsn: str, *, schema: str = "headway") -> None:
        self._database = describe(dsn)
        super().__init__(f"notifier on {self._database}")
        self._dsn = dsn
        self.channels = {
            topic: channel_name(check_identifier("schema name", schema), topic) for topic in Topic
        }

    async def connect(self, callbacks: ConnectionCallbacks) -> NotifierConnection:
        return _PostgresNotifierConnection(self._dsn, self.channels, callbacks)

    def within(self, store: str) -> Callable[[Sequence[Notification]], Operation[None]] | None:
        # The store may use a pooler and the notifier not, so only the database names are compared.
        same = store.partition(" at ")[0] == self._database.partition(" at ")[0]
        return self._publish_within if same else None

    def _publish_within(self, notifications: Sequence[Notification]) -> Operation[None]:
        rows: list[tuple[str, str, datetime | None]] = []
        others: list[Notification] = []
        for item in notifications:
            if isinstance(item, JobsScheduled):
                # Without the count, so that a thousand starts in one transaction send one.
                ((topic, packet),) = pack([JobsScheduled(item.queue, item.type, 0)], "")
                text = packet.decode()
                if item.run_at is not None:
                    text = text.replace('"run_at":null', '"run_at":"@"')
                rows.append((self.channels[topic], text, item.run_at))
            else:
                others.append(item)
        rows += [
            (self.channels[topic], packet.decode(), None) for topic, packet in pack(others, "")
        ]
        yield Statement(NOTIFY_WITHIN, rows=rows)


def channel_name(schema: str, topic: Topic) -> str:
    """The name of a LISTEN channel; a hash stands for a schema name that is too long."""
    name = f"headway:{schema}:{topic}"
    if len(name.encode()) <= LONGEST_CHANNEL:
        return name
    return f"headway:{hashlib.sha256(schema.encode()).hexdigest()[:24]}:{topic}"


class _PostgresNotifierConnection(NotifierConnection):
    """One connection listens and one sends, each made when it is first needed.

    The loop reads the listening one: psycopg's generator would wake up ten times a second and
    block the connection.
    """

    def __init__(
        self, dsn: str, channels: dict[Topic, str], callbacks: ConnectionCallbacks
    ) -> None:
        self._dsn = dsn
        self._channels = channels
        self._callbacks = callbacks
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        """For statements on the listening connection."""
        self._send_lock = asyncio.Lock()
        self._closed = False
        self._listening: AsyncConnection[TupleRow] | None = None
        self._sending: AsyncConnection[TupleRow] | None = None
        self._socket: int | None = None

    async def listen(self, topics: frozenset[Topic]) -> None:
        async with self._lock:
            if self._listening is None:
                self._listening = await self._connect("headway listener")
                if await _through_a_pooler(self._listening):
                    raise ConfigurationError(
                        "LISTEN does not work through a pooler; give the notifier a DSN of the "
                        'server itself, as in notifier="postgresql://…"'
                    )
                self._listening.add_notify_handler(self._on_notify)
            for topic in topics:
                channel = sql.Identifier(self._channels[topic])
                await self._ask(self._listening, sql.SQL("listen {}").format(channel))

    async def send(self, messages: Sequence[Message], budgets: Sequence[tuple[str, int]]) -> None:
        async with self._send_lock:
            if self._sending is None:
                self._sending = await self._connect("headway notifier")
                if not await _through_a_pooler(self._sending):
                    self._sending.prepare_threshold = 0
            await self._sending.execute(
                NOTIFY,
                (
                    array_literal([self._channels[topic] for topic, _ in messages]),
                    array_literal([packet.decode() for _, packet in messages]),
                ),
            )

    async def watch(self) -> None:
        async with self._lock:
            if self._listening is not None:
                await self._ask(self._listening, sql.SQL("select 1"))

    async def close(self) -> None:
        self._closed = True
        self._stop_reading()
        listening, self._listening = self._listening, None
        sending, self._sending = self._sending, None
        for connection, lock in ((listening, self._lock), (sending, self._send_lock)):
            if connection is None:
                continue
            # Closing a connection during a statement would free memory in use: cut the statement
            # off first.
            if lock.locked():
                _cut(connection)
            async with lock:
                await connection.close()

    async def _connect(self, name: str) -> AsyncConnection[TupleRow]:
        if self._closed:
            raise ConnectionError("this notifier connection is closed")
        settings: dict[str, Any] = {**connect_arguments(self._dsn), "application_name": name}
        return await AsyncConnection.connect(
            self._dsn, autocommit=True, prepare_threshold=None, **settings
        )

    async def _ask(
        self, connection: AsyncConnection[TupleRow], query: sql.SQL | sql.Composed
    ) -> None:
        """Run a statement on the listening connection; meanwhile psycopg reads it, not `_read`."""
        self._stop_reading()
        await connection.execute(query)
        self._socket = connection.pgconn.socket
        self._loop.add_reader(self._socket, self._read, connection)

    def _stop_reading(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket = None

    def _read(self, connection: AsyncConnection[TupleRow]) -> None:
        try:
            connection.pgconn.consume_input()
            while notify := connection.pgconn.notifies():
                self._callbacks.received(notify.extra)
        except Exception as error:
            self._stop_reading()
            self._callbacks.lost(error)

    def _on_notify(self, notify: Notify) -> None:
        """A notification arrived while a statement ran."""
        self._callbacks.received(notify.payload)


async def _through_a_pooler(connection: AsyncConnection[TupleRow]) -> bool:
    cursor = await connection.execute(WHO_ANSWERS)
    return is_pooled(connection, await cursor.fetchone())


def _cut(connection: AsyncConnection[TupleRow]) -> None:
    """Shut the socket down, so that a statement that waits for its answer fails."""
    with (
        contextlib.suppress(OSError, OperationalError),
        socket.socket(fileno=os.dup(connection.pgconn.socket)) as ours,
    ):
        ours.shutdown(socket.SHUT_RDWR)
