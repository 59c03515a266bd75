"""Worker processes for a measurement: started together, and ended whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from headway.cli.bench.database import BenchDatabase
from headway.cli.bench.worker import worker_environment
from headway.errors import HeadwayError

READY_WITHIN = 60.0
STOP_WITHIN = 30.0


class WorkerFailed(HeadwayError):
    """A worker process ended or fell silent before it had done its part."""


class WorkerProcess:
    """A worker process that is ready; `drain` or `begin` starts its work."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def is_ready(self) -> None:
        if await self._line(READY_WITHIN) != "READY":
            raise WorkerFailed("a worker process did not start; what it said is above")

    async def drain(self, timeout: float) -> int:
        """Work until nothing is left; the bytes that it then holds."""
        self._tell("drain")
        return await self.held(timeout)

    def begin(self) -> None:
        """Work until stopped."""
        self._tell("begin")

    async def held(self, timeout: float = STOP_WITHIN) -> int:
        answer = await self._line(timeout)
        if not answer.isdecimal():
            raise WorkerFailed("a worker process ended early; what it said is above")
        return int(answer)

    async def stop(self) -> None:
        """Terminate, then kill. Returns when the process is gone; safe to repeat."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_WITHIN):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())

    async def _line(self, timeout: float) -> str:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout):
                return (await self._process.stdout.readline()).decode().strip()
        except TimeoutError:
            self.kill()
            raise WorkerFailed(f"a worker process was not done after {timeout:.0f} s") from None


@asynccontextmanager
async def worker_processes(
    database: BenchDatabase, count: int
) -> AsyncGenerator[list[WorkerProcess]]:
    """Processes that are connected and ready to work."""
    command = [sys.executable, "-m", "headway.cli.bench.worker"]
    environment = {**os.environ, **worker_environment(database)}
    workers: list[WorkerProcess] = []
    try:
        for _ in range(count):
            process = await asyncio.create_subprocess_exec(
                *command,
                env=environment,
                stdin=PIPE,
                stdout=PIPE,
                start_new_session=os.name == "posix",  # Ctrl-C is for us; we then stop them
            )
            workers.append(WorkerProcess(process))
        await asyncio.gather(*(worker.is_ready() for worker in workers))
        yield workers
    except BaseException:  # nothing that they do matters any more
        for worker in workers:
            worker.kill()
        raise
    finally:
        await asyncio.gather(*(worker.stop() for worker in workers), return_exceptions=True)
