"""What is SQLAlchemy's own: sessions of all kinds, savepoints, and what is refused."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from headway import Headway, Job
from headway.errors import ConfigurationError
from headway.jobs.job_type import JobType
from headway.notifiers.local import LocalNotifier
from headway.ports.notifications import JobsScheduled, Notification
from tests.providers.connections import sqlalchemy_url, with_begin


class Shop:
    """An app with notifications in this process only: only the commit's event tells of a job."""

    def __init__(self, url: str) -> None:
        self.app = Headway(url, notifier=LocalNotifier())
        self.heard: list[JobsScheduled] = []

        @self.app.job
        def pack(number: int) -> int:
            return number

        self.pack: JobType[[int], int] = pack

    def hear(self, notification: Notification) -> None:
        if isinstance(notification, JobsScheduled):
            self.heard.append(notification)

    async def told(self) -> int:
        """Of how many jobs, since it was asked for the last time."""
        for _ in range(5):
            await asyncio.sleep(0)
        count = sum(notification.count for notification in self.heard)
        self.heard.clear()
        return count

    def start(self, number: int, tx: object) -> str:
        return self.app.sync.start(self.pack.request(number), tx=tx).id

    def numbers(self) -> list[str]:
        return sorted(job.input for job in self.app.sync.list().jobs)


@pytest.fixture
def url(sqlite_path: Path) -> str:
    return f"sqlite:///{sqlite_path}"


@pytest.fixture
async def shop(url: str) -> AsyncIterator[Shop]:
    shop = Shop(url)
    async with shop.app:
        await shop.app.notifier.subscribe(shop.hear)
        yield shop
        shop.app.sync.close()


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = create_engine(url)
    with_begin(engine)
    yield engine
    engine.dispose()


async def test_notifications_come_with_the_commit_of_the_session(
    shop: Shop, engine: Engine
) -> None:
    with Session(engine) as session:
        shop.start(1, session)
        with session.begin_nested():
            shop.start(2, session)
            with session.begin_nested() as innermost:
                shop.start(3, session)
                innermost.rollback()
            assert await shop.told() == 0
        with session.begin_nested() as undone:
            with session.begin_nested():
                shop.start(4, session)
            undone.rollback()
        shop.start(5, session)
        assert await shop.told() == 0
        session.commit()
        assert await shop.told() == 3
        shop.start(6, session)
        session.rollback()
        shop.start(7, session)
        session.close()
        assert await shop.told() == 0
        shop.start(8, session)
        session.commit()
        assert await shop.told() == 1
    assert shop.numbers() == [f'{{"number":{n}}}' for n in (1, 2, 5, 8)]


async def test_a_session_in_a_transaction_of_somebody_else_tells_nothing_early(
    shop: Shop, engine: Engine
) -> None:
    """As tests do it that roll everything back in the end."""
    with engine.connect() as connection:
        outer = connection.begin()
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            shop.start(1, session)
            session.commit()
        assert await shop.told() == 0
        outer.rollback()
    assert shop.numbers() == []


async def test_a_scoped_session(shop: Shop, engine: Engine) -> None:
    """What Flask-SQLAlchemy calls `db.session`."""
    session = scoped_session(sessionmaker(engine))
    shop.start(1, session)
    session.commit()
    session.remove()
    assert await shop.told() == 1
    assert shop.numbers() == ['{"number":1}']


async def test_without_the_recipe_a_transaction_is_begun_all_the_same(shop: Shop, url: str) -> None:
    engine = create_engine(url)
    with Session(engine) as session:
        shop.start(1, session)
        session.rollback()
        shop.start(2, session)
        session.commit()
    engine.dispose()
    assert shop.numbers() == ['{"number":2}']


class OwnSession(Session):
    """As SQLModel has one."""


async def test_a_session_of_a_class_of_ones_own(shop: Shop, engine: Engine) -> None:
    with OwnSession(engine) as session:
        shop.start(1, session)
        session.commit()
    assert shop.numbers() == ['{"number":1}']


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
async def test_connections_that_begin_by_themselves(
    database: str, url: str, request: pytest.FixtureRequest
) -> None:
    if database == "postgres":
        url = request.getfixturevalue("postgres_url")
    app = Headway(url, migrate=True)

    @app.job
    async def pack(number: int) -> None: ...

    driver = "sqlite" if database == "sqlite" else "postgresql+psycopg"
    engine = create_engine(sqlalchemy_url(url, driver))
    async with app:
        with engine.connect() as connection:
            await app.start(pack.request(1), tx=connection)
            connection.commit()
            await app.start(pack.request(2), tx=connection)
            connection.rollback()
            await app.start(pack.request(3), tx=connection)
        assert [job.input for job in (await app.list()).jobs] == ['{"number":1}']
    engine.dispose()


async def test_a_session_on_another_database_is_refused(shop: Shop, postgres_url: str) -> None:
    engine = create_engine(sqlalchemy_url(postgres_url, "postgresql+psycopg"))
    with (
        Session(engine) as session,
        pytest.raises(ConfigurationError, match="on postgresql, and the jobs are in sqlite"),
    ):
        shop.start(1, session)
    engine.dispose()


def test_a_blocking_session_needs_no_greenlet(url: str) -> None:
    """SQLAlchemy installs it only with its extra `asyncio`."""
    code = f"""
import sys
sys.modules["greenlet"] = None
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from headway import Headway
app = Headway({url!r})
@app.job
def pack(number: int) -> None: ...
with Session(create_engine({url!r})) as session:
    app.sync.start(pack.request(1), tx=session)
    session.commit()
print(len(app.sync.list().jobs))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


async def test_an_awaited_session_is_refused_by_the_blocking_client(shop: Shop, url: str) -> None:
    engine = create_async_engine(url.replace("sqlite", "sqlite+aiosqlite"))
    async with AsyncSession(engine) as session:
        with pytest.raises(ConfigurationError, match="has to be awaited"):
            shop.start(1, session)
    await engine.dispose()


@pytest.mark.parametrize("driver", ["postgresql+asyncpg", "postgresql+psycopg"])
async def test_handlers_are_given_sessions(postgres_url: str, driver: str) -> None:
    url = sqlalchemy_url(postgres_url, driver)
    engine = create_async_engine(url)
    sessions = async_sessionmaker(engine)
    app = Headway(url, transactions=sessions.begin, migrate=True)

    @app.job(atomic=True)
    async def place(job: Job, number: int) -> str:
        session: AsyncSession = job.tx
        await session.execute(text("insert into placed values (:number)"), {"number": number})
        await app.start(follow.request(number), tx=session)
        return "placed"

    @app.job
    async def follow(number: int) -> int:
        async with sessions.begin() as session:
            found = await session.execute(text("select number from placed"))
            return found.scalar_one() + number

    async with engine.begin() as connection:
        await connection.execute(text("create table placed (number int)"))
    async with app:
        placed = await app.start(place.request(7))
        await app.worker().run(drain=True)
        assert await placed.result(timeout=60) == "placed"
        (followed,) = (await app.list(type=follow)).jobs
        assert followed.output == "14"
    await engine.dispose()
