"""Alerts by HTTP, with real workers and a real server that is slow, refuses, fails or goes away."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from msgspec import structs

from headway import Headway
from headway.domain.events import JobDeadLettered, ScheduleSkipped
from headway.domain.job import JobState
from headway.domain.queries import Tally
from headway.errors import Failure, InvalidOption
from headway.observers import webhook
from headway.observers.alerts import BacklogRules, QueueWaiting
from headway.observers.store_gauges import PermitGauge, StoreGauges
from headway.observers.webhook import MOST_GROUPS, WebhookAlerts
from tests.support.observed_app import ObservedApp
from tests.support.processes import free_port
from tests.support.receiver import PATIENCE, Received, Receiver
from tests.support.shop_processes import WorkerProcess

SECRET = "only-we-know"
CARD = "4929-PAYLOAD-MARK"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alerts are sent at once, and again soon."""
    monkeypatch.setattr(webhook, "GATHER", 0.0)
    monkeypatch.setattr(webhook, "FIRST_PAUSE", 0.01)


class Lines(logging.Handler):
    """The lines of the log, as they are written."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: SimpleQueue[str] = SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.put(record.getMessage())

    def next(self) -> str:
        return self._lines.get(timeout=PATIENCE)


@pytest.fixture
def lines() -> Iterator[Lines]:
    lines = Lines()
    logger = logging.getLogger("headway")
    logger.addHandler(lines)
    yield lines
    logger.removeHandler(lines)


def dead_letter(number: int = 1, type: str = "charge") -> JobDeadLettered:
    return JobDeadLettered(str(number), type, "money", str(number), Failure("Error", "no"), 3)


def alerts(received: Sequence[Received]) -> list[dict[str, Any]]:
    return [alert for request in received for alert in request.json["alerts"]]


def ids(received: Sequence[Received]) -> list[str]:
    return [request.json["id"] for request in received]


async def test_dead_letters_come_together_and_signed(receiver: Receiver) -> None:
    observer = WebhookAlerts(receiver.url, secret=SECRET)
    app = Headway("memory://", observers=[observer])

    @app.job(queue="money", max_attempts=1)
    async def charge(card: str) -> None:
        raise ValueError("no <money> for <!channel>\nand more")

    @app.job(max_attempts=1)
    async def ship(card: str) -> None:
        raise ValueError("no ship")

    async with app:
        started = await app.start_many([charge.request(CARD) for _ in range(30)])
        shipped = await app.start(ship.request(CARD))
        await app.worker().run(drain=True)
    (request,) = receiver.received
    assert request.path == "/hooks/its-secret"
    assert CARD not in request.body.decode()
    stamp, _, signed = request.headers["Headway-Signature"].partition(",v1=")
    expected = hmac.digest(
        SECRET.encode(), stamp.removeprefix("t=").encode() + b"." + request.body, "sha256"
    )
    assert signed == expected.hex()
    assert request.headers["Content-Type"] == "application/json"
    found = {alert["key"]: alert for alert in request.json["alerts"]}
    money = found["dead_letters:money:charge"]
    assert (money["kind"], money["status"], money["ended_at"]) == ("dead_letters", "firing", None)
    assert (money["type"], money["queue"], money["count"]) == ("charge", "money", 30)
    error = "ValueError: no <money> for <!channel>"
    assert len(money["jobs"]) == 10
    assert {job["job_id"] for job in money["jobs"]} <= {each.id for each in started}
    assert {(job["attempt"], job["error"]) for job in money["jobs"]} == {(1, error)}
    other = found["dead_letters:default:ship"]
    assert [job["job_id"] for job in other["jobs"]] == [shipped.id]
    first, second = sorted(request.json["text"].splitlines())
    assert first.startswith("charge in queue money: 30 dead letters, first ")
    assert first.endswith("no &lt;money&gt; for &lt;!channel&gt;"), "nobody is called by an error"
    assert second.startswith(f"ship in queue default: a dead letter, first {shipped.id}: ")
    assert (observer.dropped, app.observers.errors) == (0, 0)


def test_missed_ticks_come_together_unless_a_later_one_was_fired(receiver: Receiver) -> None:
    observer = WebhookAlerts(receiver.url)
    tick = datetime(2030, 1, 1, 2, 30, tzinfo=UTC)
    for number in range(30):
        name = f"tenant-{number}"
        observer.observe(ScheduleSkipped(name, "sync", "slow", tick, "missed", 2, replaced=False))
        observer.observe(ScheduleSkipped(name, "tidy", "slow", tick, "missed", 2, replaced=True))
        observer.observe(ScheduleSkipped(name, "sync", "slow", tick, "overlap", 1, replaced=False))
    observer.app_closing(PATIENCE)
    (alert,) = alerts(receiver.received)
    assert (alert["kind"], alert["key"]) == ("ticks_missed", "ticks_missed:slow:sync")
    assert (alert["type"], alert["queue"], alert["count"]) == ("sync", "slow", 60)
    assert len(alert["schedules"]) == 10
    assert alert["schedules"][0] == {
        "schedule": "tenant-0",
        "tick": "2030-01-01T02:30:00Z",
        "count": 2,
    }
    assert alert["text"] == (
        "sync in queue slow: 60 ticks were missed, first by schedule tenant-0: "
        "2030-01-01T02:30:00+00:00"
    )


def test_a_burst_is_one_message_and_the_next_one_waits(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "GATHER", 0.0)
    observer = WebhookAlerts(receiver.url, every=3600.0)
    observer.observe(dead_letter())
    receiver.until(lambda received: len(received) == 1)
    for number in range(100):
        observer.observe(dead_letter(number))
    observer.app_closing(10.0)
    assert [alert["count"] for alert in alerts(receiver.received)] == [1, 100]


@pytest.mark.usefixtures("hasty")
def test_a_server_that_fails_at_first(caplog: pytest.LogCaptureFixture) -> None:
    with Receiver(500, 429, 503) as receiver:
        observer = WebhookAlerts(receiver.url)
        with caplog.at_level(logging.INFO, "headway"):
            observer.observe(dead_letter())
            receiver.until(lambda received: len(received) == 4)
            observer.app_closing(10.0)
    assert len(set(ids(receiver.received))) == 1, "the receiver can tell that it is the same"
    assert observer.dropped == 0
    said = [record.message for record in caplog.records]
    assert said == [
        f"alerts do not reach http://127.0.0.1:{receiver.port}, trying again: HTTP 500",
        f"alerts reach http://127.0.0.1:{receiver.port} again",
    ], "without the secret part of the address"


def test_the_end_does_not_wait_for_the_next_try(
    monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    monkeypatch.setattr(webhook, "GATHER", 0.0)
    monkeypatch.setattr(webhook, "FIRST_PAUSE", 600.0)
    monkeypatch.setattr(webhook, "LONGEST_PAUSE", 600.0)
    with Receiver(500, 500) as receiver:
        observer = WebhookAlerts(receiver.url)
        observer.observe(dead_letter())
        assert "trying again" in lines.next()
        observer.app_closing(10.0)
    assert len(set(ids(receiver.received))) == 1
    assert (len(receiver.received), observer.dropped) == (3, 0)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("status", [302, 404])
def test_an_answer_that_no_other_try_can_change(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with Receiver(status) as receiver:
        observer = WebhookAlerts(receiver.url)
        observer.observe(dead_letter())
        receiver.until(lambda received: len(received) == 1)
        observer.app_closing(10.0)
    assert len(receiver.received) == 1
    assert observer.dropped == 1
    assert f"HTTP {status}" in caplog.text
    assert "its-secret" not in caplog.text


@pytest.mark.usefixtures("hasty")
def test_a_server_that_was_away(lines: Lines) -> None:
    port = free_port()
    observer = WebhookAlerts(f"http://127.0.0.1:{port}/hook")
    observer.observe(dead_letter())
    assert "do not reach" in lines.next()
    with Receiver(port=port) as receiver:
        receiver.until(lambda received: len(received) == 1)
        observer.app_closing(10.0)
    assert observer.dropped == 0


@pytest.mark.usefixtures("hasty")
def test_what_cannot_be_delivered_is_dropped_counted_and_logged(
    monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    monkeypatch.setattr(webhook, "GIVE_UP_AFTER", 0.0)
    observer = WebhookAlerts(f"http://127.0.0.1:{free_port()}/hook")
    observer.observe(dead_letter())
    assert "1 alert was dropped" in lines.next()
    assert observer.dropped == 1
    observer.app_closing(10.0)


def test_types_without_end_are_bounded(receiver: Receiver) -> None:
    observer = WebhookAlerts(receiver.url)
    for number in range(MOST_GROUPS + 5):
        observer.observe(dead_letter(number, f"type{number}"))
    observer.app_closing(10.0)
    assert len(alerts(receiver.received)) == MOST_GROUPS
    assert observer.dropped == 5
    assert len(receiver.received[0].json["text"].splitlines()) == 21


@pytest.mark.usefixtures("hasty")
def test_text_that_json_cannot_hold_and_text_without_end(receiver: Receiver) -> None:
    observer = WebhookAlerts(receiver.url)
    odd = Failure("Error", "half a pair: \ud800\n" + "x" * 10_000)
    observer.observe(JobDeadLettered("1", "charge", "money", "1", odd, 3))
    long = Failure("Error", "x" * 10_000)
    observer.observe(JobDeadLettered("2", "charge", "money", "2", long, 3))
    observer.app_closing(10.0)
    errors = {job["error"] for alert in alerts(receiver.received) for job in alert["jobs"]}
    assert errors == {"Error: half a pair: ?", f"Error: {'x' * 293}…"}


@pytest.mark.usefixtures("hasty")
def test_an_error_of_the_thread_does_not_end_it(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    observer = WebhookAlerts(receiver.url, every=0.01)
    with monkeypatch.context() as broken:
        broken.setattr(webhook, "message_text", None)
        observer.observe(dead_letter(1))
        assert "were lost" in lines.next()
    observer.observe(dead_letter(2))
    receiver.until(lambda received: len(received) == 1)
    observer.app_closing(10.0)


@pytest.mark.usefixtures("hasty")
async def test_an_alert_that_was_refused_is_told_again_while_it_goes_on() -> None:
    observed = ObservedApp("memory://")
    with Receiver(403) as receiver:
        async with observed.app as app:
            await app.start(observed.write.request("dear"))  # no worker runs its type
            app.observers.add(WebhookAlerts(receiver.url, unattended_wait=0.05, every=0.1))
            await asyncio.to_thread(receiver.until, lambda received: len(received) == 2)
    first, again = alerts(receiver.received)[:2]
    assert first["key"] == again["key"]
    assert first["status"] == again["status"] == "firing"


async def test_a_server_that_never_answers_holds_up_neither_jobs_nor_the_end(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headway.after_commit.observer_group.LAST_WAIT", 0.3)
    monkeypatch.setattr(webhook, "GATHER", 0.0)
    receiver.answering.clear()
    observed = ObservedApp("memory://", [WebhookAlerts(receiver.url)])
    began = asyncio.get_running_loop().time()
    async with observed.app as app:
        failed = await app.start(observed.fail.request())
        async with observed.working():
            await asyncio.to_thread(receiver.until, lambda received: len(received) == 1)
            written = await app.start(observed.write.request("dear"))
            assert await written.result(timeout=30) == "DEAR", "while the server keeps the alert"
        assert (await app.get(failed)).state == "failed"
    assert asyncio.get_running_loop().time() - began < webhook.TIMEOUT
    assert "the last alerts may not have reached" in caplog.text
    assert app.observers.errors == 0


async def test_what_waits_is_told_and_its_end(observed: ObservedApp, receiver: Receiver) -> None:
    """Every store: a paused queue, and a type that no worker runs."""
    observer = WebhookAlerts(receiver.url, oldest_wait=0.05, unattended_wait=0.05, every=0.1)
    app = observed.app
    app.observers.add(observer)  # to an app that is open
    stranger = Headway(app.store, notifier="none")

    @stranger.job(queue="lost")
    async def unknown() -> None: ...

    def told(status: str, *keys: str) -> Any:
        def done(received: list[Received]) -> bool:
            found = {alert["key"] for alert in alerts(received) if alert["status"] == status}
            return found >= set(keys)

        return asyncio.to_thread(receiver.until, done)

    letter, lost = "queue_waiting:letters", "type_unattended:unknown"
    async with observed.working():
        await app.pause("letters")
        await app.start(observed.write.request("dear"))
        nobody = await stranger.start(unknown.request())
        await told("firing", letter, lost)
        await app.resume("letters")
        await app.delete_sequences(nobody.id)
        await told("resolved", letter, lost)
    await app.observers.app_closing()
    found = alerts(receiver.received)
    assert Counter(alert["status"] for alert in found if alert["key"] in (letter, lost)) == {
        "firing": 2,
        "resolved": 2,
    }
    firing, resolved = (alert for alert in found if alert["key"] == letter)
    assert firing == {
        "kind": "queue_waiting",
        "key": letter,
        "status": "firing",
        "text": firing["text"],
        "began_at": firing["began_at"],
        "ended_at": None,
        "queue": "letters",
        "seconds": firing["seconds"],
        "limit": 0.05,
        "paused": True,
        "held": False,
        "permits": None,
    }
    assert firing["text"].endswith(", the queue is paused")
    assert resolved["began_at"] == firing["began_at"] < resolved["ended_at"]
    assert resolved["text"].startswith("resolved: ")
    assert next(alert["type"] for alert in found if alert["key"] == lost) == "unknown"


SHOP = """
    import os

    from headway import Headway, Unrecoverable
    from headway.observers.webhook import WebhookAlerts

    alerts = WebhookAlerts(os.environ["ALERTS"], oldest_wait=0.05, every=0.1)
    app = Headway(os.environ["STORE"], observers=[alerts])


    @app.job
    async def charge(card: str) -> None:
        raise Unrecoverable("no money")
