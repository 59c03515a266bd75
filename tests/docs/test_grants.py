"""The grants on the page about deploying are enough for an app whose role did not migrate."""

from __future__ import annotations

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from headway import Headway
from tests.docs.pages import ROOT, read_blocks

ROLE = "shop_of_the_deploying_page"


async def test_grants(postgres_url: str) -> None:
    blocks = read_blocks(ROOT / "docs" / "guides" / "deploying.md")
    (grants,) = [block.text for block in blocks if block.kind == "sql"]
    parts = conninfo_to_dict(postgres_url)
    app = Headway(f"postgresql://{ROLE}@{parts['host']}:{parts['port']}/{parts['dbname']}")

    @app.job
    async def answer() -> int:
        return 42

    await Headway(postgres_url).store.migrate()
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(sql.SQL("create role {} login").format(sql.Identifier(ROLE)))
        try:
            owner.execute(grants.replace("to shop;", f"to {ROLE};").encode())
            async with app:
                done = await app.start(answer.request(), idempotency_key="once")
                await app.worker().run(drain=True)
                assert await done.result(timeout=5) == 42
                await app.pause("mail")
                await app.delete_sequences(done)
        finally:
            owner.execute(sql.SQL("drop owned by {}").format(sql.Identifier(ROLE)))
            owner.execute(sql.SQL("drop role {}").format(sql.Identifier(ROLE)))
