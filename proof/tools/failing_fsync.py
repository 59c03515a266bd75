"""Starts jobs while fsync fails: part sqlite preloads a library that makes it fail.

python -m proof.tools.failing_fsync DATABASE FOLDER
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from proof.tools.producer import StartLog
from proof.tools.work import Work


async def main(path: str, folder: Path) -> None:
    flag = folder / "fails"
    start_log = StartLog(folder / "start_log")
    work = Work(f"sqlite:///{path}")
    counts = [0, 0, 0]
    """Refused starts, then acknowledged ones before and after the failures."""
    async with work.app as app:
        for number in range(60):
            if number == 20:
                flag.touch()
            if number == 40:
                flag.unlink()
            try:
                sequence = await app.start(work.good.request(number))
            except Exception:
                counts[0] += 1
            else:
                if number not in range(20, 40):
                    start_log.note([sequence.id])  # the log is synced by the same fsync
                    counts[1 if number < 20 else 2] += 1
    print(*counts)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
