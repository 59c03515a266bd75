"""The first use of an app is in a transaction that has written, before the tables of the jobs
exist: the job is started in it, whoever has to make the tables."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.testing.conformance.provider import Subject
from tests.providers.connections import ON_POSTGRES, ON_SQLITE, make_subject


class UndoneError(Exception):
    """Rolls a transaction back."""


@pytest.mark.parametrize("name", [*ON_POSTGRES, *ON_SQLITE])
def test_the_first_use_is_in_a_transaction_that_has_written(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    subject = make_subject(name, request, tmp_path)
    app = Headway(subject.url, migrate=True)

    @app.job(name="pack")
    def pack(number: int) -> None: ...

    if subject.awaited:
        asyncio.run(use_awaiting(subject, app, pack))
    else:
        use_blocking(subject, app, pack)


def use_blocking(subject: Subject, app: Headway, pack: Any) -> None:
    transaction: Any = subject.transaction
    with transaction() as tx:
        subject.execute(tx, "create table orders (number int)")
    with pytest.raises(UndoneError), transaction() as tx:
        subject.execute(tx, "insert into orders values (1)")
        app.sync.start(pack.request(1), tx=tx)
        app.sync.start(pack.request(2), tx=tx)
        raise UndoneError
    with transaction() as tx:
        subject.execute(tx, "insert into orders values (3)")
        app.sync.start(pack.request(3), tx=tx)
    with app.sync as client:
        assert [job.input for job in client.list().jobs] == ['{"number":3}']


async def use_awaiting(subject: Subject, app: Headway, pack: Any) -> None:
    transaction: Any = subject.transaction
    async with transaction() as tx:
        await subject.execute(tx, "create table orders (number int)")
    with pytest.raises(UndoneError):
        async with transaction() as tx:
            await subject.execute(tx, "insert into orders values (1)")
            await app.open()
            await app.start(pack.request(1), tx=tx)
            await app.start(pack.request(2), tx=tx)
            raise UndoneError
    async with transaction() as tx:
        await subject.execute(tx, "insert into orders values (3)")
        await app.start(pack.request(3), tx=tx)
    assert [job.input for job in (await app.list()).jobs] == ['{"number":3}']
    await app.close()
