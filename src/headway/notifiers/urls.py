"""Which notifier a URL means, and which one goes with a store if none is named."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from urllib.parse import urlsplit

from headway.errors import ConfigurationError
from headway.notifiers.local import LocalNotifier
from headway.notifiers.none import NoNotifier
from headway.ports.notifier import Notifier

NAMES = '"none", "local", redis://, nats://, postgresql://, mongodb://'

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
        _check_port(url)
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
    """The store's own way of waking those who wait for it. `path` is the file of an SQLite URL."""
    scheme = url.partition("://")[0]
    if path is not None:
        return _load("sqlite", "SqliteNotifier")(path)
    if scheme in ("postgresql", "postgres"):
        return _load("postgres", "PostgresNotifier")(url, schema=schema)
    if scheme in _MONGODB:
        return _load("mongodb", "MongoNotifier")(url, schema=schema)
    return LocalNotifier()


def _check_port(url: str) -> None:
    try:
        for place in urlsplit(url).netloc.rpartition("@")[2].split(","):  # there may be several
            _ = urlsplit(f"//{place}").port
    except ValueError:
        raise ConfigurationError(
            "the port in the notifier's URL is not a number; special characters in user and "
            "password must be percent-encoded"
        ) from None


def _load(module: str, name: str) -> Callable[..., Notifier]:
    """A notifier's class; its module, and with it its driver, is imported only now."""
    try:
        notifier: Callable[..., Notifier] = getattr(
            importlib.import_module(f"headway.notifiers.{module}"), name
        )
    except ImportError as error:
        if (error.name or "headway").partition(".")[0] == "headway":
            raise
        raise ConfigurationError(
            f"the {module} notifier needs a driver that is not installed ({error.name}): "
            f"pip install 'headway[{module}]'"
        ) from error
    return notifier