"""


@pytest.mark.parametrize(
    ("process", "options", "looks"),
    [
        ("1", {}, True),
        ("2", {}, False),
        ("1", {"oldest_wait": None, "unattended_wait": None}, False),
    ],
)
async def test_one_process_looks(
    process: str,
    options: dict[str, Any],
    looks: bool,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADWAY_PROCESS", process)
    async with Headway("memory://", observers=[WebhookAlerts(receiver.url, **options)]):
        assert any(each.name == "headway-alerts" for each in threading.enumerate()) is looks


def test_real_worker_processes(tmp_path: Path, receiver: Receiver) -> None:
    """Each dead letter is told once, by the process in which the job failed."""
    (tmp_path / "shop.py").write_text(textwrap.dedent(SHOP))
    url = f"sqlite:///{tmp_path}/shop.db"
    app = Headway(url)

    @app.job
    async def charge(card: str) -> None: ...

    with app.sync as client:
        client.pause("default")
        started = {client.start(charge.request(CARD)).id for _ in range(5)}
        worker = WorkerProcess(
            subprocess.Popen(
                [sys.executable, "-m", "headway", "worker", "shop.py", "--processes", "2"],
                cwd=tmp_path,
                env={**os.environ, "STORE": url, "ALERTS": receiver.url},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        try:
            waiting = "queue_waiting:default"
            receiver.until(lambda received: has(received, waiting, "firing"))
            client.resume("default")
            receiver.until(lambda received: has(received, waiting, "resolved"))
            assert worker.stop() == 0
        finally:
            worker.process.kill()
            worker.process.wait()
            worker.join()
            assert worker.process.stderr is not None
            worker.process.stderr.close()
    found = alerts(receiver.received)
    assert [alert["status"] for alert in found if alert["key"] == waiting] == ["firing", "resolved"]
    dead = [alert for alert in found if alert["kind"] == "dead_letters"]
    assert sum(alert["count"] for alert in dead) == 5
    assert {job["job_id"] for alert in dead for job in alert["jobs"]} == started


def has(received: Sequence[Received], key: str, status: str) -> bool:
    return any((alert["key"], alert["status"]) == (key, status) for alert in alerts(received))


NOW = datetime(2030, 1, 1, tzinfo=UTC)


def gauges(waits: dict[tuple[str, str], float], *attended: str, at: datetime = NOW) -> StoreGauges:
    """A look at a store in which the oldest jobs, by type and queue, have waited so long."""
    return StoreGauges(
        at=at,
        tallies=[
            Tally(
                queue=queue,
                type=type,
                state=JobState.PENDING,
                due=True,
                count=1,
                exact=True,
                oldest=at - timedelta(seconds=seconds),
            )
            for (type, queue), seconds in waits.items()
        ],
        per_second={},
        paused=frozenset(),
        workers=1,
        attended=frozenset(attended),
    )


def test_an_alert_says_that_all_permits_are_used_or_that_the_queue_is_held() -> None:
    rules = BacklogRules(300.0, {}, None)
    waits = {("send", queue): 400.0 for queue in ("full", "free", "held")}
    found = rules.compare(
        structs.replace(
            gauges(waits, "send"),
            held=frozenset({"held"}),
            permits={"full": PermitGauge(4, 4), "free": PermitGauge(3, 4)},
        )
    )
    said = {alert.queue: alert for alert in found if isinstance(alert, QueueWaiting)}
    waited = "the oldest job has waited 6 m 40 s"
    assert {queue: alert.text for queue, alert in said.items()} == {
        "full": f"queue full: {waited}, all 4 permits are used",
        "free": f"queue free: {waited}",
        "held": f"queue held: {waited}, the queue is held",
    }
    assert [said[queue].permits for queue in ("full", "free", "held")] == [4, None, None]
    assert [said[queue].held for queue in ("full", "free", "held")] == [False, False, True]


def test_an_alert_ends_well_below_its_limit_and_has_one_cause() -> None:
    rules = BacklogRules(300.0, {"slow": 3600.0}, 60.0)

    def changes(seconds: float, *attended: str) -> list[tuple[str, str]]:
        found = rules.compare(gauges({("send", "mail"): seconds, ("sum", "slow"): 900}, *attended))
        return [(alert.key, alert.status) for alert in found]

    mail, send = "queue_waiting:mail", "type_unattended:send"
    assert changes(59, "sum") == []
    assert changes(400, "sum") == [(send, "firing")], "the queue waits because of that"
    assert changes(1, "send", "sum") == [(send, "resolved")]
    assert changes(299, "send", "sum") == []
    assert changes(301, "send", "sum") == [(mail, "firing")]
    assert changes(299, "send", "sum") == [], "it does not end and begin all the time"
    assert changes(301, "send", "sum") == []
    assert changes(149, "send", "sum") == [(mail, "resolved")]


def test_workers_that_restart_and_workers_that_are_gone() -> None:
    rules = BacklogRules(300.0, {}, 60.0)
    now = NOW

    def changes(seconds: float, waited: float, *attended: str) -> list[tuple[str, str]]:
        nonlocal now
        now += timedelta(seconds=seconds)
        found = rules.compare(gauges({("send", "mail"): waited}, *attended, at=now))
        return [(alert.key, alert.status) for alert in found]

    mail, send = "queue_waiting:mail", "type_unattended:send"
    assert changes(0, 200, "send") == []
    assert changes(50, 250) == [], "the job is old, but a worker was there a moment ago"
    assert changes(50, 300, "send") == [(mail, "firing")]
    assert changes(50, 350) == []
    assert changes(50, 400) == [(send, "firing")], "the queue still waits"
    assert changes(50, 450, "send") == [(send, "resolved")]
    assert changes(50, 10, "send") == [(mail, "resolved")]


@pytest.mark.parametrize(
    ("url", "options", "sentence"),
    [
        ("ftp://example.com/its-secret", {}, "begins with https://"),
        ("https:///its-secret", {}, "names a host"),
        ("https://[::1/its-secret", {}, "names a host"),
        ("https://example.com:x/its-secret", {}, "names a host"),
        ("https://example.com/its secret", {}, "only printable ASCII"),
        ("https://example.com/its\nsecret", {}, "only printable ASCII"),
        ("https://example.com/its-sécret", {}, "only printable ASCII"),
        ("https://me:pw@example.com/its-secret", {}, "no user and password"),
        ("https://example.com/", {"oldest_wait": 0}, "above 0"),
        ("https://example.com/", {"every": float("nan")}, "above 0"),
    ],
)
def test_what_cannot_be(url: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidOption, match=sentence) as raised:
        WebhookAlerts(url, **options)
    assert "secret" not in str(raised.value)
    assert "sécret" not in str(raised.value)
    assert "pw" not in str(raised.value)
