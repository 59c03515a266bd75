"""The site builds without a warning, its links lead somewhere, and it needs no other host. In a
browser: its search knows the words of other queues, its buttons copy commands, it fits a phone."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import pytest_asyncio
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
LATER, RECURRING = "guides/deduplication-and-scheduling", "recipes"
FOUND = {
    "cron": {RECURRING, LATER}, "periodic": {RECURRING, LATER}, "beat": {RECURRING, LATER},
    "delay": {LATER}, "countdown": {LATER}, "ETA": {LATER},
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
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


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_site(site: Path) -> None:
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


@pytest_asyncio.fixture
async def browser_page() -> AsyncIterator[BrowserPage]:
    chromium = Chromium.find()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium.executable,
            args=list(ARGUMENTS),
            env={**chromium.environment},
        )
        context = await browser.new_context(viewport={"width": PHONE, "height": 800})
        await context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield await context.new_page()
        await browser.close()


@pytest.mark.slow
async def test_the_search_knows_words_of_other_queues(
    site: Path, browser_page: BrowserPage
) -> None:
    await browser_page.goto((site / "search.html").as_uri())
    await browser_page.wait_for_function("typeof Search === 'object' && Search._index !== null")
    for word, pages in FOUND.items():
        found = await browser_page.evaluate(SEARCH, word)
        assert set(found[: len(pages)]) == pages, word


@pytest.mark.slow
async def test_copied_commands_have_no_prompt_and_no_output(
    site: Path, browser_page: BrowserPage
) -> None:
    await browser_page.goto((site / "concepts.html").as_uri())
    blocks = browser_page.locator("div.highlight")

    async def copied(kind: str) -> str:
        block = blocks.filter(has_text=kind)
        await block.locator("button.copy").click()
        return await browser_page.evaluate("navigator.clipboard.readText()")

    assert await copied("$ python concepts.py") == "python concepts.py"
    program = await copied("# concepts.py")
    assert program.startswith("# concepts.py\nimport asyncio\n")
    assert program.endswith("    asyncio.run(main())")


@pytest.mark.slow
async def test_pages_fit_a_phone(site: Path, browser_page: BrowserPage) -> None:
    """Wide tables and code scroll by themselves, not with the page."""
    for path in site.rglob("*.html"):
        await browser_page.goto(path.as_uri(), wait_until="domcontentloaded")
        assert await browser_page.evaluate("document.documentElement.scrollWidth") <= PHONE, path
