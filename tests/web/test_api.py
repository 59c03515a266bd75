"""The admin API: every question and every lever, on every store, and what it says if it cannot."""

from __future__ import annotations

import asyncio
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from headway import After, Every, JobState, Rate
from headway.admin.endpoints import ENDPOINTS
from headway.admin.json_answers import decode_answer
from headway.domain.limits.limit_views import HoldRelease, LimitsChange
from headway.domain.limits.queue_limits import LimitsOverride, QueueLimits
from headway.domain.queries import Page
from headway.domain.schedules.schedule_views import ScheduleDetail, SchedulePage
from headway.domain.views import (
    Batch,
    JobDetail,
    Overview,
    QueueDetail,
    QueueSummary,
    Reason,
    SequenceGraph,
    ShownState,
)
from headway.limits.changes import hold
from headway.ports.admin import Actions, Questions
from headway.web import Open, dashboard_server
from tests.web.conftest import TOKEN
from tests.web.shop import Shop


async def get(client: httpx.AsyncClient, path: str, into: Any = object, **query: object) -> Any:
    answer = await client.get(f"/api/v1{path}", params=query)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    return decode_answer(answer.content, into)


async def post(client: httpx.AsyncClient, path: str, into: Any = object, **body: object) -> Any:
    answer = await client.post(f"/api/v1{path}", json=body)
    assert answer.status_code < 300, answer.text
    return msgspec.json.decode(answer.content, type=into)


async def test_every_question(shop: Shop, client: httpx.AsyncClient) -> None:
    failed = await shop.fail(3)
    blocked = await shop.app.start(shop.ship.request(7).using(blockers=(shop.charge.request(7),)))
    await shop.app.start(shop.greet.request("ada"), schedule=After(minutes=5))
    overview = await get(client, "/overview", Overview, minutes=5)
    assert overview.states[ShownState.FAILED].value == 3
    assert overview.states[ShownState.SCHEDULED].value == 1
    assert {queue["name"] for queue in await get(client, "/queues")} >= {"default", "mail"}
    assert {"charge", "greet"} <= {type["name"] for type in await get(client, "/types")}
    first = await get(client, "/jobs", Page, q="state:failed", limit=2)
    then = await get(client, "/jobs", Page, q="state:failed", limit=2, cursor=first.cursor)
    assert [job.id for job in (*first.jobs, *then.jobs)] == sorted(failed, reverse=True)
    assert await get(client, "/jobs/count", q="type:charge args.order_id:1") == {
        "value": 1,
        "exact": True,
    }
    detail = await get(client, f"/jobs/{failed[0]}", JobDetail)
    assert detail.attempts[0].failure.type == "TimeoutError"
    assert detail.explanation.reason is Reason.FAILED
    why = await get(client, f"/jobs/{blocked.id}/why")
    assert why["reason"] == "blocked"
    assert len((await get(client, "/sequences"))["sequences"]) == 6
    graph = await get(client, f"/sequences/{blocked.id}/graph", SequenceGraph)
    assert {node.type for node in graph.nodes} == {"ship", "charge"}
    (group,) = await get(client, "/failures")
    assert (group["error"], group["count"]["value"]) == ("TimeoutError", 3)
    assert len(await get(client, "/workers")) >= 0
    assert await get(client, "/audit") == {"records": [], "cursor": None}
    assert (await get(client, "/check"))["incompatible"] == []


async def test_every_lever(shop: Shop, client: httpx.AsyncClient) -> None:
    ids = await shop.fail(3)
    batch = await post(client, "/jobs/act", Batch, action="retry", ids=ids[:1])
    assert (batch.changed, batch.passed_over) == (1, 0)
    batch = await post(client, "/jobs/act-on-all", Batch, action="retry", q="state:failed")
    assert batch.changed == 2
    started = await post(
        client, "/jobs", type="charge", input='{"order_id": 9}', delay=60, priority=3
    )
    job = await shop.app.get(started["id"])
    assert (job.state, job.priority) == (JobState.PENDING, 3)
    batch = await post(client, "/jobs/act", Batch, action="trigger", ids=[job.id])
    assert batch.changed == 1
    paused = {"queue": "mail", "paused": True, "warning": None}
    assert await post(client, "/queues/pause", queue="mail") == paused
    paused = await post(client, "/queues/pause", queue="mial")
    assert paused["warning"].endswith("uses queue mial; did you mean mail?")
    await post(client, "/queues/resume", queue="mail")
    batch = await post(client, "/jobs/act", Batch, action="cancel", ids=[job.id])
    assert batch.changed == 1
    batch = await post(client, "/jobs/act", Batch, action="delete", ids=[job.id])
    assert batch.changed == 1
    records = (await shop.app.questions.audit()).records
    assert {record.actor for record in records} == {"ada"}
    assert len(records) == 9


