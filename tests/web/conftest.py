"""A shop on a store, its dashboard on a free port, and a browser that looks at it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from axe_playwright_python import async_playwright as axe
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

from headway.web import Token, dashboard_server
from tests.support.browser import ARGUMENTS, Chromium
from tests.web.shop import Shop

TOKEN = "a-token-that-only-tests-know"
AXE = Path(axe.__file__).parent / "axe.min.js"


@pytest.fixture
async def shop(store_url: str) -> AsyncIterator[Shop]:
    shop = Shop(store_url)
    async with shop.app:
        yield shop
        shop.go_on.set()


@pytest.fixture
async def site(shop: Shop) -> AsyncIterator[str]:
    """The address of the shop's dashboard, with writes allowed."""
    async with dashboard_server(
        shop.app, auth=Token(TOKEN, actor="ada"), port=0, allow_writes=True
    ) as address:
        yield address


@pytest.fixture
async def client(site: str) -> AsyncIterator[httpx.AsyncClient]:
    """Speaks to the API with the token."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=site, headers=headers, timeout=20) as client:
        yield client


@dataclass
class Visitor:
    """A browser's page, and everything that the browser complained about on it."""

    page: Page
    site: str
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("requestfailed", lambda request: self._failed(request.url, request.failure))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _failed(self, url: str, failure: str | None) -> None:
        if failure != "net::ERR_ABORTED":  # what was still under way when its page was left
            self.complaints.append(f"{url}: {failure}")

    async def log_in(self) -> None:
        await self.page.goto(f"{self.site}/login#token={TOKEN}")
        await self.page.wait_for_url(f"{self.site}/")

    async def go(self, path: str) -> None:
        answer = await self.page.goto(self.site + path)
        assert answer is not None
        assert answer.status < 400, f"{path} answers {answer.status}"

    async def barriers(self) -> list[str]:
        """What axe finds serious or critical."""
        # Evaluated by the test itself, which the page's policy does not stop.
        await self.page.evaluate(AXE.read_text())
        found = await self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{violation['id']}: {node['html'][:200]} {node['failureSummary']}"
            for violation in found["violations"]
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    chromium = Chromium.find()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium.executable,
            args=list(ARGUMENTS),
            env={**chromium.environment},
        )
        yield browser
        await browser.close()


@pytest.fixture
async def visitor(browser: Browser, site: str) -> AsyncIterator[Visitor]:
    """Logged in. A test ends with nothing to complain about."""
    page = await browser.new_page(
        viewport={"width": 1280, "height": 860}, color_scheme="light", locale="en-GB"
    )
    page.set_default_timeout(15_000)
    visitor = Visitor(page, site)
    await visitor.log_in()
    yield visitor
    assert visitor.complaints == []
