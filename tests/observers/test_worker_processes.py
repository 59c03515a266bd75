"""What a real worker shows: JSON logs, metrics over HTTP, health, and the loop that is blocked."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headway import After
from tests.support.shop_processes import APP, PATIENCE, ROOT, Shop, get

SHOP = ROOT / "tests" / "support" / "shop_app.py"
CARD, PASSWORD = "4929-PAYLOAD-MARK", "pass-word-mark"
"""What must never be logged."""


@contextmanager
def opened(dsn: str) -> Iterator[Shop]:
    shop = Shop(dsn, HEADWAY_LOG_FORMAT="json")
    asyncio.run(shop.app.store.migrate())
    yield shop
    shop.close()


@pytest.fixture
def sqlite_shop(sqlite_path: Path) -> Iterator[Shop]:
    with opened(f"sqlite:///{sqlite_path}") as shop:
        yield shop


@pytest.fixture
def postgres_shop(postgres_url: str) -> Iterator[Shop]:
    """Reached by a user with a password."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"create role publisher superuser login password '{PASSWORD}'")
    with opened(postgres_url.replace("postgres@", f"publisher:{PASSWORD}@", 1)) as shop:
        yield shop
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("drop owned by publisher cascade")
        connection.execute("drop role publisher")


def line_of(code: str) -> int:
    lines = SHOP.read_text().splitlines()
    (found,) = (number for number, line in enumerate(lines, 1) if code in line)
    return found


def test_json_logs_name_the_job_and_hold_no_secrets(postgres_shop: Shop) -> None:
    shop = postgres_shop
    charged = shop.start(shop.charge.request(5, CARD))
    refused = shop.start(shop.refuse.request(CARD))
    in_thread = shop.start(shop.thread.request())
    in_process = shop.start(shop.process.request())
    worker = shop.worker("--drain", "-v")
    assert worker.process.wait(PATIENCE) == 0
    worker.hears('"WorkerStopped"')
    said = worker.said()
    lines = {line["message"]: line for line in said if line["logger"] == "shop"}
    for message, id, type, queue in (
        ("charging", charged, "charge", "money"),
        ("in a thread", in_thread, "thread", "default"),
        ("in a process", in_process, "process", "default"),
    ):
        line = lines[message]
        assert (line["job_id"], line["sequence_id"], line["job_type"]) == (id, id, type)
        assert (line["queue"], line["attempt"], line["level"]) == (queue, 1, "info")
        assert str(worker.process.pid) in line["worker"]
    first, second = (line for line in said if line.get("event") == "AttemptFailed")
    assert (first["job_id"], first["attempt"], second["attempt"]) == (refused, 1, 2)
    assert (first["error_type"], first["error"]) == ("ValueError", "refused")
    traceback = first["traceback"].splitlines()
    assert traceback[1] == f'  File "{SHOP}", line {line_of("raise ValueError")}, in refuse'
    assert traceback[-1] == "ValueError: refused"
    (dead,) = (line for line in said if line.get("event") == "JobDeadLettered")
    assert (dead["level"], dead["job_id"], dead["attempt"]) == ("error", refused, 2)
    assert dead["traceback"] == first["traceback"]
    text = "".join(worker.lines)
    assert CARD not in text
    assert PASSWORD not in text


def test_a_database_that_goes_away_is_reported_without_its_password(postgres_shop: Shop) -> None:
    shop = postgres_shop
    worker = shop.worker("-v")
    worker.hears('"WorkerStarted"')
    with psycopg.connect(shop.environment["SHOP_DSN"], autocommit=True) as connection:
        connection.execute("alter schema headway rename to elsewhere")
        worker.hears('"StoreFailed"')
        connection.execute("alter schema elsewhere rename to headway")
    worker.hears('"WorkerRecovered"')
    assert worker.stop() == 0
    assert PASSWORD not in "".join(worker.lines)


