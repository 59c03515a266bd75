"""The dashboard in a real browser: what it shows, what its buttons do, that nothing is blocked."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import expect

from headway import After, JobState
from headway.web.pages import actions
from tests.web.conftest import Visitor
from tests.web.shop import Shop

pytestmark = pytest.mark.slow

on_sqlite = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)


@on_sqlite
async def test_counts_are_live(shop: Shop, visitor: Visitor) -> None:
    page = visitor.page
    await expect(page.locator("#live-word")).to_have_text("live")
    count = page.locator("#tile-pending .tile-count")
    await expect(count).to_have_text("0")
    await shop.app.start(shop.greet.request("ada"))
    await expect(count).to_have_text("1")
    await shop.app.worker().run(drain=True)
    await expect(count).to_have_text("0")
    await expect(page.locator("#tile-completed .tile-count")).to_have_text("1")
    await expect(page.locator("#plot canvas")).to_be_visible()


@on_sqlite
async def test_searching(shop: Shop, visitor: Visitor) -> None:
    await shop.fail(3)
    await shop.app.start(shop.greet.request("grace"))
    page = visitor.page
    await visitor.go("/jobs")
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(4)
    await page.keyboard.press("/")
    await expect(page.locator("#q")).to_be_focused()
    await page.keyboard.type("type:charge args.order_id:2")
    await page.keyboard.press("Enter")
    await expect(rows).to_have_count(1)
    await expect(page.locator("#count")).to_have_text("1 matches")
    await page.get_by_label("Quick filters").get_by_text("pending").click()
    await expect(page.get_by_text("No job matches this filter.")).to_be_visible()
    await page.get_by_label("Quick filters").get_by_text("all", exact=True).click()
    await expect(rows).to_have_count(1)
    await page.fill("#q", "order:7")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("no key 'order'")
    visitor.complaints = [each for each in visitor.complaints if "400" not in each]


@on_sqlite
async def test_retrying_a_dead_letter(shop: Shop, visitor: Visitor) -> None:
    (id,) = await shop.fail(1)
    page = visitor.page
    await visitor.go("/failures")
    await page.get_by_text("Latest").click()
    await expect(page.locator("h1")).to_contain_text("charge")
    await expect(page.locator("h1 .state")).to_have_text("failed")
    await expect(page.locator(".timeline")).to_contain_text("the bank did not answer about order 0")
    await page.locator("summary", has_text="Traceback").click()
    await expect(page.get_by_label("Traceback")).to_contain_text("raise TimeoutError")
    await page.get_by_role("button", name="Retry").click()
    await expect(page.get_by_role("status")).to_have_text("1 job retried.")
    await expect(page.locator("h1 .state")).to_have_text("pending")
    shop.broken = False
    await shop.app.worker().run(drain=True)
    await expect(page.locator("h1 .state")).to_have_text("completed")  # by itself
    await expect(page.get_by_label("Output")).to_have_text('"receipt-0"')
    await visitor.go("/audit")
    row = page.locator("tbody tr")
    await expect(row).to_have_count(1)
    await expect(row).to_contain_text("ada")
    await expect(row).to_contain_text(id)


@on_sqlite
async def test_acting_on_what_is_selected_and_on_all(shop: Shop, visitor: Visitor) -> None:
    await shop.fail(60)  # more than a page
    page = visitor.page
    await visitor.go("/jobs?q=state:failed")
    retry = page.get_by_role("button", name="Retry")
    await expect(retry).to_be_disabled()
    await page.get_by_label("Select job").nth(0).check()
    await page.get_by_label("Select job").nth(1).check()
    await expect(page.locator("#selected")).to_have_text("2 selected:")
    await retry.click()
    await expect(page.get_by_role("status")).to_have_text("2 jobs retried.")
    await visitor.go("/failures")
    await page.get_by_text("Retry these 58").click()
    await expect(page.locator("#how-many")).to_have_text("58 jobs")
    await page.get_by_role("button", name="Retry them").click()
    await expect(page.get_by_role("status")).to_have_text("58 jobs retried.")
    listed = await shop.app.list(state=JobState.PENDING, limit=100)
    assert len(listed.jobs) == 60

    await visitor.go("/jobs?q=state:pending")
    await page.get_by_label("Select all on this page").check()
    await expect(page.locator("#selected")).to_have_text("50 selected:")
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_role("status")).to_have_text("50 jobs cancelled.")
    await visitor.go("/jobs?q=state:cancelled")
    await page.get_by_label("Select all on this page").check()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Keep as it is").click()
    assert len((await shop.app.list(state=JobState.CANCELLED, limit=100)).jobs) == 50
    await page.locator("form#selection").get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("status")).to_have_text("50 jobs deleted.")
    assert len((await shop.app.list(limit=100)).jobs) == 10


@pytest.mark.long
@on_sqlite
async def test_a_bulk_action_goes_on_by_itself(
    shop: Shop, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "ACT_FOR", 0.0)  # one batch for each request
    count = 2_100
    await shop.app.start_many([shop.greet.request(str(number)) for number in range(count)])
    page = visitor.page
    await visitor.go("/jobs?q=type:greet")
    await expect(page.locator("#count")).to_have_text("2,100 match")
    await page.get_by_role("link", name="Cancel…").click()
    await expect(page.locator("#how-many")).to_have_text("2,100 jobs")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.method))
    await page.get_by_role("button", name="Cancel them").click()
    await expect(page.get_by_role("status")).to_have_text("2,100 jobs cancelled.")
    assert requests.count("POST") > 1


@pytest.mark.long
@on_sqlite
async def test_pausing_a_queue(shop: Shop, visitor: Visitor) -> None:
    await shop.app.start(shop.greet.request("ada"))
    page = visitor.page
    await visitor.go("/queues")
    await page.get_by_role("button", name="Pause mail").click()
    await expect(page.get_by_role("button", name="Resume mail")).to_be_visible()
    await shop.app.worker().run(drain=True)
    job = (await shop.app.list()).jobs[0]
    assert job.state is JobState.PENDING
    await visitor.go(f"/jobs/{job.id}")
    await expect(page.locator("#why")).to_contain_text("paused")
    await visitor.go("/queues")
    await page.get_by_role("button", name="Resume mail").click()
    await expect(page.get_by_role("button", name="Pause mail")).to_be_visible()
    await shop.app.worker().run(drain=True)
    assert (await shop.app.list()).jobs[0].state is JobState.COMPLETED


@on_sqlite
async def test_a_sequence_is_drawn(shop: Shop, visitor: Visitor) -> None:
    shop.broken = False
    sequence = await shop.app.start(shop.ship.request(7).using(blockers=(shop.charge.request(7),)))
    page = visitor.page
    await visitor.go(f"/sequences/{sequence.id}")
    nodes = page.locator(".node")
    await expect(nodes).to_have_count(2)
    await expect(page.locator("path.edge-blocks")).to_have_count(1)
    await expect(nodes.filter(has_text="ship")).to_contain_text("blocked")
    await shop.app.worker().run(drain=True)
    await expect(nodes).to_have_count(3)  # by itself
    await expect(nodes.filter(has_text="greet")).to_contain_text("completed")
    await expect(page.locator("path.edge-continues")).to_have_count(1)
    first, then = await nodes.nth(0).bounding_box(), await nodes.nth(2).bounding_box()
    assert first is not None
    assert then is not None
    assert first["x"] != then["x"]
    await nodes.filter(has_text="ship").click()
    await expect(page.locator("h1")).to_contain_text("ship")
    await expect(page.get_by_text("Waits for")).to_be_visible()


@pytest.mark.long
@on_sqlite
async def test_progress_is_live(shop: Shop, visitor: Visitor) -> None:
    sequence = await shop.app.start(shop.resize.request("cat.png"))
    page = visitor.page
    await visitor.go(f"/jobs/{sequence.id}")
    await expect(page.locator("h1 .state")).to_have_text("pending")
    async with asyncio.TaskGroup() as group:
        group.create_task(shop.app.worker().run(drain=True))
        await expect(page.locator("h1 .state")).to_have_text("running")
        await expect(page.locator(".progress")).to_contain_text("resizing cat.png")
        await expect(page.locator(".progress")).to_contain_text("40 %")
        shop.go_on.set()
        await expect(page.locator("h1 .state")).to_have_text("completed")


@on_sqlite
async def test_every_page_is_accessible(shop: Shop, visitor: Visitor) -> None:
    """In both colours, on a wide screen and on a phone."""
    (failed, *_) = await shop.fail(2)
    shop.broken = False
    sequence = await shop.app.start(shop.ship.request(7).using(blockers=(shop.charge.request(7),)))
    await shop.app.start(shop.greet.request("ada"), schedule=After(minutes=5))
    worker = shop.app.worker()
    await worker.start()
    await shop.app.actions("ada").pause("mail")
    page = visitor.page
    paths = [
        "/", "/jobs", f"/jobs/{failed}", f"/sequences/{sequence.id}", "/jobs?q=state:failed",
        "/jobs/all?action=retry&q=", "/sequences", "/failures", "/queues", "/types", "/workers",
        "/audit",
    ]  # fmt: skip
    twice = paths[:4]  # the others are made of the same parts
    background = re.compile(r"rgb\((\d+), ")
    try:
        for path in paths:
            await visitor.go(path)
            if path == "/":
                await expect(page.get_by_text("All failures")).to_be_visible()
            assert await visitor.barriers() == [], path
            await page.locator("#theme").click()
            await page.set_viewport_size({"width": 375, "height": 800})
            if path in twice:
                assert await visitor.barriers() == [], f"{path} on a phone, in the other colours"
            shown = await page.evaluate("getComputedStyle(document.body).backgroundColor")
            found = background.match(shown)
            assert found is not None
            dark = await page.evaluate("document.documentElement.dataset.theme") == "dark"
            assert (int(found[1]) < 64) is dark
            wide = await page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 375, f"{path} is {wide} pixels wide on a phone"
            await page.set_viewport_size({"width": 1280, "height": 860})
    finally:
        await worker.stop()


@pytest.mark.long
@on_sqlite
async def test_by_keyboard(shop: Shop, visitor: Visitor) -> None:
    (id,) = await shop.fail(1)
    page = visitor.page
    await visitor.go("/jobs")
    await page.keyboard.press("Tab")
    await expect(page.get_by_text("Skip to the content")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()
    for _ in range(30):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.title") == id:
            break
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_contain_text("charge")
    await page.locator("#action-retry").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_be_visible()


@pytest.mark.long
@on_sqlite
async def test_a_violation_of_the_policy_would_be_noticed(shop: Shop, visitor: Visitor) -> None:
    image = "<img src='data:,' onerror='hacked = 1'>"
    await visitor.page.evaluate(
        "(html) => (document.querySelector('main').innerHTML = html)", image
    )
    while not visitor.complaints:
        await asyncio.sleep(0.01)
    assert "Content Security Policy" in visitor.complaints[0]
    await visitor.page.close()
    visitor.complaints.clear()


@pytest.mark.long
@on_sqlite
async def test_dark_is_remembered_and_the_system_is_asked_first(
    shop: Shop, visitor: Visitor
) -> None:
    page = visitor.page

    async def is_dark() -> bool:
        colour: str = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        return int(colour.removeprefix("rgb(").partition(",")[0]) < 64

    assert not await is_dark()
    await page.emulate_media(color_scheme="dark")
    assert await is_dark()
    await page.locator("#theme").click()
    assert not await is_dark()
    await visitor.go("/jobs")
    assert not await is_dark()
    await page.locator("#theme").click()
    await visitor.go("/queues")
    assert await is_dark()


@on_sqlite
async def test_a_session_that_has_ended_leads_to_the_login(shop: Shop, visitor: Visitor) -> None:
    await shop.app.start(shop.greet.request("ada"))
    page = visitor.page
    await visitor.go("/queues")
    await page.context.clear_cookies()
    await page.wait_for_url("**/login?next=%2Fqueues")  # once a part of the page is asked for
    visitor.complaints = [each for each in visitor.complaints if "401" not in each]


@pytest.mark.long
@on_sqlite
async def test_a_link_of_another_site_finds_the_session(shop: Shop, visitor: Visitor) -> None:
    """Its cookie is not sent with the first request, which must not lead to another login."""
    page = visitor.page
    link = f"<a href='{visitor.site}/jobs?q=state:failed'>jobs</a>"
    await page.route(
        "http://chat.example/", lambda route: route.fulfill(body=link, content_type="text/html")
    )
    await page.goto("http://chat.example/")
    await page.get_by_text("jobs").click()
    await expect(page.locator("h1")).to_have_text("Jobs")
    await expect(page.locator("#q")).to_have_value("state:failed")
