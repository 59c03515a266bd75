"""Which store a URL names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import unquote

from headway.domain.validation import check_parameters
from headway.errors import ConfigurationError
from headway.ports.provider import Provider
from headway.ports.store import Store
from headway.runtime.adapter_lookup import check_ports, load_adapter

SCHEMES = (
    "memory://, sqlite:///shop.db (relative), sqlite:////var/shop.db (absolute), postgresql://, "
    "mongodb://"
)

_load: Callable[[str, str], Callable[..., Store]] = partial(load_adapter, "store")


def without_driver(url: str) -> str:
    """`postgresql+asyncpg://` as `postgresql://`: one URL serves SQLAlchemy and Headway."""
    scheme, separator, rest = url.partition("://")
    name = scheme.partition("+")[0]
    return f"{name}{separator}{rest}" if name in ("postgresql", "sqlite") else url


def store_from_url(url: str, *, schema: str, prefix: str, providers: Sequence[Provider]) -> Store:
    """The store that a URL names; nothing is connected yet."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise ConfigurationError(f"a store is named by a URL: {SCHEMES}")
    match scheme:
        case "memory":
            check_parameters("a memory URL", url.partition("?")[2], ())
            return _load("memory", "MemoryStore")()
        case "sqlite":
            path = sqlite_path(url)
            return _load("sqlite", "SqliteStore")(path, prefix=prefix, providers=providers)
        case "postgresql" | "postgres":
            check_ports("store", url)
            return _load("postgres", "PostgresStore")(url, schema=schema, providers=providers)
        case "mongodb" | "mongodb+srv":
            return _load("mongodb", "MongoStore")(url, schema=schema)
        case _:
            raise ConfigurationError(f"unknown scheme {scheme[:40]!r}; there are {SCHEMES}")


def sqlite_path(url: str) -> str:
    """The file that an SQLite URL names."""
    rest, _, query = url.removeprefix("sqlite://").partition("?")
    path = unquote(rest.removeprefix("/"))
    if not rest.startswith("/") or not path:
        raise ConfigurationError(
            "a SQLite URL has three slashes and a path: sqlite:///shop.db (relative) or "
            "sqlite:////var/shop.db (absolute)"
        )
    check_parameters("a SQLite URL", query, (), "; a ? in the name of the file is written %3F")
    if path == ":memory:":
        raise ConfigurationError("SQLite in memory is not supported; use memory://")
    return path