def samples(page: str) -> dict[tuple[str, ...], float]:
    """By name, and the values of the labels in the order of their names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


@pytest.mark.parametrize("store", ["sqlite_shop", "postgres_shop"])
def test_metrics_over_http(store: str, request: pytest.FixtureRequest) -> None:
    shop: Shop = request.getfixturevalue(store)
    charged = [shop.start(shop.charge.request(5, CARD)) for _ in range(3)]
    shop.start(shop.refuse.request(CARD))
    shop.start(shop.charge.request(5, CARD), schedule=After(hours=1))
    waiting = shop.start(shop.unknown.request(), queue="lost")
    shop.app.sync.pause("lost")
    worker = shop.worker("--http", "127.0.0.1:0")
    url = worker.url()
    worker.hears('"JobDeadLettered"')
    for id in charged:
        shop.app.sync.sequence(id).result(timeout=PATIENCE)
    # The log's line may be there before the same event has reached the counters.
    deadline = time.monotonic() + PATIENCE
    failures = ("headway_attempts_failed_total", "default", "refuse")
    while True:
        status, page = get(f"{url}/metrics")
        assert status == 200
        found = samples(page)
        if found.get(failures, 0) >= 2 or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    assert found["headway_attempts_started_total", "money", "charge"] == 3
    assert found[failures] == 2
    assert found["headway_jobs_completed_total", "money", "charge"] == 3
    assert found["headway_jobs_dead_lettered_total", "default", "refuse"] == 1
    assert found["headway_sequences_failed_total", "default", "refuse"] == 1
    for name in ("wait", "run", "job", "sequence"):
        assert found[f"headway_{name}_seconds_count", "money", "charge"] == 3
        assert found[f"headway_{name}_seconds_bucket", "+Inf", "money", "charge"] == 3
    assert found["headway_worker_running", "charge"] == 0
    assert found["headway_worker_idle", "charge"] == 50
    assert found["headway_store_up",] == 1
    assert found["headway_jobs", "money", "scheduled", "charge"] == 1
    assert found["headway_jobs", "default", "failed", "refuse"] == 1
    assert found["headway_jobs", "lost", "pending", "unknown"] == 1
    assert 0 < found["headway_oldest_waiting_seconds", "lost", "unknown"] < 2 * PATIENCE
    assert 0 < found["headway_completed_per_second", "money"] <= 3
    assert found["headway_queue_paused", "lost"] == 1
    assert found["headway_workers",] == 1
    assert found["headway_observer_errors_total",] == 0
    assert found["process_resident_memory_bytes",] > 0
    assert CARD not in page
    assert waiting not in page
    assert get(f"{url}/readyz") == (200, "ok\n")
    assert get(f"{url}/livez") == (200, "ok\n")
    assert get(f"{url}/else")[0] == 404
    health = shop.run("health", APP, "--worker")
    assert (health.returncode, health.stdout[-9:]) == (0, " is well\n"), health.stderr
    assert worker.stop() == 0
    gone = shop.run("health", APP, "--worker")
    assert (gone.returncode, "no worker on" in gone.stderr) == (1, True)
    assert shop.run("health", APP).returncode == 0


def test_a_blocked_loop_is_named_and_the_endpoint_answers_meanwhile(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    worker = shop.worker("--http", "127.0.0.1:0")
    url = worker.url()
    job = shop.start(shop.block_loop.request(2.0))
    line = json.loads(worker.hears('"LoopBlocked"'))
    place = f"{SHOP}:{line_of('time.sleep(seconds)  # noqa')} in block_loop"
    assert (line["where"], line["job_id"], line["job_type"]) == (place, job, "block_loop")
    assert line["level"] == "warning"
    assert f"at {place}" in line["message"]
    assert get(f"{url}/livez") == (200, "ok\n")
    assert shop.app.sync.get(job).state == "running", "it was blocked while it answered"
    assert json.loads(worker.hears('"LoopResumed"'))["seconds"] == pytest.approx(2.0, abs=1.0)
    found = samples(get(f"{url}/metrics")[1])
    assert found["headway_loop_blocked_total", "block_loop", place] == 1
    assert found["headway_loop_blocked_seconds_total", "block_loop", place] > 1.9
    assert worker.stop() == 0


def test_health_of_a_store(sqlite_shop: Shop, postgres_url: str) -> None:
    missing = sqlite_shop.run("health", postgres_url)
    assert missing.returncode == 4
    assert "headway migrate up" in missing.stderr
    away = sqlite_shop.run("health", f"postgresql://me:{PASSWORD}@127.0.0.1:1/shop")
    assert away.returncode == 4
    assert "cannot reach" in away.stderr
    assert PASSWORD not in away.stderr + away.stdout


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("nowhere", "--http takes HOST:PORT"),
        ("127.0.0.1:99999", "--http takes HOST:PORT"),
        ("203.0.113.1:9464", "cannot serve on 203.0.113.1:9464"),
    ],
)
def test_an_address_that_cannot_be_had(sqlite_shop: Shop, option: str, sentence: str) -> None:
    done = sqlite_shop.run("worker", APP, "--http", option)
    assert done.returncode in (1, 2)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_format_that_does_not_exist(sqlite_shop: Shop) -> None:
    sqlite_shop.environment["HEADWAY_LOG_FORMAT"] = "yaml"
    done = sqlite_shop.run("worker", APP, "--drain")
    assert (done.returncode, "text or json" in done.stderr) == (2, True)
