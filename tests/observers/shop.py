"""An app for worker processes; its database is named by the environment."""

from __future__ import annotations

import logging
import os
import time

from headway import Fixed, Headway

app = Headway(os.environ["SHOP_DSN"])
log = logging.getLogger("shop")


@app.job(queue="money")
async def charge(cents: int, card: str) -> str:
    log.info("charging")
    return f"receipt for {card}"


@app.job(max_attempts=2, retry=Fixed(0))
async def refuse(card: str) -> None:
    raise ValueError("refused")


@app.job
def thread() -> None:
    log.info("in a thread")


@app.job(isolate=True)
def process() -> None:
    log.info("in a process")


@app.job
async def block(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 - the mistake that is looked for
