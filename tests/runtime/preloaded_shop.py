"""An app that is used as soon as it is imported, as under gunicorn --preload."""

from __future__ import annotations

import os

from headway import Headway

app = Headway(os.environ["SHOP_URL"], migrate=True)


@app.job
async def greet(name: str) -> str:
    return f"hello {name}"


first = app.sync.start(greet.request("import"))


def start_some(number: int) -> list[str]:
    """In a child: jobs started there, read there as well."""
    ids = [app.sync.start(greet.request(f"{number}.{each}")).id for each in range(5)]
    return [app.sync.get(each).id for each in ids]
