"""Notifications through NATS subjects; budgets in a JetStream bucket if the server has one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error
from nats.js.api import StorageType
from nats.js.errors import BucketNotFoundError, KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue

from headway.notifiers.channel_prefix import split_prefix
from headway.notifiers.connection import ConnectionCallbacks, NotifierConnection
from headway.notifiers.packets import Message
from headway.notifiers.remote import RemoteNotifier
from headway.ports.notifications import Topic

BUDGETS_LIVE = 60.0
"""Seconds for which a budget is kept; later every worker may look."""
MOST_TRIES = 20
"""Attempts to take a share while others take theirs; after that the worker may look."""


class NatsNotifier(RemoteNotifier):
    """`nats://user:password@host:4222?prefix=shop`: uses the subjects shop.scheduled, shop.ended
    and shop.lost. Without JetStream it keeps no budgets between processes: each wakes at most as
    many of its own workers as there are jobs."""

    def __init__(self, url: str, *, prefix: str | None = None) -> None:
        self._url, given = split_prefix(url)
        parts = urlsplit(self._url)
        super().__init__(
            f"notifier on NATS at {parts.hostname or 'localhost'}:{parts.port or 4222}"
        )
        self.prefix = prefix or given

    async def connect(self, callbacks: ConnectionCallbacks) -> NotifierConnection:
        connection = Client()

        async def closed() -> None:
            callbacks.lost(ConnectionError("the connection was closed"))

        async def complain(error: Exception) -> None:
            """Fail at once while connecting; later, errors that matter close the connection."""
            if not connection.is_connected:
                raise error

        try:
            await connection.connect(
                self._url,
                name="headway",
                allow_reconnect=False,  # RemoteNotifier connects again, and logs it
                connect_timeout=max(1, round(self.timeout)),
                closed_cb=closed,
                disconnected_cb=closed,
                error_cb=complain,
            )
            bucket = await _budget_bucket(connection, f"{self.prefix}_budgets", self.timeout / 2)
        except BaseException:
            with contextlib.suppress(Exception):
                await connection.close()
            raise
        return _NatsNotifierConnection(connection, bucket, self.prefix, callbacks, self.timeout)


class _NatsNotifierConnection(NotifierConnection):
    def __init__(
        self,
        connection: Client,
        bucket: KeyValue | None,
        prefix: str,
        callbacks: ConnectionCallbacks,
        timeout: float,
    ) -> None:
        self.counts = bucket is not None
        self._connection: Any = connection
        self._bucket = bucket
        self._prefix = prefix
        self._callbacks = callbacks
        self._timeout = timeout

    async def listen(self, topics: frozenset[Topic]) -> None:
        async def receive(message: Msg) -> None:
            self._callbacks.received(message.data)

        for topic in topics:
            await self._connection.subscribe(f"{self._prefix}.{topic}", cb=receive)
        await self._connection.flush(self._timeout)

    async def send(self, messages: Sequence[Message], budgets: Sequence[tuple[str, int]]) -> None:
        bucket = self._bucket
        if bucket is not None and budgets:
            await asyncio.gather(
                *(bucket.put(budget, str(count).encode()) for budget, count in budgets)
            )
        for topic, packet in messages:
            await self._connection.publish(f"{self._prefix}.{topic}", packet)
        await self._connection.flush(self._timeout)

    async def take(self, wanted: Sequence[tuple[str, int]]) -> list[int]:
        return await asyncio.gather(*(self._take(budget, count) for budget, count in wanted))

    async def _take(self, budget: str, wanted: int) -> int:
        bucket = self._bucket
        if bucket is None:
            return wanted
        for _ in range(MOST_TRIES):
            try:
                entry = await bucket.get(budget)
            except KeyNotFoundError:
                return wanted
            left = int(entry.value or b"0")
            granted = min(left, wanted)
            if granted <= 0:
                return 0
            try:
                await bucket.update(budget, str(left - granted).encode(), last=entry.revision)
            except KeyWrongLastSequenceError:
                continue
            return granted
        return wanted

    async def watch(self) -> None:
        await self._connection.flush(self._timeout)

    async def close(self) -> None:
        await self._connection.close()


async def _budget_bucket(connection: Client, name: str, timeout: float) -> KeyValue | None:
    """None if the server has no JetStream, or this user may not use it."""
    untyped: Any = connection
    streams = untyped.jetstream(timeout=timeout)
    try:
        try:
            bucket: KeyValue = await streams.key_value(name)
        except BucketNotFoundError:
            bucket = await streams.create_key_value(
                bucket=name, ttl=BUDGETS_LIVE, storage=StorageType.MEMORY, history=1
            )
    except Error:
        return None
    return bucket
