"""News through a change stream on a small collection of its own.

A change stream on the jobs themselves would need no further writes, but every worker would have the
server go through every change of every job; here it only goes through what is news, and that has
been put together before. News that is written in somebody's transaction is heard when it commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.asynchronous.collection import AsyncCollection

from headway.domain.names import check_identifier
from headway.drivers.mongodb import Command, Document, describe
from headway.notifiers.connection import Ears, Link
from headway.notifiers.packets import Message, pack
from headway.notifiers.remote import LinkedNotifier
from headway.ports.notifications import News, Topic
from headway.ports.notifier import Reach
from headway.ports.statement import Operation
from headway.runtime.cancellation import Cancels

NEWS_LIVE = 60
"""Seconds after which what has been heard is deleted."""
LISTEN_FOR = 2_000
"""Milliseconds that the server lets a listener wait before it says that there was nothing."""


class MongoNotifier(LinkedNotifier):
    """Wakes everyone who listens on the same database and schema. It keeps no budgets between
    processes: each wakes at most as many of its own workers as there are jobs."""

    reach = Reach.EVERY_COMMIT

    def __init__(self, url: str, *, schema: str = "headway") -> None:
        self._where, self._database = describe(url)
        super().__init__(f"notifier on {self._where}")
        self._url = url
        self._collection = f"{check_identifier('schema name', schema)}.news"

    async def connect(self, ears: Ears) -> Link:
        client: AsyncMongoClient[Document] = AsyncMongoClient(
            self._url,
            appname="headway news",
            serverSelectionTimeoutMS=int(self.patience * 1_000),
            connectTimeoutMS=int(self.patience * 1_000),
            retryWrites=False,  # we connect again ourselves, and say so
            retryReads=False,
        )
        link = _MongoLink(client, client[self._database][self._collection], ears)
        try:
            await link.hello()
        except BaseException:
            await link.close()
            raise
        return link

    def within(self, store: str) -> Callable[[Sequence[News]], Operation[None]] | None:
        return self._tell_within if store == self._where else None

    def _tell_within(self, news: Sequence[News]) -> Operation[None]:
        messages = pack(news, "")
        if messages:
            yield Command({"insert": self._collection, "documents": _documents(messages)})


class _MongoLink:
    counts = False

    def __init__(
        self,
        client: AsyncMongoClient[Document],
        collection: AsyncCollection[Document],
        ears: Ears,
    ) -> None:
        self._client = client
        self._collection = collection
        self._ears = ears
        self._topics: frozenset[Topic] = frozenset()
        self._reader: asyncio.Task[None] | None = None

    async def hello(self) -> None:
        await self._collection.create_index("at", expireAfterSeconds=NEWS_LIVE)

    async def listen(self, topics: frozenset[Topic]) -> None:
        # One stream for all topics: the next one is there before the last one is given up.
        self._topics |= topics
        wanted = {"operationType": "insert", "fullDocument.topic": {"$in": sorted(self._topics)}}
        stream: AsyncChangeStream[Document] = await self._collection.watch(
            [{"$match": wanted}, {"$project": {"fullDocument.packet": 1}}],
            max_await_time_ms=LISTEN_FOR,
        )
        before = self._reader
        self._reader = asyncio.create_task(self._read(stream), name="headway news reader")
        await _end(before)

    async def send(self, messages: Sequence[Message], budgets: Sequence[tuple[str, int]]) -> None:
        if messages:
            await self._collection.insert_many(_documents(messages), ordered=True)

    async def take(self, wanted: Sequence[tuple[str, int]]) -> list[int]:
        return [count for _, count in wanted]

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
                        self._ears.heard(change["fullDocument"]["packet"])
        except Exception as error:
            self._ears.lost(error)
        else:
            self._ears.lost(ConnectionError("the change stream has ended"))


def _documents(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """As they are stored. The time is only for deleting them, so anybody's clock will do."""
    at = datetime.now(UTC)
    return [{"topic": str(topic), "packet": data.decode(), "at": at} for topic, data in messages]


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