async def test_limits(shop: Shop, client: httpx.AsyncClient) -> None:
    rate = {"limit": 90, "per": 60, "burst": 10}
    changed = await post(
        client, "/queues/limit", LimitsChange, queue="mail", running=4, per_key=2, rate=rate
    )
    limits = QueueLimits(running=4, per_key=2, rate=Rate(90, per=60, burst=10))
    assert (changed.effective, changed.warning) == (limits, None)
    changed = await post(client, "/queues/limit", LimitsChange, queue="mail", per_key=None)
    override = LimitsOverride(running=4, per_key=None, rate=limits.rate)
    assert changed.override == override
    detail = await get(client, "/queues/detail", QueueDetail, name="mail")
    assert detail.queue.permits is not None
    assert (detail.queue.permits.override, detail.queue.permits.free) == (override, 4)
    (queue,) = await get(client, "/queues", list[QueueSummary])
    assert queue == detail.queue
    for body, code, sentence in (
        ({"running": 0}, "invalid_option", "to start nothing, pause the queue"),
        ({"running": 1.5}, "invalid_body", "Expected `int | null`, got `float`"),
        (
            {"rate": {"limit": 3, "per": 60, "burst": 4}},
            "invalid_body",
            "the burst of a rate is between 1 and its limit of 3, not 4",
        ),
        ({"rate": 3}, "invalid_body", "Expected `object | null`, got `int`"),
        ({"fair": True}, "invalid_body", "unknown field `fair`"),
        ({}, "invalid_option", "name a limit to change"),
    ):
        answer = await client.post("/api/v1/queues/limit", json={"queue": "mail", **body})
        said = answer.json()["error"]
        assert (answer.status_code, said["code"]) == (400, code), body
        assert sentence in said["message"]
    changed = await post(client, "/queues/clear-limits", LimitsChange, queue="mail")
    assert (changed.override, changed.effective) == (None, QueueLimits())
    store = shop.app.store
    await store.run(hold, store, "mail", None, After(minutes=5))
    released = await post(client, "/queues/release", HoldRelease, queue="mail")
    assert released.held_until is not None
    assert (await get(client, "/queues/detail", name="mail"))["queue"]["permits"] is None
    records = (await shop.app.questions.audit()).records
    assert [record.action for record in records] == [
        "release hold",
        "clear limits",
        "limit queue",
        "limit queue",
    ]


async def test_schedules(shop: Shop, client: httpx.AsyncClient) -> None:
    name = "a/../b:why"
    request = shop.greet.request("ada", password="hunter2")
    await shop.app.schedules.put(name, Every(hours=1), request)
    await shop.app.schedules.put("weekly", Every(days=7), shop.charge.request(7))
    page = await get(client, "/schedules", SchedulePage, limit=1)
    assert [each.name for each in page.schedules] == [name]
    page = await get(client, "/schedules", SchedulePage, limit=1, cursor=page.cursor)
    assert ([each.name for each in page.schedules], page.cursor) == (["weekly"], None)
    page = await get(client, "/schedules", SchedulePage, search="GREET", state="active")
    assert [each.name for each in page.schedules] == [name]
    shown = await get(client, "/schedules/detail", name=name)
    assert shown["job"]["input"] == {"name": "ada", "password": "[redacted]"}
    detail = await get(client, "/schedules/detail", ScheduleDetail, name=name)
    assert detail.schedule == page.schedules[0]
    assert (await get(client, "/schedules/why", name=name))["reason"] == "no_worker"
    assert (await post(client, "/schedules/pause", name=name))["after"] == "paused"
    assert (await post(client, "/schedules/resume", name=name))["after"] == "active"
    started = await post(client, "/schedules/trigger", name=name)
    assert (await shop.app.get(started["id"])).schedule == name
    since = (datetime.now(UTC) - timedelta(minutes=90)).isoformat()
    plan = await get(client, "/schedules/backfill", name=name, since=since)
    assert plan["ticks"] in (1, 2)
    done = await post(client, "/schedules/backfill", name=name, since=since, at_most=1)
    assert done == {"name": name, "started": 1, "existing": 0}
    assert (await post(client, "/schedules/delete", name=name))["after"] == "deleted"
    records = (await shop.app.questions.audit()).records
    assert [record.action for record in records] == [
        f"{verb} schedule" for verb in ("delete", "backfill", "trigger", "resume", "pause")
    ]
    assert {record.actor for record in records} == {"ada"}


