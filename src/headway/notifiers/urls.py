"""Which notifier a URL names, and which one a store has by default."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headway.errors import ConfigurationError
from headway.notifiers.local import LocalNotifier
from headway.notifiers.none import NoNotifier
from headway.ports.notifier import Notifier
from headway.runtime.adapter_lookup import check_ports, load_adapter

NAMES = '"none", "local", redis://, nats://, postgresql://, mongodb://'

_load: Callable[[str, str], Callable[..., Notifier]] = partial(load_adapter, "notifier")
_MONGODB = ("mongodb", "mongodb+srv")


def notifier_from_url(url: str, *, schema: str) -> Notifier:
    """The notifier that a URL, or a word, names; nothing is connected yet."""
    scheme, separator, _ = url.partition("://")
    if url == "none":
        return NoNotifier()
    if url == "local":
        return LocalNotifier()
    if not separator:
        raise ConfigurationError(f"a notifier is named by a URL or a word: {NAMES}")
    if scheme not in _MONGODB:  # whose URLs may name several servers
        check_ports("notifier", url)
    match scheme:
        case "redis" | "rediss" | "valkey" | "valkeys":
            return _load("redis", "RedisNotifier")(url.replace("valkey", "redis", 1))
        case "nats" | "tls":
            return _load("nats", "NatsNotifier")(url)
        case "postgresql" | "postgres":
            return _load("postgres", "PostgresNotifier")(url, schema=schema)
        case "mongodb" | "mongodb+srv":
            return _load("mongodb", "MongoNotifier")(url, schema=schema)
        case _:
            raise ConfigurationError(f"unknown scheme {scheme[:40]!r}; there are {NAMES}")


def notifier_for_store(url: str, *, path: str | None, schema: str) -> Notifier:
    """The default notifier of a store. `path` is the file of an SQLite URL."""
    scheme = url.partition("://")[0]
    if path is not None:
        return _load("sqlite", "SqliteNotifier")(path)
    if scheme in ("postgresql", "postgres"):
        return _load("postgres", "PostgresNotifier")(url, schema=schema)
    if scheme in _MONGODB:
        return _load("mongodb", "MongoNotifier")(url, schema=schema)
    return LocalNotifier()
