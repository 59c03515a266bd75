"""The site builds without a warning, its links lead somewhere, and it needs no other host. In a
browser: its search knows the words of other queues, its buttons copy commands, it fits a phone."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.async_api import Page as BrowserPage
from playwright.async_api import async_playwright

import headway
from headway import records
from tests.docs.pages import ROOT
from tests.docs.test_reference import errors_by_name
from tests.support.browser import ARGUMENTS, Chromium

DOCS = ROOT / "docs"
_PAGE = re.compile(r"\]\((?P<page>[\w/\-]+\.md)\)")
PHONE = 390
SEARCH = """(query) => {
    const [, searched, excluded, highlighted, objects] = Search._parseQuery(query);
    const found = Search._performSearch(query, searched, excluded, highlighted, objects);
    return found.reverse().map((result) => result[0]);
}"""
LATER, RECURRING = "guides/deduplication-and-scheduling", "guides/schedules"
FOUND = {
    "cron": {RECURRING, "coming-from/cron"},
    "beat": {RECURRING, "coming-from/celery-beat", "recipes"},
    "periodic": {RECURRING, "coming-from/celery-beat", "recipes"},
    "delay": {LATER}, "countdown": {LATER}, "ETA": {LATER},
    "throttle": {"guides/limits", "recipes"}, "rate limit": {"guides/limits", "recipes"},
    "semaphore": {"guides/limits"}, "mutex": {"guides/limits"},
    "chord": {"guides/sequences", "recipes"}, "canvas": {"guides/sequences"}, "group": {"recipes"},
}  # fmt: skip
"""Words of other queues, and the pages that come first in a search for them."""


@dataclass
class Page(HTMLParser):
    """What an HTML page links to, what it loads, and what can be linked to in it."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and "href" in given:
            self.loads.append(given["href"])
        elif "src" in given:
            self.loads.append(given["src"])


def build(place: Path) -> Path:
    built = place / "html"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(place / "doctrees"), str(DOCS), str(built)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return built


def read(site: Path) -> dict[Path, Page]:
    pages: dict[Path, Page] = {}
    for path in site.rglob("*.html"):
        pages[path] = page = Page()
        page.feed(path.read_text())
    return pages


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_site(tmp_path: Path) -> None:
    """One test, because building the site takes longer than all checks together."""
    site = await asyncio.to_thread(build, tmp_path)
    check_pages(site)
    chromium = Chromium.find()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium.executable,
            args=list(ARGUMENTS),
            env={**chromium.environment},
        )
        context = await browser.new_context(viewport={"width": PHONE, "height": 800})
        await context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = await context.new_page()
        await check_search(site, page)
        await check_copying(site, page)
        await check_widths(site, page)
        await browser.close()


def check_pages(site: Path) -> None:
    pages = read(site)
    for source in DOCS.rglob("*.md"):
        name = source.relative_to(DOCS)
        if name != Path("README.md"):
            assert site / name.with_suffix(".html") in pages
            assert (site / name).read_text() == source.read_text()
    for path, page in pages.items():
        for address in page.loads:
            assert not urlsplit(address).netloc, f"{path.name} loads {address}"
        for address in (*page.links, *page.loads):
            check_link(path, address, pages)
    api = pages[site / "api.html"].anchors
    assert [name for name in public_names() if f"headway.{name}" not in api] == []
    assert "setup" not in re.findall(r"<!-- (\w+)", (site / "guides/retries.html").read_text())


def check_link(path: Path, address: str, pages: dict[Path, Page]) -> None:
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    assert target.exists(), f"{path.name} links to {address}"
    if parts.fragment and target in pages:
        assert unquote(parts.fragment) in pages[target].anchors, f"{path.name} links to {address}"


def test_the_api_page_has_every_public_name_once() -> None:
    text = (DOCS / "api.md").read_text()
    lines = re.findall(r"^`[\w.]+`(?:, `[\w.]+`)*$", text, flags=re.MULTILINE)
    names = [name for line in lines for name in re.findall(r"[\w.]+", line)]
    assert len(names) == len(set(names))
    assert sorted(public_names()) == sorted(name for name in names if name.count(".") < 2)


def public_names() -> list[str]:
    """What users import, but for single parts such as `observers.logs.LogObserver`."""
    errors = [f"errors.{name}" for name in errors_by_name() if name not in headway.__all__]
    return [*headway.__all__, *(f"records.{name}" for name in records.__all__), *errors]


def test_llms_txt_lists_what_the_entrance_lists() -> None:
    def listed(name: str) -> list[str]:
        return [match["page"] for match in _PAGE.finditer((DOCS / name).read_text())]

    assert listed("llms.txt") == listed("index.md")
    assert all((DOCS / page).exists() for page in listed("llms.txt"))


async def check_search(site: Path, page: BrowserPage) -> None:
    """Words of other queues lead to their pages."""
    await page.goto((site / "search.html").as_uri())
    await page.wait_for_function("typeof Search === 'object' && Search._index !== null")
    for word, pages in FOUND.items():
        found = await page.evaluate(SEARCH, word)
        assert set(found[: len(pages)]) == pages, word


async def check_copying(site: Path, page: BrowserPage) -> None:
    """Commands are copied without prompt and output, programs as they are."""
    await page.goto((site / "concepts.html").as_uri())

    async def copied(text: str) -> str:
        block = page.locator("div.highlight").filter(has_text=text)
        await block.locator("button.copy").click()
        return await page.evaluate("navigator.clipboard.readText()")

    assert await copied("$ python concepts.py") == "python concepts.py"
    program = await copied("# concepts.py")
    assert program.startswith("# concepts.py\nimport asyncio\n")
    assert program.endswith("    asyncio.run(main())")


async def check_widths(site: Path, page: BrowserPage) -> None:
    """No page is wider than a phone: wide tables and code scroll by themselves."""
    for path in site.rglob("*.html"):
        await page.goto(path.as_uri(), wait_until="domcontentloaded")
        assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE, path
