"""Notifications through the channels of Redis or Valkey; a script takes shares of budgets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from headway.notifiers.channel_prefix import split_prefix
from headway.notifiers.connection import ConnectionCallbacks, NotifierConnection
from headway.notifiers.packets import Message
from headway.notifiers.remote import RemoteNotifier
from headway.ports.notifications import Topic

PARAMETERS = (
    "client_name", "db", "health_check_interval", "password", "protocol", "socket_connect_timeout",
    "socket_keepalive", "socket_timeout", "ssl_ca_certs", "ssl_ca_data", "ssl_ca_path",
    "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_ciphers", "ssl_keyfile",
    "ssl_min_version", "ssl_password", "username",
)  # fmt: skip
"""Parameters of a URL besides `prefix`, passed on to redis-py."""
BUDGETS_LIVE = 60
"""Seconds for which a budget is kept; later every worker may look."""

# Takes as many shares of each budget as are wanted and left. An unknown budget (too old, or lost in
# a restart of the server) grants all.
TAKE = """
local granted = {}
for place, key in ipairs(KEYS) do
    local wanted = tonumber(ARGV[place])
    local left = tonumber(redis.call('get', key) or wanted)
    granted[place] = math.min(left, wanted)
    if granted[place] > 0 and redis.call('exists', key) == 1 then
        redis.call('decrby', key, granted[place])
    end
end
return granted
"""


class RedisNotifier(RemoteNotifier):
    """`redis://user:password@host:6379/0?prefix=shop`: notifications reach
    subscribers with the same database and prefix."""

    def __init__(self, url: str, *, prefix: str | None = None) -> None:
        self._url, given = split_prefix(url, PARAMETERS)
        parts = urlsplit(self._url)
        super().__init__(
            f"notifier on Redis at {parts.hostname or 'localhost'}:{parts.port or 6379}"
        )
        # Channels are not separated by the numbered databases of a server.
        database = parts.path.strip("/") or "0"
        self.prefix = f"{prefix or given}:{database}"

    async def connect(self, callbacks: ConnectionCallbacks) -> NotifierConnection:
        client = cast("Any", Redis).from_url(
            self._url,
            socket_connect_timeout=self.timeout,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),  # RemoteNotifier connects again, and logs it
            health_check_interval=0,
            client_name="headway",
            protocol=2,
        )
        try:
            await client.ping()
        except BaseException:
            await client.aclose()
            raise
        return _RedisNotifierConnection(client, self.prefix, callbacks)


class _RedisNotifierConnection(NotifierConnection):
    counts = True

    def __init__(self, client: Any, prefix: str, callbacks: ConnectionCallbacks) -> None:
        self._client = client
        self._channels = client.pubsub()
        self._prefix = prefix
        self._callbacks = callbacks
        self._take = client.register_script(TAKE)
        self._reader: asyncio.Task[None] | None = None
        self._expected: dict[str, asyncio.Future[None]] = {}

    async def listen(self, topics: frozenset[Topic]) -> None:
        names = [f"{self._prefix}:{topic}" for topic in topics]
        confirmed = [self._expect(name) for name in names]
        await self._channels.subscribe(*names)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read(), name="headway notifications")
        await asyncio.gather(*confirmed)

    async def send(self, messages: Sequence[Message], budgets: Sequence[tuple[str, int]]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for budget, count in budgets:
            pipeline.set(self._key(budget), count, ex=BUDGETS_LIVE)
        for topic, packet in messages:
            pipeline.publish(f"{self._prefix}:{topic}", packet)
        await pipeline.execute()

    async def take(self, wanted: Sequence[tuple[str, int]]) -> list[int]:
        granted = await self._take(
            keys=[self._key(budget) for budget, _ in wanted], args=[count for _, count in wanted]
        )
        return cast("list[int]", granted)

    async def watch(self) -> None:
        if self._reader is None:
            return
        pong = self._expect("")
        await self._channels.ping()
        await pong

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        for future in self._expected.values():
            future.cancel()
        await self._channels.aclose()
        await self._client.aclose()

    async def _read(self) -> None:
        try:
            while True:
                message = cast(
                    "dict[str, Any] | None", await self._channels.get_message(timeout=None)
                )
                if message is not None:
                    self._receive(message)
        except Exception as error:
            self._callbacks.lost(error)

    def _receive(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "message":
                self._callbacks.received(message["data"])
            case "subscribe":
                self._confirm(message["channel"].decode())
            case "pong":
                self._confirm("")
            case _:
                pass

    def _expect(self, what: str) -> asyncio.Future[None]:
        """The server's confirmation of a channel, or (empty) its answer to a ping."""
        future = self._expected[what] = asyncio.get_running_loop().create_future()
        return future

    def _confirm(self, what: str) -> None:
        future = self._expected.pop(what, None)
        if future is not None and not future.done():
            future.set_result(None)

    def _key(self, budget: str) -> str:
        return f"{{{self._prefix}}}:budget:{budget}"