async def test_short_ids_and_any_text(shop: Shop, client: httpx.AsyncClient) -> None:
    (failed,) = await shop.fail(1)
    short = failed[-8:]
    assert (await get(client, f"/jobs/{short}"))["job"]["id"] == failed
    assert (await get(client, f"/jobs/{short}/why"))["job_id"] == failed
    assert (await get(client, f"/sequences/{short}/graph"))["root_id"] == failed
    for text in (short, f"…{short}", failed, f"id:{short}", "bank", "CHARGE", "bank charge"):
        page = await get(client, "/jobs", Page, q=text)
        assert [job.id for job in page.jobs] == [failed], text
        shown = await client.get("/jobs", params={"q": text})
        assert f'href="/jobs/{failed}"' in shown.text, text
    for path in ("jobs", "sequences"):
        shown = await client.get(f"/{path}/{short}")
        assert (shown.status_code, shown.headers["location"]) == (303, f"/{path}/{failed}")
    batch = await post(client, "/jobs/act", Batch, action="retry", ids=[short])
    assert batch.changed == 1
    for begin in "78":
        id = f"01890a5d-ac96-774b-bcce-{begin}302099affff"
        await shop.app.start(shop.charge.request(1).using(id=id))
    answer = await client.get("/api/v1/jobs/ffff")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "ambiguous_id")
    assert answer.json()["error"]["message"].count("(charge, pending)") == 2


