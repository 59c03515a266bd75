"""A program that makes processes to be killed: `python -m tests.system.failpoints.victim DSN`.

For each line `QUEUE<tab>PLACE` that it reads it forks, which is much faster than starting Python
anew and harmless before there are threads or connections; the child works on the queue until it
kills itself at that place. It answers with the signal that ended the child, 0 if none did.
"""

from __future__ import annotations

import asyncio
import os
import sys

from tests.system.failpoints.failing_stores import How
from tests.system.failpoints.shop import Shop, failing_store


async def work(dsn: str, queue: str, place: str) -> None:
    store = failing_store(dsn)
    shop = Shop(store)
    store.failpoints.arm(place, How.KILL)
    async with shop.app:
        await shop.work(queue)


def main() -> None:
    dsn = sys.argv[1]
    for line in sys.stdin:
        queue, place = line.rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            asyncio.run(work(dsn, queue, place))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
