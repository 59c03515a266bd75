"""Opening an app on an SQLite file while somebody holds its write lock: perhaps the caller, in the
transaction in which it is about to start its first job."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from headway import Headway


def test_the_first_start_may_be_in_a_transaction_that_has_written(sqlite_path: Path) -> None:
    with Headway(f"sqlite:///{sqlite_path}").sync:
        pass  # the schema is there
    app = Headway(f"sqlite:///{sqlite_path}")

    @app.job
    async def charge(order_id: int) -> None: ...

    with closing(sqlite3.connect(sqlite_path)) as connection:
        connection.execute("create table orders (id int)")
        connection.execute("insert into orders values (7)")
        started = app.sync.start(charge.request(7), tx=connection)
        connection.commit()
    assert started.get().state == "pending"
    app.sync.close()