async def test_payloads_are_values(shop: Shop, client: httpx.AsyncClient) -> None:
    input = {"name": "ada", "password": "hunter2"}
    started = await post(client, "/jobs", type="greet", input=input)
    await shop.app.worker().run(drain=True)
    detail = await get(client, f"/jobs/{started['id']}")
    assert detail["job"]["input"] == {"name": "ada", "password": "[redacted]"}
    assert detail["job"]["output"] == "hello ada"
    assert (await get(client, "/jobs"))["jobs"] == [detail["job"]]
    assert (await shop.app.get(started["id"])).input == '{"name":"ada","password":"hunter2"}'
    (failed,) = await shop.fail(1)
    detail = await get(client, f"/jobs/{failed}")
    (attempt,) = detail["attempts"]
    assert attempt["error"] == detail["job"]["last_error"]
    assert attempt["error"]["type"] == "TimeoutError"
    assert "raise TimeoutError" in attempt["error"]["traceback"]


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)
async def test_what_cannot_be_is_said_in_one_shape(client: httpx.AsyncClient, shop: Shop) -> None:
    nowhere = "01890a5d-ac96-774b-bcce-b302099a8057"
    for method, path, status, code in (
        ("GET", f"/jobs/{nowhere}", 404, "job_not_found"),
        ("GET", "/jobs/seven", 400, "invalid_name"),
        ("GET", f"/sequences/{nowhere}/graph", 404, "job_not_found"),
        ("GET", "/jobs?q=colour:red", 400, "invalid_option"),
        ("GET", "/jobs?cursor=nonsense", 400, "invalid_option"),
        ("GET", "/jobs?limit=0", 400, "invalid_query"),
        ("GET", "/jobs?limit=many", 400, "invalid_query"),
        ("GET", "/jobs?colour=red", 400, "invalid_query"),
        ("GET", "/jobs?limit=1&limit=2", 400, "invalid_query"),
        ("GET", "/jobs?q=args.password:x", 403, "redacted"),
        ("GET", "/schedules/detail?name=nothing", 404, "schedule_not_found"),
        ("GET", "/schedules/why?name=no%20name", 400, "invalid_name"),
        ("GET", "/schedules/why", 400, "invalid_query"),
        ("GET", "/schedules?state=tired", 400, "invalid_query"),
        ("GET", "/schedules?cursor=%00", 400, "invalid_name"),
        ("GET", "/schedules/backfill?name=a&since=2026-01-01T00:00:00", 400, "invalid_query"),
        ("GET", "/nowhere", 404, "not_found"),
        ("DELETE", "/jobs", 405, "method_not_allowed"),
        ("POST", "/jobs/act", 415, "unsupported_media_type"),
        ("POST", "/jobs/act-on-all?cursor=x", 400, "invalid_query"),
    ):
        answer = await client.request(method, f"/api/v1{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), path
        assert answer.json()["error"]["message"]
        assert answer.headers["content-type"] == "application/json"
    for body in ({}, {"action": "explode", "ids": []}, {"action": "retry", "ids": [1]}, []):
        answer = await client.post("/api/v1/jobs/act", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_body")
    answer = await client.post("/api/v1/jobs", json={"type": "nothing", "input": "{}"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_job_type")


async def test_the_api_has_everything_that_the_contract_has() -> None:
    promised = {
        name
        for contract in (Questions, Actions)
        for name in vars(contract)
        if not name.startswith("_")
    }
    assert {endpoint.name for endpoint in ENDPOINTS} == promised


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)
async def test_payloads_are_redacted(client: httpx.AsyncClient, shop: Shop) -> None:
    sequence = await shop.app.start(shop.greet.request("ada", password="hunter2"))
    for path in ("/api/v1/jobs", f"/api/v1/jobs/{sequence.id}", f"/jobs/{sequence.id}"):
        answer = await client.get(path)
        assert "ada" in answer.text
        assert "[redacted]" in answer.text
        assert "hunter2" not in answer.text
    async with (
        dashboard_server(shop.app, auth=Open(), port=0, redact=["Na-me"]) as address,
        httpx.AsyncClient(base_url=address) as other,
    ):
        assert '"ada"' not in (await other.get(f"/api/v1/jobs/{sequence.id}")).text


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)
async def test_the_description_is_valid(client: httpx.AsyncClient, shop: Shop) -> None:
    document = await get(client, "/openapi.json")
    assert document["openapi"] == "3.1.0"
    described = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert described == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    text = msgspec.json.encode(document).decode()
    for name in ("JobDetail", "Overview", "Batch", "SequenceGraph"):
        assert f"#/components/schemas/{name}" in text


async def test_metrics_of_the_store(shop: Shop, client: httpx.AsyncClient) -> None:
    await shop.fail(2)
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    found = re.findall(r'headway_jobs\{.*state="failed".*\} (\S+)', answer.text)
    assert found == ["2.0"]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_fuzzing_finds_no_way_to_break_it(shop: Shop, site: str, tmp_path: Path) -> None:
    """In a process of its own: as a plugin it would take part in every other test."""
    await shop.fail(2)
    await shop.app.start(shop.greet.request("ada"))
    await shop.app.schedules.put("hourly", Every(hours=1), shop.greet.request("ada"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "schemathesis.cli", "run", f"{site}/api/v1/openapi.json",
        "--header", f"Authorization: Bearer {TOKEN}", "--max-examples", "10", "--seed", "7",
        "--phases", "coverage,fuzzing", "--generation-database", "none", "--max-time", "10",
        # Which filters, cursors and types there are cannot be described; who may ask is tested
        # elsewhere, and a wrong token costs time.
        "--exclude-checks", "positive_data_acceptance,ignored_auth",
        "--continue-on-failure", "--no-color",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=tmp_path,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
