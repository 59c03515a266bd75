"""FastAPI and Starlette: the shop over HTTP, and what the integration does by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from headway import Headway, WorkerSettings
from headway.errors import ConfigurationError, StoreClosed
from headway.fastapi import Jobs, jobs_of, lifespan
from tests.providers.connections import sqlalchemy_url
from tests.support.processes import ROOT, call, free_port, running, until


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_shop_over_http(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = {"SHOP_PORT": str(port)}
    if database == "postgres":
        postgres_url = request.getfixturevalue("postgres_url")
        env["SHOP_DATABASE"] = sqlalchemy_url(postgres_url, "postgresql+asyncpg")
    with running(str(ROOT / "examples" / "fastapi_shop.py"), folder=tmp_path, env=env) as process:
        status, placed = until(lambda: call(f"{url}/orders", {"cents": 1999}))
        assert status == 201, placed
        order = f"{url}/orders/{placed['order']}"
        until(lambda: call(order)[1], lambda shown: shown["state"] == "shipped")
        assert call(f"{url}/orders", {"cents": 1, "fails": True})[0] == 409
        assert call(f"{url}/orders", {"cents": -1})[0] == 422
        assert call(f"{url}/orders/{placed['order'] + 1}")[0] == 404
        assert call(f"{url}/jobs/api/v1/jobs")[0] == 401
        status, listed = call(f"{url}/jobs/api/v1/jobs", token="only-an-example-token")
        assert status == 200, listed
        assert {job["type"] for job in listed["jobs"]} == {"charge", "ship"}
    assert process.returncode == 0


def memory_app() -> Headway:
    app = Headway("memory://")

    @app.job
    async def double(number: int) -> int:
        return 2 * number

    return app


@asynccontextmanager
async def served(server: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that has started, in this process."""
    transport = httpx.ASGITransport(server)
    async with (
        server.router.lifespan_context(server),
        httpx.AsyncClient(transport=transport, base_url="http://shop") as client,
    ):
        yield client


async def test_a_dependency_and_a_worker_in_the_process() -> None:
    app = memory_app()
    server = FastAPI(lifespan=lifespan(app, worker=WorkerSettings(concurrency=2)))

    @server.get("/double/{number}")
    async def double(number: int, jobs: Jobs) -> int:
        sequence = await jobs.start(jobs.request("double", number=number))
        result: int = await sequence.result(timeout=60)
        return result

    async with served(server) as client:
        assert (await client.get("/double/21")).json() == 42
        (worker,) = await app.workers()
        assert worker.concurrency == 2


async def test_a_dependency_can_be_overridden() -> None:
    server = FastAPI(lifespan=lifespan(memory_app()))
    other = Headway("memory://")

    @server.get("/")
    async def show(jobs: Jobs) -> bool:
        return jobs is other

    async with served(server) as client:
        assert (await client.get("/")).json() is False
        server.dependency_overrides[jobs_of] = lambda: other
        assert (await client.get("/")).json() is True


async def test_starlette_and_a_lifespan_inside() -> None:
    app = memory_app()
    seen: list[str] = []

    @asynccontextmanager
    async def inside(_: Any) -> AsyncIterator[dict[str, str]]:
        await app.counts()  # it is open
        seen.append("begin")
        yield {"of": "mine"}
        await app.counts()
        seen.append("end")

    async def show(request: Request) -> JSONResponse:
        started = await jobs_of(request).start(app.request("double", number=1))
        return JSONResponse(started.id)

    opened = lifespan(app, inside=inside)
    async with opened(Starlette()) as state:
        assert state == {"of": "mine"}
    async with served(Starlette(routes=[Route("/", show)], lifespan=opened)) as client:
        id = (await client.get("/")).json()
        assert (await app.get(id)).state == "pending"
    assert seen == ["begin", "end"] * 2


async def test_a_server_without_an_app_says_what_is_missing() -> None:
    async def show(request: Request) -> JSONResponse:
        jobs_of(request)
        raise AssertionError

    async with served(Starlette(routes=[Route("/", show)])) as client:
        with pytest.raises(ConfigurationError, match=r"lifespan=headway\.fastapi\.lifespan"):
            await client.get("/")


async def test_the_app_is_closed_with_the_server(sqlite_path: Path) -> None:
    app = Headway(f"sqlite:///{sqlite_path}")
    async with lifespan(app)(Starlette()):
        assert await app.counts() == []
    with pytest.raises(StoreClosed):
        await app.counts()
