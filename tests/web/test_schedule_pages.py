"""The pages for schedules: what they show, what their forms do, and for whom."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import msgspec
import pytest
from playwright.async_api import expect

from headway import Cron, Every
from headway.domain.queries import WorkerRecord
from headway.schedules.firing import fire
from headway.web import Token
from tests.web.conftest import TOKEN, Visitor
from tests.web.shop import Shop
from tests.web.test_access import BEARER, form_token, visiting

in_memory = pytest.mark.parametrize("store_url", ["memory"], indirect=True)
on_sqlite = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
ODD = "a/../b:why"


async def put_many(shop: Shop, count: int) -> None:
    """Past the client, in one transaction."""
    store = shop.app.store
    first = await shop.app.schedules.put("many-000", Every(hours=1), shop.greet.request("ada"))
    others = [msgspec.structs.replace(first, name=f"many-{n:03}") for n in range(1, count)]
    await store.run(store.put_schedules, others)


async def run_some(shop: Shop) -> None:
    """`mixed` has completed, failed and pending runs, and a tick that was skipped."""
    app = shop.app
    await app.schedules.put("mixed", Every(hours=1), shop.charge.request(7))
    for shop.broken in (False, True):
        await app.schedules.trigger("mixed")
        await app.worker(schedules=False).run(drain=True)
    await app.schedules.trigger("mixed")
    await app.store.run(fire, app.store, (), now=(await app.schedules.get("mixed")).next_at)


async def post(client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    """As the form of a page does it."""
    token = form_token((await client.get("/schedules?q=nothing")).text)
    return await client.post(path, data={"form_token": token, **fields})


def rows(page: str) -> list[str]:
    """The texts of the rows of the table, without spaces at their ends."""
    found = re.findall(r"<tr>(.*?)</tr>", page.partition("<tbody>")[2], re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in found]


async def test_a_list_with_outcomes(shop: Shop, client: httpx.AsyncClient) -> None:
    await run_some(shop)
    await shop.app.schedules.put(
        "never", Cron("30 2 * * *", tz="Asia/Kolkata"), shop.greet.request("x")
    )
    await shop.app.schedules.pause("never")
    page = (await client.get("/schedules")).text
    assert "Last 4 ticks: 1 completed, 1 failed, 1 pending, 1 skipped" in page
    marks = re.findall(r'class="mark mark-(\w+)"', page)
    assert marks == ["completed", "failed", "pending", "skipped"]
    mixed, never = rows(page)
    assert mixed.startswith("mixed put starts charge active every 1 h in ")
    assert "pending" in mixed
    assert mixed.endswith("3 1 Run now mixed Pause mixed")
    assert never == (
        "never put starts greet paused 30 2 * * * Asia/Kolkata - never 0 0 "
        "Run now never Resume never"
    )


@on_sqlite
async def test_figures_are_those_of_the_tables(
    shop: Shop, client: httpx.AsyncClient, sqlite_path: Path
) -> None:
    await run_some(shop)
    await put_many(shop, 120)
    with sqlite3.connect(sqlite_path) as db:
        db.execute("update headway_schedule set fired = rowid * 7, skipped = rowid where fired = 0")
        stored = db.execute("select name, fired, skipped from headway_schedule order by name")
        expected = [(name, f"{fired:,}", f"{skipped:,}") for name, fired, skipped in stored]
    db.close()
    shown: list[tuple[str, ...]] = []
    path: str | None = "/schedules"
    while path is not None:
        page = (await client.get(path)).text
        shown += [(words[0], *words[-7:-5]) for words in (row.split() for row in rows(page))]
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = following and following[1].replace("&amp;", "&")
    assert shown == expected


@in_memory
async def test_searching_and_states(shop: Shop, client: httpx.AsyncClient) -> None:
    await put_many(shop, 60)
    await shop.app.schedules.pause("many-007")

    async def names(**query: str) -> list[str]:
        page = (await client.get("/schedules", params=query)).text
        return [row.split()[0] for row in rows(page)]

    assert len(await names()) == 50
    assert await names(q="MANY-02") == [f"many-02{n}" for n in range(10)]
    assert await names(state="paused") == ["many-007"]
    assert await names(q="many", cursor="many-057") == ["many-058", "many-059"]
    page = (await client.get("/schedules", params={"q": "many", "state": "active"})).text
    assert 'rel="next" href="/schedules?q=many&amp;state=active&amp;cursor=many-050"' in page
    assert 'hx-get="/schedules?q=many&amp;state=active"' in page
    assert "No schedule matches." in (await client.get("/schedules?q=none")).text
    assert (await client.get("/schedules?state=tired")).status_code == 400


@in_memory
async def test_any_name_has_a_page(shop: Shop, client: httpx.AsyncClient) -> None:
    names = [ODD, "a/", "a/./b", "a//b", "backfill", "eu/7:x.y", "pause"]
    for name in names:
        await shop.app.schedules.put(name, Every(hours=1), shop.greet.request("ada"))
    links = re.findall(
        r'class="name"><div><a href="([^"]+)"', (await client.get("/schedules")).text
    )
    for name, link in zip(sorted(names), links, strict=True):
        # As a browser does, the client takes dots out of paths.
        assert f"<h1><bdi>{name}</bdi>" in (await client.get(link)).text
        answer = await post(client, "/schedules/pause", name=name, back=link)
        assert answer.headers["location"] == link
        assert f"<h1><bdi>{name}</bdi>" in (await client.get(link)).text
        assert (await shop.app.schedules.get(name)).paused_at is not None


@in_memory
async def test_a_schedule_that_does_not_exist(shop: Shop, client: httpx.AsyncClient) -> None:
    answer = await client.get("/schedules/nothing")
    assert answer.status_code == 404
    assert "no schedule" in answer.text
    assert (await client.get("/schedules/")).headers["location"] == "/schedules"


@in_memory
async def test_a_schedule_with_its_definition(shop: Shop, client: httpx.AsyncClient) -> None:
    request = shop.greet.request("ada", password="hunter2")
    timetable = Cron("30 2 * * *", tz="Asia/Kolkata")
    await shop.app.schedules.put("nightly", timetable, request, overlap="queue_one", jitter=90)
    page = (await client.get("/schedules/nightly")).text
    assert "hunter2" not in page
    assert "[redacted]" in page
    assert "not fired: there is no living worker" in page
    assert 'class="why panel why-no_worker"' in page
    for fact in ("30 2 * * * Asia/Kolkata", "queue_one", "latest within 1 h", "1 m 30 s", "mail"):
        assert fact in page, fact
    assert len(re.findall(r"21:00:00 UTC<br><bdi>\w{3} 02:30 Asia/Kolkata", page)) == 5


@in_memory
async def test_a_job_names_its_schedule_and_tick(shop: Shop, client: httpx.AsyncClient) -> None:
    await shop.app.schedules.put(ODD, Every(hours=1), shop.greet.request("ada"))
    started = await shop.app.schedules.trigger(ODD)
    page = (await client.get(f"/jobs/{started.id}")).text
    assert '<dt>Schedule</dt><dd><a href="/schedules/a%2F..%2Fb%3Awhy">' in page
    assert f"<bdi>{ODD}</bdi>" in page
    assert "<dt>Tick</dt>" in page
    plain = await shop.app.start(shop.greet.request("ada"))
    page = (await client.get(f"/jobs/{plain.id}")).text
    assert "<dt>Schedule</dt>" not in page
    assert "<dt>Tick</dt>" not in page


async def test_a_schedule_leads_to_its_jobs(shop: Shop, client: httpx.AsyncClient) -> None:
    for name in (ODD, "other"):
        await shop.app.schedules.put(name, Every(hours=1), shop.greet.request("ada"))
    started = [(await shop.app.schedules.trigger(name)).id for name in (ODD, "other", ODD)]
    page = (await client.get("/schedules/a%2F..%2Fb%3Awhy")).text
    link = re.search(r'<a href="([^"]+)">All jobs of this schedule</a>', page)
    assert link is not None
    jobs = (await client.get(link[1])).text
    assert f'value="schedule:{ODD}"' in jobs
    assert [id in jobs for id in started] == [True, False, True]
    answer = await client.get("/api/v1/jobs", params={"q": "schedule:other"})
    assert [job["id"] for job in answer.json()["jobs"]] == [started[1]]


@in_memory
async def test_actions_are_audited(shop: Shop, client: httpx.AsyncClient) -> None:
    schedules = shop.app.schedules
    await schedules.put("hourly", Every(hours=1), shop.greet.request("ada"))
    back = "/schedules?q=hour"
    answer = await post(client, "/schedules/pause", name="hourly", back=back)
    assert (answer.status_code, answer.headers["location"]) == (303, back)
    assert (await schedules.get("hourly")).paused_at is not None
    await post(client, "/schedules/resume", name="hourly", back=back)
    assert (await schedules.get("hourly")).paused_at is None
    assert "started" not in (await client.get("/schedules?did=trigger&started=/../logout")).text
    answer = await post(client, "/schedules/trigger", name="hourly", back="https://evil.example/")
    (job,) = (await shop.app.list()).jobs
    assert answer.headers["location"] == f"/?did=trigger&started={job.id}"
    since = (datetime.now(UTC) - timedelta(hours=5)).isoformat()
    answer = await post(client, "/schedules/backfill", name="hourly", since=since, at_most="2")
    where = "/schedules/hourly?did=backfill&changed=2&passed=0"
    assert answer.headers["location"] == where
    assert "2 jobs started." in (await client.get(where)).text
    answer = await post(client, "/schedules/delete", name="hourly")
    assert answer.headers["location"] == "/schedules?did=delete"
    assert await schedules.list() == []
    assert len((await shop.app.list()).jobs) == 3
    records = (await shop.app.questions.audit()).records
    assert [(each.actor, each.action) for each in records] == [
        ("ada", f"{verb} schedule") for verb in ("delete", "backfill", "trigger", "resume", "pause")
    ]


IMPOSSIBLE: list[tuple[dict[str, str], str]] = [
    ({"since": ""}, "a time is written 2026-12-24T18:00, not &#39;&#39;"),
    ({"since": "yesterday"}, "a time is written 2026-12-24T18:00, not &#39;yesterday&#39;"),
    ({"since": "9999-12-31T23:59:59-23:00"}, "a time is written"),
    ({"since": "2999-01-01T00:00"}, "a backfill ends after it begins"),
    ({"since": "2026-01-01T00:00", "until": "2999-01-01T00:00"}, "ends now at the latest"),
    ({"since": "2026-01-01T00:00", "at_most": "many"}, "such as 100, not &#39;many&#39;"),
    ({"since": "2026-01-01T00:00", "at_most": "0"}, "at_most is between 1 and 10,000"),
    ({"since": "1971-01-01T00:00"}, "more than 10,000 ticks"),
]


@in_memory
async def test_a_backfill_that_cannot_be(shop: Shop, client: httpx.AsyncClient) -> None:
    await shop.app.schedules.put("hourly", Every(hours=1), shop.greet.request("ada"))
    for fields, problem in IMPOSSIBLE:
        page = await client.get("/schedules/hourly", params=fields)
        assert page.status_code == 400
        assert problem in page.text
        assert "<h1><bdi>hourly" in page.text
        assert "Start them" not in page.text
        answer = await post(client, "/schedules/backfill", name="hourly", **fields)
        assert answer.status_code == 400
        assert problem in answer.text
    assert (await shop.app.list()).jobs == []


@in_memory
async def test_what_living_code_declares_is_not_deleted(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    shop.app.schedule("declared", Every(hours=1), shop.greet.request("ada"))
    worker = shop.app.worker()
    await worker.start()
    try:
        while not await shop.app.schedules.list():
            await asyncio.sleep(0.01)
        page = (await client.get("/schedules/declared")).text
        assert "declared in code" in page
        assert "/schedules/delete" not in page
        answer = await post(client, "/schedules/delete", name="declared")
        assert answer.status_code == 400
        assert "is declared by the code of running workers" in answer.text
    finally:
        await worker.stop()
    page = (await client.get("/schedules/declared")).text
    assert "not fired: there is no living worker" in page
    assert "orphaned" not in page
    assert "/schedules/delete" not in page
    store, now = shop.app.store, datetime.now(UTC)
    other = WorkerRecord(
        id="anna:1",
        host="anna",
        pid=1,
        queues=("default",),
        types=(),
        concurrency=1,
        running=0,
        started_at=now,
        seen_at=now,
        schedules={},
    )
    await store.run(store.save_worker, other)
    page = (await client.get("/schedules/declared")).text
    assert "orphaned: no living worker declares it" in page
    assert "/schedules/delete" in page
    assert (await post(client, "/schedules/delete", name="declared")).status_code == 303
    assert await shop.app.schedules.list() == []


@in_memory
async def test_read_only(shop: Shop) -> None:
    await run_some(shop)
    async with visiting(shop, Token(TOKEN), allow_writes=False) as client:
        client.headers.update(BEARER)
        for path in ("/schedules", "/schedules/mixed", "/schedules/mixed?since=2026-01-01T00:00"):
            page = (await client.get(path)).text
            assert "mixed" in page
            assert set(re.findall(r'method="post" action="([^"]+)"', page)) == {"/logout"}
            assert "formaction" not in page
            for word in ("Run now", "Pause", "Backfill", "Delete", "Start them"):
                assert word not in page, (path, word)
        for action in ("pause", "resume", "trigger", "backfill", "delete"):
            answer = await post(client, f"/schedules/{action}", name="mixed", since="2026-01-01")
            assert answer.status_code == 403
            assert "read-only" in answer.text
    assert (await shop.app.questions.audit()).records == []


@in_memory
async def test_forms_of_others_are_refused(shop: Shop, client: httpx.AsyncClient) -> None:
    await shop.app.schedules.put("hourly", Every(hours=1), shop.greet.request("ada"))
    for action in ("pause", "resume", "trigger", "backfill", "delete"):
        fields = {"name": "hourly", "since": "2026-11-01", "form_token": "0" * 64}
        answer = await client.post(f"/schedules/{action}", data=fields)
        assert answer.status_code == 403
        assert "out of date" in answer.text
    assert (await shop.app.questions.audit()).records == []


@pytest.mark.slow
@on_sqlite
async def test_working_with_schedules(shop: Shop, visitor: Visitor) -> None:
    page = visitor.page
    await visitor.go("/schedules")
    await expect(page.get_by_text("No schedules yet.")).to_be_visible()
    assert await visitor.barriers() == []
    await run_some(shop)
    await put_many(shop, 300)
    # By itself.
    await expect(page.locator("tbody tr")).to_have_count(50)
    await page.get_by_role("link", name="Next").click()
    await expect(page.locator("tbody tr").first).to_contain_text("many-050")
    await page.keyboard.press("/")
    await page.keyboard.type("mixed")
    await page.keyboard.press("Enter")
    row = page.locator("tbody tr")
    await expect(row).to_have_count(1)
    strip = row.get_by_role("img", name="Last 4 ticks: 1 completed, 1 failed, 1 pending, 1 skipped")
    await expect(strip).to_be_visible()
    await page.get_by_role("button", name="Pause mixed").click()
    await expect(page.get_by_role("button", name="Resume mixed")).to_be_visible()
    await expect(row).to_contain_text("paused")
    await page.get_by_role("button", name="Run now mixed").click()
    await expect(page.get_by_role("status")).to_contain_text("started")
    await expect(page.locator("#q")).to_have_value("mixed")
    await row.get_by_role("link", name="mixed").click()
    await expect(page.locator("h1")).to_contain_text("mixed")
    await expect(page.locator("#why")).to_contain_text("aused since")
    await expect(page.locator(".runs tbody tr")).to_have_count(5)
    await page.get_by_role("button", name="Resume mixed").click()
    await expect(page.locator("#why")).to_contain_text("not fired: there is no living worker")

    two_hours_ago = datetime.now(UTC) - timedelta(hours=2)
    await page.get_by_label("Since (UTC)").fill(f"{two_hours_ago:%Y-%m-%dT%H:%M}")
    await page.get_by_role("button", name="Count").click()
    await expect(page.locator("#planned")).to_have_text("2 jobs")
    await page.get_by_role("button", name="Start them").click()
    await expect(page.get_by_role("status")).to_have_text("2 jobs started.")
    await page.locator(".runs").get_by_role("link").first.click()
    await page.locator("dd").get_by_role("link", name="mixed").click()

    since = page.get_by_label("Since (UTC)")
    await since.fill("2026-11-01T07:30")
    await page.get_by_role("button", name="Delete").click()
    await shop.app.schedules.trigger("mixed")
    # By itself; the form and the question stay as they are.
    await expect(page.locator(".runs tbody tr")).to_have_count(6)
    await expect(page.locator("dt:text-is('Fired') + dd")).to_have_text("5")
    await expect(since).to_have_value("2026-11-01T07:30")
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("status")).to_have_text("Schedule deleted; its jobs stay.")
    assert len(await shop.app.schedules.list(limit=1_000)) == 300


@pytest.mark.slow
@on_sqlite
async def test_both_pages_are_accessible(shop: Shop, visitor: Visitor) -> None:
    await run_some(shop)
    await shop.app.schedules.put("x" * 200, Cron("30 2 * * *"), shop.greet.request("y" * 500))
    await shop.app.schedules.pause("x" * 200)
    page = visitor.page
    for path in (
        "/schedules",
        "/schedules/mixed?since=2026-11-01T00:00",
        f"/schedules/{'x' * 200}",
    ):
        await visitor.go(path)
        assert await visitor.barriers() == [], path
        await page.locator("#theme").click()
        await page.set_viewport_size({"width": 375, "height": 800})
        assert await visitor.barriers() == [], f"{path} on a phone, in the other colours"
        wide = await page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 375, f"{path} is {wide} pixels wide on a phone"
        await page.set_viewport_size({"width": 1280, "height": 860})
