"""Parameters of URLs that nobody knows are refused before anything is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway import Headway
from headway.errors import ConfigurationError

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:///{path}?mode=ro", "a SQLite URL has no parameter 'mode'; it takes none; .*%3F"),
        ("sqlite:///{path}?mode=ro&cache=shared", "'mode' or 'cache'; it takes none"),
        ("sqlite+aiosqlite:///{path}?check", "has no parameter 'check'; it takes none"),
        ("memory://?size=3", "a memory URL has no parameter 'size'; it takes none"),
        (
            f"postgresql://me:{SECRET}@host/db?pool_size=3",
            "a PostgreSQL DSN has no parameter 'pool_size'; it takes application_name, .*, user",
        ),
        (
            f"mongodb://me:{SECRET}@host/db?replicaSet=rs0&pool=3",
            "a MongoDB URL has no parameter 'pool'; it takes appname, .*, replicaset, ",
        ),
        (f"mongodb+srv://me:{SECRET}@host.example.org/db?pool=3", "has no parameter 'pool'"),
    ],
)
def test_a_stores_url(tmp_path: Path, url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        Headway(url.format(path=tmp_path / "a.db"))
    assert SECRET not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"redis://me:{SECRET}@host?prefx=shop", "a redis URL has no parameter 'prefx'; it takes"),
        ("rediss://host?ssl=true", "a rediss URL has no parameter 'ssl'; it takes .*ssl_ca_certs"),
        (f"nats://me:{SECRET}@host?cluster=a", "has no parameter 'cluster'; it takes prefix"),
        ("postgresql://host/db?pool_size=3", "a PostgreSQL DSN has no parameter 'pool_size'"),
        ("mongodb://host/db?pool=3", "a MongoDB URL has no parameter 'pool'"),
    ],
)
def test_a_notifiers_url(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        Headway("memory://", notifier=url)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://host/db?sslmode=require&application_name=shop",
        "mongodb://host/db?replicaSet=rs0&retryWrites=true&w=majority&tls=true",
        "sqlite:///a%3Fb.db",
    ],
)
def test_what_is_known_is_taken(url: str) -> None:
    Headway(url)


def test_known_parameters_of_redis_are_taken() -> None:
    Headway("memory://", notifier="rediss://host/1?prefix=shop&ssl_cert_reqs=none&socket_timeout=3")


def test_a_question_mark_in_the_name_of_a_file(tmp_path: Path) -> None:
    with Headway(f"sqlite:///{tmp_path}/what%3F.db").sync:
        pass
    assert (tmp_path / "what?.db").exists()
