"""News through NATS subjects, with budgets in a JetStream bucket where the server has JetStream."""

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
from headway.notifiers.connection import Ears, Link
from headway.notifiers.packets import Message
from headway.notifiers.remote import LinkedNotifier
from headway.ports.notifications import Topic

HINTS_LIVE = 60.0
"""Seconds for which a budget is kept; who comes later may look."""
MOST_TRIES = 20
"""Times that a share is tried for while others take theirs; who has no luck may look."""


class NatsNotifier(LinkedNotifier):
    """`nats://user:password@host:4222?prefix=shop`: those with the same prefix hear one another, on
    the subjects shop.scheduled, shop.ended and shop.lost. Without JetStream it keeps no budgets
    between processes: each wakes at most as many of its own workers as there are jobs."""

    def __init__(self, url: str, *, prefix: str | None = None) -> None:
        self._url, given = split_prefix(url)
        parts = urlsplit(self._url)
        super().__init__(
            f"notifier on NATS at {parts.hostname or 'localhost'}:{parts.port or 4222}"
        )
        self.prefix = prefix or given

    async def connect(self, ears: Ears) -> Link:
        connection = Client()

        async def closed() -> None:
            ears.lost(ConnectionError("the connection was closed"))

        async def complain(error: Exception) -> None:
            """Connecting would be tried again and again; later, what matters closes it."""
            if not connection.is_connected:
                raise error

        try:
            await connection.connect(
                self._url,
                name="headway",
                allow_reconnect=False,  # we connect again ourselves, and say so
                connect_timeout=max(1, round(self.patience)),
                closed_cb=closed,
                disconnected_cb=closed,
                error_cb=complain,
            )
            bucket = await _hint_bucket(connection, f"{self.prefix}_hints", self.patience / 2)
        except BaseException:
            with contextlib.suppress(Exception):
                await connection.close()
            raise
        return _NatsLink(connection, bucket, self.prefix, ears, self.patience)


class _NatsLink:
    def __init__(
        self,
        connection: Client,
        bucket: KeyValue | None,
        prefix: str,
        ears: Ears,
        patience: float,
    ) -> None:
        self.counts = bucket is not None
        self._connection: Any = connection
        self._bucket = bucket
        self._prefix = prefix
        self._ears = ears
        self._patience = patience

    async def listen(self, topics: frozenset[Topic]) -> None:
        async def receive(message: Msg) -> None:
            self._ears.heard(message.data)

        for topic in topics:
            await self._connection.subscribe(f"{self._prefix}.{topic}", cb=receive)
        await self._connection.flush(self._patience)

    async def send(self, messages: Sequence[Message], budgets: Sequence[tuple[str, int]]) -> None:
        bucket = self._bucket
        if bucket is not None and budgets:
            await asyncio.gather(
                *(bucket.put(hint, str(count).encode()) for hint, count in budgets)
            )
        for topic, packet in messages:
            await self._connection.publish(f"{self._prefix}.{topic}", packet)
        await self._connection.flush(self._patience)

    async def take(self, wanted: Sequence[tuple[str, int]]) -> list[int]:
        return await asyncio.gather(*(self._take(hint, count) for hint, count in wanted))

    async def _take(self, hint: str, wanted: int) -> int:
        bucket = self._bucket
        if bucket is None:
            return wanted
        for _ in range(MOST_TRIES):
            try:
                entry = await bucket.get(hint)
            except KeyNotFoundError:
                return wanted
            left = int(entry.value or b"0")
            granted = min(left, wanted)
            if granted <= 0:
                return 0
            try:
                await bucket.update(hint, str(left - granted).encode(), last=entry.revision)
            except KeyWrongLastSequenceError:
                continue
            return granted
        return wanted

    async def watch(self) -> None:
        await self._connection.flush(self._patience)

    async def close(self) -> None:
        await self._connection.close()


async def _hint_bucket(connection: Client, name: str, timeout: float) -> KeyValue | None:
    """None if the server has no JetStream, or does not let us use it."""
    untyped: Any = connection
    streams = untyped.jetstream(timeout=timeout)
    try:
        try:
            bucket: KeyValue = await streams.key_value(name)
        except BucketNotFoundError:
            bucket = await streams.create_key_value(
                bucket=name, ttl=HINTS_LIVE, storage=StorageType.MEMORY, history=1
            )
    except Error:
        return None
    return bucket
