"""FastAPI and Starlette: opens the app with the server, and passes it to request handlers.

    server = FastAPI(lifespan=lifespan(app, worker=True))

    @server.post("/orders")
    async def place(jobs: Jobs) -> dict[str, str]: ...

`Jobs` is for FastAPI; `jobs_of(request)` does the same for Starlette.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from headway.app import Headway
from headway.errors import ConfigurationError
from headway.worker.settings import WorkerSettings

try:
    from starlette.requests import HTTPConnection
except ModuleNotFoundError as _error:
    raise ConfigurationError(
        "headway.fastapi needs Starlette, which comes with FastAPI: pip install 'headway[fastapi]'"
    ) from _error

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
"""The type of `Starlette(lifespan=...)` and `FastAPI(lifespan=...)`."""


def lifespan(
    app: Headway, *, worker: WorkerSettings | bool = False, inside: Lifespan | None = None
) -> Lifespan:
    """Open the app when the server starts, and close it when the server stops.

    `worker` runs a worker in each server process, enough for a small deployment. It stops after the
    last request, and running jobs get its grace time. `inside` is a lifespan of your own, entered
    after the app is open.
    """

    @asynccontextmanager
    async def opened(server: Any) -> AsyncGenerator[Any]:
        async with app:
            server.state.headway = app
            settings = worker if isinstance(worker, WorkerSettings) else None
            running_worker = app.worker(settings) if worker else None
            if running_worker is not None:
                await running_worker.start()
            try:
                if inside is None:
                    yield None
                else:
                    async with inside(server) as state:
                        yield state
            finally:
                if running_worker is not None:
                    await running_worker.stop()

    return opened


def jobs_of(connection: HTTPConnection) -> Headway:
    """The app that `lifespan` opened for the server of this request or websocket."""
    app: Headway | None = getattr(connection.app.state, "headway", None)
    if app is None:
        raise ConfigurationError(
            "this server has no Headway app: make it with lifespan=headway.fastapi.lifespan(app)"
        )
    return app


if TYPE_CHECKING:
    Jobs = Headway
else:
    try:
        from fastapi import Depends
    except ModuleNotFoundError:  # Starlette alone
        pass
    else:
        Jobs = Annotated[Headway, Depends(jobs_of)]
        """FastAPI passes the app to parameters of this type; tests override `jobs_of`."""
