"""The dashboard inside another app, under a path of its own."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from headway import Every
from headway.web import Token, Trust, create_dashboard
from tests.web.conftest import TOKEN
from tests.web.shop import Shop

pytestmark = pytest.mark.parametrize("store_url", ["memory"], indirect=True)


def talking_to(app: Starlette) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://shop.example")


async def test_in_fastapi(shop: Shop) -> None:
    (id,) = await shop.fail(1)
    await shop.app.schedules.put("a/../b", Every(hours=1), shop.greet.request("ada"))
    api = FastAPI()
    dashboard = create_dashboard(
        shop.app, auth=Trust(lambda _: "ada"), allow_writes=True, hosts=["shop.example"]
    )
    api.mount("/ops/jobs", dashboard)
    async with talking_to(api) as client:
        for path in (
            "/", "/jobs", f"/jobs/{id}", f"/sequences/{id}", "/failures", "/queues", "/queues/mail",
            "/schedules", "/schedules/a%2F..%2Fb",
        ):  # fmt: skip
            page = await client.get(f"/ops/jobs{path}")
            assert page.status_code == 200, path
            links = re.findall(r'(?:href|src|action|hx-get|data-stream)="([^"#]+)"', page.text)
            assert len(links) > 10
            for link in links:
                assert link.startswith("/ops/jobs/"), (path, link)
            for link in {link for link in links if "/static/" in link}:
                asset = await client.get(link.replace("&amp;", "&"))
                assert asset.status_code == 200
                assert "immutable" in asset.headers["cache-control"]
        token = re.search(r'form_token" value="(\w+)"', page.text)
        assert token is not None
        fields = {"form_token": token[1], "action": "retry", "id": id, "back": f"/jobs/{id}"}
        answer = await client.post("/ops/jobs/jobs/act", data=fields)
        assert answer.headers["location"] == f"/ops/jobs/jobs/{id}?did=retry&changed=1&passed=0"
        assert (await client.get("/ops/jobs/api/v1/overview")).status_code == 200
        missing = await client.get("/ops/jobs/api/v1/nothing")
        assert missing.json()["error"]["code"] == "not_found"


async def test_in_starlette_with_a_login(shop: Shop) -> None:
    dashboard = create_dashboard(shop.app, auth=Token(TOKEN), hosts=["shop.example"])
    async with talking_to(Starlette(routes=[Mount("/jobs", dashboard)])) as client:
        answer = await client.get("/jobs/queues")
        assert answer.headers["location"] == "/jobs/login?next=%2Fqueues"
        page = await client.get(answer.headers["location"])
        assert "Path=/jobs" in page.headers["set-cookie"]
        token = re.search(r'form_token" value="(\w+)"', page.text)
        assert token is not None
        fields = {"form_token": token[1], "secret": TOKEN, "next": "/queues"}
        answer = await client.post("/jobs/login", data=fields)
        assert answer.headers["location"] == "/jobs/queues"
        assert (await client.get("/jobs/queues")).status_code == 200


async def test_under_a_path_with_a_parameter(shop: Shop) -> None:
    dashboard = create_dashboard(shop.app, auth=Trust(lambda _: "ada"), hosts=["shop.example"])
    app = Starlette(routes=[Mount("/of/{tenant}/jobs", dashboard)])
    sequence = await shop.app.start(shop.greet.request("ada"))
    async with talking_to(app) as client:
        for path in ("/", "/api/v1/queues", f"/api/v1/jobs/{sequence.id}"):
            assert (await client.get(f"/of/shop1/jobs{path}")).status_code == 200, path


async def test_behind_a_proxy_that_takes_a_prefix_off(shop: Shop) -> None:
    dashboard = create_dashboard(
        shop.app, auth=Trust(lambda _: "ada"), base_path="/internal", hosts=["shop.example"]
    )
    async with talking_to(dashboard) as client:
        assert 'href="/internal/queues"' in (await client.get("/")).text


async def test_a_host_that_was_not_named_is_refused(shop: Shop) -> None:
    dashboard = create_dashboard(shop.app, auth=Trust(lambda _: "ada"))
    async with talking_to(dashboard) as client:
        answer = await client.get("/")
        assert answer.status_code == 421
        assert "hosts=[...]" in answer.text


async def test_served_by_itself_it_opens_the_app(shop: Shop) -> None:
    await shop.app.close()
    dashboard = create_dashboard(shop.app, auth=Trust(lambda _: "ada"), hosts=["*"])

    @contextlib.asynccontextmanager
    async def running() -> AsyncIterator[None]:
        async with dashboard.router.lifespan_context(dashboard):
            yield

    async with talking_to(dashboard) as client:
        closed = await client.get("/api/v1/queues")
        assert (closed.status_code, closed.json()["error"]["code"]) == (503, "store_closed")
        async with running():
            assert (await client.get("/api/v1/queues")).status_code == 200
    await shop.app.open()
