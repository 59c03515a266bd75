"""Which notifier an app has: by URL, by word, or the store's own."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

from headway import Headway
from headway.errors import ConfigurationError
from headway.notifiers.local import LocalNotifier
from headway.notifiers.mongodb import MongoNotifier
from headway.notifiers.nats import NatsNotifier
from headway.notifiers.none import NoNotifier
from headway.notifiers.postgres import PostgresNotifier
from headway.notifiers.redis import RedisNotifier
from headway.notifiers.sqlite import SqliteNotifier
from headway.stores.memory import MemoryStore

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("notifier", "kind", "name"),
    [
        ("none", NoNotifier, None),
        ("local", LocalNotifier, None),
        (f"redis://me:{SECRET}@cache:6380/2", RedisNotifier, "notifier on Redis at cache:6380"),
        ("rediss://cache", RedisNotifier, "notifier on Redis at cache:6379"),
        ("valkey://cache", RedisNotifier, "notifier on Redis at cache:6379"),
        (f"nats://me:{SECRET}@bus", NatsNotifier, "notifier on NATS at bus:4222"),
        (
            f"postgresql://me:{SECRET}@db/shop",
            PostgresNotifier,
            "notifier on PostgreSQL database 'shop' at db:5432",
        ),
        (
            f"mongodb://me:{SECRET}@one,two:27018/shop?replicaSet=rs0",
            MongoNotifier,
            "notifier on MongoDB database 'shop' at one,two:27018",
        ),
    ],
)
def test_a_url_names_the_notifier(notifier: str, kind: type[Any], name: str | None) -> None:
    app = Headway("memory://", notifier=notifier)
    assert type(app.notifier) is kind
    if name is not None:
        assert getattr(app.notifier, "name", None) == name
        assert SECRET not in repr(app.notifier)


@pytest.mark.parametrize(
    ("store", "kind"),
    [
        ("memory://", LocalNotifier),
        ("sqlite:///shop.db", SqliteNotifier),
        ("postgresql://db/shop", PostgresNotifier),
        ("mongodb://db/shop", MongoNotifier),
        (MemoryStore(), LocalNotifier),
    ],
)
def test_without_one_the_store_has_its_own(store: Any, kind: type[Any]) -> None:
    assert type(Headway(store).notifier) is kind


def test_a_schema_has_channels_of_its_own() -> None:
    app = Headway("postgresql://db/shop", schema="tools")
    assert isinstance(app.notifier, PostgresNotifier)
    assert set(app.notifier.channels.values()) == {
        "headway:tools:scheduled",
        "headway:tools:schedules",
        "headway:tools:ended",
        "headway:tools:lost",
    }


def test_a_prefix_keeps_apps_apart() -> None:
    assert RedisNotifier("redis://cache/3?prefix=shop").prefix == "shop:3"
    assert RedisNotifier("redis://cache").prefix == "headway:0"
    assert NatsNotifier("nats://bus?prefix=shop").prefix == "shop"
    with pytest.raises(ConfigurationError, match="prefix 'a b' is not allowed"):
        NatsNotifier("nats://bus?prefix=a%20b")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("kafka://me:hunter2@bus", 'unknown scheme \'kafka\'; there are "none", "local", redis:/'),
        ("hunter2", 'a notifier is named by a URL or a word: "none", "local", redis://'),
        ("redis://me:hunter2@bus:x", "the port in the notifier's URL is not a number"),
    ],
)
def test_a_bad_url_gets_one_sentence_without_its_secret(url: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Headway("memory://", notifier=url)
    assert str(raised.value).startswith(sentence)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("driver", ["redis", "nats"])
def test_a_missing_driver_names_the_extra(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == driver or name == f"headway.notifiers.{driver}":
            monkeypatch.delitem(sys.modules, name)
    original = builtins.__import__

    def without_driver(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == driver:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_driver)
    with pytest.raises(ConfigurationError) as raised:
        Headway("memory://", notifier=f"{driver}://host")
    assert str(raised.value).startswith(f"the {driver} notifier needs a driver that is not install")
    assert str(raised.value).endswith(f"pip install 'headway[{driver}]'")
