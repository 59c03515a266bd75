"""Notifications through a change stream on a small collection of its own.

A change stream on the jobs would need no extra writes, but then the server would read every change
of every job once per worker; here it reads merged notifications only. A notification written in a
caller's transaction is delivered with the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.asynchronous.collection import AsyncCollection

from headway.domain.validation import check_identifier
from headway.drivers.mongodb import Command, Document, describe
from headway.notifiers.connection import ConnectionCallbacks, NotifierConnection
from headway.notifiers.packets import Message, pack
from headway.notifiers.remote import RemoteNotifier
from headway.ports.notifications import Notification, Topic
from headway.ports.notifier import Reach
from headway.ports.statement import Operation
from headway.runtime.cancellation import Cancels

KEPT_FOR = 60
"""Seconds after which notifications are deleted."""
LISTEN_FOR = 2_000
"""Milliseconds after which the server answers a waiting listener without a notification."""


class MongoNotifier(RemoteNotifier):
    """Wakes all subscribers on the same database and schema. It keeps no budgets between
    processes: each wakes at most as many of its own workers as there are jobs."""

    reach = Reach.EVERY_COMMIT

    def __init__(self, url: str, *, schema: str = "headway") -> None:
        self._where, self._database = describe(url)
        super().__init__(f"notifier on {self._where}")
        self._url = url
        self._collection = f"{check_identifier('schema name', schema)}.notifications"

    async def connect(self, callbacks: ConnectionCallbacks) -> NotifierConnection:
        client: AsyncMongoClient[Document] = AsyncMongoClient(
            self._url,
            appname="headway notifier",
            serverSelectionTimeoutMS=int(self.timeout * 1_000),
            connectTimeoutMS=int(self.timeout * 1_000),
            retryWrites=False,  # RemoteNotifier connects again, and logs it
            retryReads=False,
        )
        collection = client[self._database][self._collection]
        try:
            await collection.create_index("at", expireAfterSeconds=KEPT_FOR)
        except BaseException:
            await client.close()
            raise
        return _MongoNotifierConnection(client, collection, callbacks)

    def within(self, store: str) -> Callable[[Sequence[Notification]], Operation[None]] | None:
        return self._publish_within if store == self._where else None

    def _publish_within(self, notifications: Sequence[Notification]) -> Operation[None]:
        messages = pack(notifications, "")
        if messages:
            yield Command({"insert": self._collection, "documents": _documents(messages)})


class _MongoNotifierConnection(NotifierConnection):
    def __init__(
        self,
        client: AsyncMongoClient[Document],
        collection: AsyncCollection[Document],
        callbacks: ConnectionCallbacks,
    ) -> None:
        self._client = client
        self._collection = collection
        self._callbacks = callbacks
        self._topics: frozenset[Topic] = frozenset()
        self._reader: asyncio.Task[None] | None = None

    async def listen(self, topics: frozenset[Topic]) -> None:
        # One stream for all topics: the new one is open before the old one is closed.
        self._topics |= topics
        wanted = {"operationType": "insert", "fullDocument.topic": {"$in": sorted(self._topics)}}
        stream: AsyncChangeStream[Document] = await self._collection.watch(
            [{"$match": wanted}, {"$project": {"fullDocument.packet": 1}}],
            max_await_time_ms=LISTEN_FOR,
        )
        before = self._reader
        self._reader = asyncio.create_task(self._read(stream), name="headway notifications")
        await _end(before)

    async def send(self, messages: Sequence[Message], budgets: Sequence[tuple[str, int]]) -> None:
        if messages:
            await self._collection.insert_many(_documents(messages), ordered=True)

    async def watch(self) -> None:
        await self._client.admin.command("ping")

    async def close(self) -> None:
        reader, self._reader = self._reader, None
        await _end(reader)
        await self._client.close()

    async def _read(self, stream: AsyncChangeStream[Document]) -> None:
        try:
            async with stream:
                while stream.alive:
                    with Cancels():
                        change = await stream.try_next()
                    if change is not None:
                        self._callbacks.received(change["fullDocument"]["packet"])
        except Exception as error:
            self._callbacks.lost(error)
        else:
            self._callbacks.lost(ConnectionError("the change stream has ended"))


def _documents(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """As stored. The time is only used to delete them, so the clock of this machine will do."""
    at = datetime.now(UTC)
    return [{"topic": str(topic), "packet": data.decode(), "at": at} for topic, data in messages]


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
