"""Whatever is stored, in whichever field: pages show it as text, the API gives it back as it is."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import httpx
import pytest
from msgspec import structs

from headway import Cron, Every
from headway.domain.failure import encode_failure
from headway.domain.limits.queue_limits import (
    QueueLimits,
    StoredLimits,
    encode_held_keys,
    encode_limits,
)
from headway.domain.validation import LATEST
from headway.errors import Failure
from tests.web.conftest import Visitor
from tests.web.shop import Shop

pytestmark = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)

EVIL = (
    '<img src=x onerror="window.hacked=1">\'"</script><script>window.hacked=1</script>'
    "\x1b[31mred\x1b]8;;http://evil.example\x07\u202egnp.exe\u2066\u200f\u0085{{7*7}}"
)
LONG = EVIL + "A" * 2**20


@pytest.fixture
async def ids(shop: Shop, sqlite_path: Path) -> dict[str, str]:
    """Jobs in several states whose every text is hostile, written past all checks."""
    (failed,) = await shop.fail(1)
    sequence = await shop.app.start(shop.ship.request(7).using(blockers=(shop.charge.request(7),)))
    running = await shop.app.start(shop.greet.request("ada"))
    await shop.app.schedules.put("hourly", Every(hours=1), shop.charge.request(7))
    await shop.app.actions("x").pause("mail")
    record = await shop.app.schedules.get("hourly")
    job = structs.replace(record.definition.job, type=EVIL, queue=LONG, input=json.dumps(LONG))
    definition = structs.replace(record.definition, timetable=Cron.stored(EVIL, LONG), job=job)
    texts = {
        "evil": EVIL,
        "long": LONG,
        "input": json.dumps({"order_id": LONG, EVIL: EVIL}),
        "names": json.dumps([EVIL, LONG]),
        "schedules": json.dumps({EVIL: LONG}),
        "error": encode_failure(Failure(EVIL, LONG, LONG)),
        "running": running.id,
        "definition": definition.encode(),
        "limits": encode_limits(StoredLimits(declared=QueueLimits(fair=True, weights={EVIL: 2}))),
        "held": encode_held_keys({EVIL: LATEST, LONG: LATEST}),
    }
    with sqlite3.connect(sqlite_path) as db:
        for statement in (
            (
                "update headway_job set type = :evil, queue = :evil, sequence_type = :evil,"
                " worker = :long, dedup_key = :evil, trace = :long, input = :input,"
                " output = :input, last_error = :error, schedule = :evil, scheduled_for = 0,"
                " key = :evil"
            ),
            (
                "update headway_job set state = 'running', lease_token = :evil,"
                " lease_until = run_at, started_at = created_at where id = :running"
            ),
            "update headway_attempt set worker = :long, error = :error",
            "insert into headway_progress values (:running, 0.5, :long, 0)",
            "delete from headway_worker",
            (
                "insert into headway_worker values (:evil, :evil, 7, :names, :names, 1, 1, 0, 0,"
                " :schedules, :schedules)"
            ),
            "update headway_schedule set definition = :definition, declaration = :evil",
            (
                "insert into headway_schedule select :evil, definition, :evil, '[]', 0, 0, 0, 0, 0,"
                " :running, 0, 0, 0, 0, 0 from headway_schedule"
            ),
            "update headway_queue set name = :evil",
            (
                "insert into headway_queue (name, limits, limited, held_keys)"
                " values ('media', :limits, 1, :held)"
            ),
            (
                "update headway_audit set actor = :evil, action = :evil, target = :long,"
                " before = :long, after = :evil"
            ),
        ):
            db.execute(statement, texts)
    db.close()
    return {"failed": failed, "blocked": sequence.id, "running": running.id}


def pages(ids: dict[str, str]) -> list[str]:
    return [
        "/", "/overview/rest", "/jobs", "/sequences", "/failures", "/queues", "/types", "/workers",
        "/audit", "/schedules", "/schedules/hourly", "/queues/media",
        *(f"/jobs/{id}" for id in ids.values()),
        *(f"/sequences/{id}" for id in ids.values()),
    ]  # fmt: skip


async def test_pages_hold_no_more_than_text(
    shop: Shop, ids: dict[str, str], client: httpx.AsyncClient
) -> None:
    for path in pages(ids):
        answer = await client.get(path)
        assert answer.status_code == 200, path
        assert len(answer.content) < 600_000, path
        page = answer.text
        assert "<img" not in page, path
        assert 'onerror="' not in page, path
        assert "<script>" not in page, path
        assert not set("\x1b\x07\u0085\u200f\u202e\u2066") & set(page), path
    page = (await client.get("/jobs", params={"q": f'key:"{EVIL}'})).text
    assert "<img" not in page
    for query in (
        {"q": EVIL},
        {"state": EVIL},
        {"cursor": EVIL},
        {"did": "trigger", "started": EVIL},
    ):
        assert "<img" not in (await client.get("/schedules", params=query)).text
    for query in ({"since": EVIL}, {"since": "2026-01-01", "at_most": EVIL}):
        assert "<img" not in (await client.get("/schedules/hourly", params=query)).text
    page = (await client.get("/jobs", params={"did": EVIL, "changed": EVIL, "passed": "1"})).text
    assert "<img" not in page


async def test_the_api_gives_it_back_as_it_is(
    shop: Shop, ids: dict[str, str], client: httpx.AsyncClient
) -> None:
    for id in ids.values():
        answer = await client.get(f"/api/v1/jobs/{id}")
        assert answer.headers["content-type"] == "application/json"
        job = answer.json()["job"]
        assert (job["type"], job["queue"], job["worker"]) == (EVIL, EVIL, LONG)
        assert job["input"] == {"order_id": LONG, EVIL: EVIL}
        assert EVIL not in str(job["lease"])
    for path in ("/jobs", "/queues", "/types", "/workers", "/audit", "/failures", "/sequences"):
        assert (await client.get(f"/api/v1{path}")).status_code == 200
    page = (await client.get("/api/v1/schedules")).json()
    assert {each["name"] for each in page["schedules"]} == {EVIL, "hourly"}
    for each in page["schedules"]:
        assert (each["type"], each["queue"]) == (EVIL, LONG)
    answer = await client.get("/api/v1/schedules/detail", params={"name": "hourly"})
    assert (answer.json()["job"]["input"], answer.json()["next_ticks"]) == (LONG, [])


@pytest.mark.long
@pytest.mark.slow
async def test_a_browser_sees_nothing_but_text(
    shop: Shop, ids: dict[str, str], visitor: Visitor
) -> None:
    page = visitor.page
    for path in pages(ids):
        if path == "/overview/rest":
            continue  # a part of the first page
        await visitor.go(path)
        assert await page.evaluate("window.hacked") is None, path
        assert await page.locator("main img").count() == 0
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= 1280, f"{path} is {width} pixels wide"
