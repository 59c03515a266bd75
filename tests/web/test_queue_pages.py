"""The pages for queues with limits: what they show, what their forms do, and for whom."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Unpack

import httpx
import pytest
from playwright.async_api import expect

from headway import After, JobState, Rate
from headway.domain.limits.limit_views import QueuePermits
from headway.domain.limits.queue_limits import LimitOptions, LimitsOverride
from headway.limits import changes
from headway.web import Token
from headway.web.template_filters import countdown
from tests.web.conftest import TOKEN, Visitor
from tests.web.shop import Shop
from tests.web.test_access import BEARER, form_token, visiting

in_memory = pytest.mark.parametrize("store_url", ["memory"], indirect=True)
on_sqlite = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
RATE = Rate(6, per=3_600, burst=5)


@asynccontextmanager
async def at_work(shop: Shop, **limits: Unpack[LimitOptions]) -> AsyncIterator[None]:
    """Jobs of queue `media` run until the end: three of key `a`, one of `b`, one without a key; as
    many wait."""
    app = shop.app
    app.queue("media", **limits)
    for key in ("a", "a", "a", "b", None, "a", "a", "a", "b", None):
        await app.start(shop.resize.request("x.png"), key=key)
    worker = app.worker(queues=["media"], concurrency=5)
    await worker.start()
    try:
        async with asyncio.timeout(20):
            while len((await app.list(state=JobState.RUNNING)).jobs) < 5:
                await asyncio.sleep(0.01)
        yield
    finally:
        shop.go_on.set()
        await worker.stop()


async def permits(shop: Shop, queue: str = "media") -> QueuePermits:
    found = (await shop.app.questions.queue(queue)).queue.permits
    assert found is not None
    return found


async def post(client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    """As the form of a page does it."""
    token = form_token((await client.get("/queues")).text)
    return await client.post(path, data={"form_token": token, **fields})


def rows(page: str, after: str = "<body>") -> list[str]:
    """The texts of the rows of the first table after a text."""
    table = page.partition(after)[2].partition("<tbody>")[2].partition("</tbody>")[0]
    found = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]*>", " ", row)).split()) for row in found]


@in_memory
async def test_a_list_with_limits(shop: Shop, client: httpx.AsyncClient) -> None:
    await shop.app.start(shop.greet.request("ada"))
    page = (await client.get("/queues")).text
    assert "Limits" not in page
    async with at_work(shop, running=6, per_key=3, rate=RATE, fair=True):
        await shop.app.actions("grace").limit_queue("media", running=8)
        page = (await client.get("/queues")).text
    mail, media = rows(page)
    assert mail.endswith(" 0 0 - Pause mail")
    assert media.startswith("media override 0 0 5 5 0 ")
    assert "5 / 8 permits in use 3 per key, fair 6 in 3600 s, 5 at once: next in " in media
    assert '<rect width="62.5" height="10"/>' in page


@on_sqlite
async def test_figures_are_those_of_the_table(
    shop: Shop, client: httpx.AsyncClient, sqlite_path: Path
) -> None:
    async with at_work(shop, running=6, per_key=3):
        page = (await client.get("/queues/media")).text
        with sqlite3.connect(sqlite_path) as db:
            counted = db.execute(
                "select key, count(*) from headway_job where queue = 'media' and state = 'running'"
                " group by key order by 2 desc, 1"
            ).fetchall()
        db.close()
    assert counted == [("a", 3), (None, 1), ("b", 1)]
    keys = [f"{key} {count} / 3" for key, count in counted if key is not None]
    assert rows(page, "Running by key") == keys
    assert 'id="permits-used">5<span class="unit"> / 6</span>' in page
    assert 'id="permits-free">1 free' in page
    assert "1 of 6 permits is free." in page
    widths = re.findall(r'class="bar( full)?".*?<rect width="([\d.]+)"', page)
    assert widths == [("", "83.3"), (" full", "100.0"), ("", "33.3")]


@in_memory
async def test_a_key_leads_to_its_jobs(shop: Shop, client: httpx.AsyncClient) -> None:
    async with at_work(shop, per_key=3):
        await shop.app.start(shop.greet.request("ada"), key="a")
        page = (await client.get("/queues/media")).text
        link = re.search(r'id="key-1" href="([^"]+)"', page)
        assert link is not None
        jobs = (await client.get(unescape(link[1]))).text
        assert 'value="state:running queue:media key:a"' in jobs
        assert len(rows(jobs)) == 3
        (job, *_) = (await shop.app.list()).jobs
        page = (await client.get(f"/jobs/{job.id}")).text
        link = re.search(r'<dt>Key</dt><dd class="wrap"><a href="([^"]+)"><bdi>a</bdi>', page)
        assert link is not None
        assert len(rows((await client.get(unescape(link[1]))).text)) == 1
        assert "<dt>Deduplication key</dt>" not in page


@in_memory
async def test_a_job_says_what_it_waits_for(shop: Shop, client: httpx.AsyncClient) -> None:
    async with at_work(shop, running=5, per_key=3):
        waiting = [job for job in (await shop.app.list()).jobs if job.started_at is None]
        page = (await client.get(f"/jobs/{waiting[-1].id}")).text
        assert waiting[-1].key == "a"
        assert "5 of 5 jobs of media are running; key a has 3 of 3 running" in page
        assert '<a href="/queues/media"><bdi>media</bdi></a>' in page
        assert "All 5 permits are in use" in (await client.get("/queues/media")).text
        await shop.app.actions("grace").limit_queue("media", running=2)
        page = (await client.get("/queues/media")).text
        assert "5 jobs run, and 2 are allowed: the next job starts when 4 of them have" in page


@in_memory
async def test_any_queue_has_a_page(shop: Shop, client: httpx.AsyncClient) -> None:
    names = ["a/../b:c", "a//b", "eu/7:x.y", "limit", "pause"]
    for name in names:
        await shop.app.start(shop.greet.request("ada").using(queue=name))
    links = re.findall(
        r'data-label="Queue"><div><a href="([^"]+)"', (await client.get("/queues")).text
    )
    for name, link in zip(names, links, strict=True):
        # As a browser does, the client takes dots out of paths.
        page = (await client.get(link)).text
        assert f"<h1><bdi>{name}</bdi>" in page
        assert "No limits: workers start as many jobs as they have room for." in page
        answer = await post(client, "/queues/limit", queue=name, running="4")
        assert answer.headers["location"] == f"{link}?did=limit"
        assert "Limits set." in (await client.get(answer.headers["location"])).text
        answer = await post(client, "/queues/pause", queue=name, back=link)
        assert answer.headers["location"] == link
        page = (await client.get(link)).text
        assert "Paused since" in page
        assert '0<span class="unit"> / 4' in page
    answer = await post(client, "/queues/resume", queue="limit", back="https://evil.example/")
    assert answer.headers["location"] == "/"
    assert (await client.get("/queues/")).headers["location"] == "/queues"
    page = (await client.get("/queues/medai")).text
    assert "no job, worker or job type uses queue medai; did you mean media?" in page
    assert (await client.get("/queues/%3Cb%3E%20")).status_code == 400


@in_memory
async def test_overriding_and_taking_back(shop: Shop, client: httpx.AsyncClient) -> None:
    async with at_work(shop, running=6, per_key=3):

        async def limit(**fields: str) -> str:
            answer = await post(client, "/queues/limit", queue="media", **fields)
            did = "limit" if fields else "clear"
            assert answer.headers["location"] == f"/queues/media?did={did}"
            return (await client.get("/queues/media")).text

        page = await limit(
            running=" 8 ", per_key="None", rate_limit="90", rate_per="0.5", rate_burst="10"
        )
        rate = Rate(90, per=0.5, burst=10)
        found = await permits(shop)
        assert found.override == LimitsOverride(running=8, per_key=None, rate=rate)
        assert rows(page, "<h2>Limits</h2>") == [
            "Running 6 8 8",
            "Per key 3 no limit no limit",
            "Rate no limit 90 in 0.5 s, 10 at once 90 in 0.5 s, 10 at once",
            "Order oldest first - oldest first",
        ]
        assert "Declared by 1 living worker." in page
        values = re.findall(r'<input name="(\w+)" value="([^"]*)" placeholder="([^"]*)"', page)
        assert values == [
            ("running", "8", "6"),
            ("per_key", "none", "3"),
            ("rate_limit", "90", "no limit"),
            ("rate_per", "0.5", ""),
            ("rate_burst", "10", "1"),
        ]
        # A field that is empty is as declared.
        page = await limit(per_key="none")
        assert (await permits(shop)).override == LimitsOverride(per_key=None)
        assert "Take overrides back" in page
        page = await limit(rate_limit="none")
        assert (await permits(shop)).override == LimitsOverride(rate=None)
        page = await limit(rate_limit="5", rate_per="60")
        assert (await permits(shop)).override == LimitsOverride(rate=Rate(5, per=60))
        answer = await post(client, "/queues/clear-limits", queue="media")
        page = (await client.get(answer.headers["location"])).text
        assert "Overrides taken back" in page
        assert "Take overrides back" not in page
        assert (await permits(shop)).override is None
        await limit(running="4")
        await limit()
        assert (await permits(shop)).override is None
    records = (await shop.app.questions.audit()).records
    assert {each.actor for each in records} == {"ada"}
    assert [each.after for each in reversed(records)] == [
        "8 running; 90 in 0.5 s, 10 at once",
        "6 running",
        "6 running; 3 per key",
        "6 running; 3 per key; 5 in 60 s",
        "6 running; 3 per key",
        "4 running; 3 per key",
        "6 running; 3 per key",
    ]


IMPOSSIBLE: list[tuple[dict[str, str], str]] = [
    ({"running": "many"}, "running is a whole number such as 10, or none for no limit, not 'many'"),
    ({"running": "-1"}, "running is a whole number"),
    ({"running": "1" * 30}, "running is a whole number"),
    ({"running": "0"}, "running must be at least 1; to start nothing, pause the queue"),
    ({"per_key": "2.5"}, "per key is a whole number"),
    ({"per_key": "1000001"}, "per_key is between 1 and 1,000,000"),
    ({"rate_limit": "90"}, "fill in both"),
    ({"rate_per": "60"}, "fill in both"),
    ({"rate_burst": "3"}, "fill in both"),
    ({"rate_limit": "90", "rate_per": "a minute"}, "the seconds of a rate are a number"),
    ({"rate_limit": "90", "rate_per": "nan"}, "the time of a rate"),
    ({"rate_limit": "90", "rate_per": "1e999"}, "the time of a rate"),
    (
        {"rate_limit": "x", "rate_per": "60"},
        "the number of starts is a whole number such as 10, or none",
    ),
    ({"rate_limit": "9", "rate_per": "60", "rate_burst": "10"}, "between 1 and its limit of 9"),
    (
        {"rate_limit": "9", "rate_per": "60", "rate_burst": "none"},
        "starts at once is a whole number",
    ),
    ({"rate_limit": "none", "rate_per": "60"}, "leave these fields empty"),
]


@in_memory
async def test_limits_that_cannot_be(shop: Shop, client: httpx.AsyncClient) -> None:
    await shop.app.start(shop.resize.request("x.png"))
    for fields, problem in IMPOSSIBLE:
        answer = await post(client, "/queues/limit", queue="media", **fields)
        assert answer.status_code == 400
        page = unescape(answer.text)
        said = re.search(r'role="alert" id="override-problem">([^<]*)<', page)
        assert said is not None, fields
        assert problem in said[1], fields
        assert "<h1><bdi>media</bdi>" in page
        for name, value in fields.items():
            assert f'<input name="{name}" value="{value}"' in page
    assert (await shop.app.questions.queue("media")).queue.permits is None
    answer = await post(client, "/queues/limit", queue="no such queue", running="4")
    assert answer.status_code == 400
    assert (await shop.app.questions.audit()).records == []


@in_memory
async def test_releasing_a_hold(shop: Shop, client: httpx.AsyncClient) -> None:
    store = shop.app.store
    await shop.app.start(shop.resize.request("x.png"))
    assert "/queues/release" not in (await client.get("/queues/media")).text
    await store.run(changes.hold, store, "media", None, After(minutes=5))
    page = (await client.get("/queues/media")).text
    assert "Held until" in page
    assert "Release the hold" in page
    (row,) = rows((await client.get("/queues")).text)
    assert row.startswith("media held ")
    assert "held, goes on in 5 m" in row or "held, goes on in 4 m" in row
    await store.run(changes.hold, store, "media", "<a>", After(minutes=2))
    page = (await client.get("/queues/media")).text
    assert "Release all holds" in page
    (row,) = rows(page, "Running by key")
    assert row.startswith("<a> 0 goes on in ")
    answer = await post(client, "/queues/release", queue="media")
    assert "Holds released." in (await client.get(answer.headers["location"])).text
    assert (await shop.app.questions.queue("media")).queue.permits is None
    (record,) = (await shop.app.questions.audit()).records
    assert (record.actor, record.action, record.target) == ("ada", "release hold", "media")


ACTIONS = ("limit", "clear-limits", "release")


@in_memory
async def test_read_only(shop: Shop) -> None:
    store = shop.app.store
    await shop.app.actions("grace").limit_queue("media", running=4)
    await store.run(changes.hold, store, "media", None, After(minutes=5))
    async with visiting(shop, Token(TOKEN), allow_writes=False) as client:
        client.headers.update(BEARER)
        for path in ("/queues", "/queues/media"):
            page = (await client.get(path)).text
            assert "media" in page
            assert "override" in page
            assert set(re.findall(r'method="post" action="([^"]+)"', page)) == {"/logout"}
            assert "formaction" not in page
        for action in ACTIONS:
            answer = await post(client, f"/queues/{action}", queue="media", running="5")
            assert answer.status_code == 403
            assert "read-only" in answer.text
    assert len((await shop.app.questions.audit()).records) == 1


@in_memory
async def test_forms_of_others_are_refused(shop: Shop, client: httpx.AsyncClient) -> None:
    store = shop.app.store
    await shop.app.actions("grace").limit_queue("media", running=4)
    await store.run(changes.hold, store, "media", None, After(minutes=5))
    for action in ACTIONS:
        fields = {"queue": "media", "running": "5", "form_token": "0" * 64}
        answer = await client.post(f"/queues/{action}", data=fields)
        assert answer.status_code == 403
        assert "out of date" in answer.text
    assert len((await shop.app.questions.audit()).records) == 1


@in_memory
async def test_a_part_of_a_rate(shop: Shop, client: httpx.AsyncClient) -> None:
    """What is left empty is as declared."""
    async with at_work(shop, rate=RATE):
        for fields, rate in (
            ({"rate_limit": "90"}, Rate(90, per=3_600, burst=5)),
            ({"rate_per": "60"}, Rate(6, per=60, burst=5)),
            ({"rate_burst": "2"}, Rate(6, per=3_600, burst=2)),
        ):
            answer = await post(client, "/queues/limit", queue="media", **fields)
            assert answer.status_code == 303
            assert (await permits(shop)).effective.rate == rate
        answer = await post(client, "/queues/limit", queue="media", rate_limit="4")
        assert answer.status_code == 400
        assert "the burst of a rate is between 1 and its limit of 4, not 5" in answer.text


@pytest.mark.slow
@on_sqlite
async def test_working_with_limits(shop: Shop, visitor: Visitor) -> None:
    page = visitor.page
    async with at_work(shop, running=5, per_key=3, rate=Rate(6, per=3_600, burst=6)):
        await visitor.go("/queues")
        row = page.locator("tbody tr", has_text="media")
        await expect(row.locator(".use")).to_have_text("5 / 5 permits in use")
        await expect(row.locator(".bar")).to_be_visible()
        await row.get_by_role("link", name="media").click()
        await expect(page.locator("#why")).to_contain_text("All 5 permits are in use")
        await expect(page.locator("#next-start")).to_have_text("now")

        running = page.get_by_label("Running at once")
        await running.fill("none")
        await page.get_by_label("Starts").fill("1")
        await page.get_by_role("button", name="Set limits").click()
        await expect(page.get_by_role("alert")).to_contain_text("between 1 and its limit of 1")
        await expect(running).to_have_value("none")
        visitor.complaints = [each for each in visitor.complaints if "400" not in each]
        await page.get_by_label("of them at once").fill("1")
        await page.get_by_role("button", name="Set limits").click()
        await expect(page.get_by_role("status")).to_contain_text("Limits set.")
        await expect(page.locator("h1")).to_contain_text("override")
        await expect(page.locator("#next-start")).to_have_text(re.compile(r"^in \d+ (h|m)"))

        # By itself; what is typed stays.
        await running.fill("77")
        await shop.app.actions("grace").limit_queue("media", running=9)
        await expect(page.locator("#permits-used")).to_have_text("5 / 9")
        await expect(running).to_have_value("77")
        await page.get_by_role("button", name="Take overrides back").click()
        await expect(page.get_by_role("status")).to_contain_text("Overrides taken back")
        await expect(page.locator("#permits-used")).to_have_text("5 / 5")
        await page.locator("#queue-keys").get_by_role("link", name="a", exact=True).click()
        await expect(page.locator("#q")).to_have_value("state:running queue:media key:a")
        await expect(page.locator("tbody tr")).to_have_count(3)


@pytest.mark.slow
@in_memory
async def test_seconds_count_down(shop: Shop, visitor: Visitor) -> None:
    page = visitor.page
    moments = (0, 0.9, 1.9, 7.9, 59.9, 60.9, 119.9, 3_599.9, 3_659.9, 86_399.9, 86_400.9, 200_000.9)
    await page.evaluate(
        """(moments) => {
            for (const seconds of moments) {
                const shown = document.createElement("output");
                shown.dataset.seconds = seconds;
                document.querySelector("main").append(shown);
            }
        }""",
        moments,
    )
    shown = page.locator("output")
    await expect(shown).to_have_text([countdown(each) for each in moments])
    await expect(shown.nth(2)).to_have_text("within 1 s")
    await expect(shown.nth(2)).to_have_text("now")


@pytest.mark.slow
@on_sqlite
async def test_both_pages_are_accessible(shop: Shop, visitor: Visitor) -> None:
    page, store = visitor.page, shop.app.store
    long = "x" * 200
    async with at_work(shop, running=5, per_key=3, rate=RATE, fair=True):
        await shop.app.actions("grace").limit_queue("media", running=8, rate=RATE)
        await store.run(changes.hold, store, "media", "k" * 500, After(days=90))
        await store.run(changes.hold, store, long, None, After(minutes=5))
        for path in ("/queues", "/queues/media", f"/queues/{long}", "/queues/none"):
            await visitor.go(path)
            assert await visitor.barriers() == [], path
            await page.locator("#theme").click()
            await page.set_viewport_size({"width": 375, "height": 800})
            assert await visitor.barriers() == [], f"{path} on a phone, in the other colours"
            wide = await page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 375, f"{path} is {wide} pixels wide on a phone"
            await page.set_viewport_size({"width": 1280, "height": 860})
