"""Sentry, with its real SDK in a real worker process, and a server that takes the envelopes."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway import Fixed, Headway
from headway.domain.events import WorkerStarted
from headway.errors import InvalidOption
from headway.observers.sentry import SentryObserver
from tests.support.processes import PATIENCE, free_port
from tests.support.receiver import Received, Receiver

CARD = "4929-PAYLOAD-MARK"
SHOP = """
    import os

    import sentry_sdk

    from headway import Fixed, Headway
    from headway.observers.sentry import SentryObserver

    asked = os.environ["ASKED"] == "True"
    sentry_sdk.set_tag("shop", "north")
    sentry_sdk.init(
        dsn=os.environ["DSN"],
        default_integrations=not asked,
        auto_enabling_integrations=False,  # else it imports all that is installed here
    )
    observer = SentryObserver(failures=asked, local_variables=asked)
    app = Headway(os.environ["STORE"], observers=[observer])


    class Refused(Exception): ...


    def pay(card: str) -> None:
        raise Refused("no money")


    @app.job(queue="money", max_attempts=2, retry=Fixed(0))
    async def charge(card: str) -> None:
        sentry_sdk.set_tag("card", card)  # for all jobs, since they share the SDK's scope
        try:
            pay(card)
        except Refused as error:
            raise ValueError("not charged") from error


    @app.job(max_attempts=1, isolate=True)
    def ship(card: str) -> None:
        pay(card)
"""


class SentryShop:
    """Its jobs fail, in a worker process that reports to a server here."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "shop.py").write_text(textwrap.dedent(SHOP))
        self._url = f"sqlite:///{folder}/shop.db"
        self.app = Headway(self._url)

        @self.app.job(queue="money", max_attempts=2, retry=Fixed(0))
        async def charge(card: str) -> None: ...

        @self.app.job(max_attempts=1)
        async def ship(card: str) -> None: ...

        self.charge, self.ship = charge, ship

    def start(self, request: Any) -> str:
        return self.app.sync.start(request).id

    def work(self, port: int, *, asked: bool = False) -> str:
        """Run a worker until no job is due; its log."""
        environment = {"DSN": f"http://key@127.0.0.1:{port}/7", "STORE": self._url}
        done = subprocess.run(
            [sys.executable, "-m", "headway", "worker", "shop.py", "--drain"],
            cwd=self._folder,
            env={**os.environ, **environment, "ASKED": str(asked)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "raised" not in done.stderr
        assert "could not be reported" not in done.stderr
        return done.stderr


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[SentryShop]:
    shop = SentryShop(tmp_path)
    yield shop
    shop.app.sync.close()


def reports(received: list[Received]) -> list[dict[str, Any]]:
    """The events of the envelopes, which have a line for each header and each item."""
    found: list[dict[str, Any]] = []
    for request in received:
        assert request.path == "/api/7/envelope/"
        _, *lines = request.body.decode().splitlines()
        items = zip(lines[::2], lines[1::2], strict=True)
        found += [json.loads(item) for head, item in items if json.loads(head)["type"] == "event"]
    return found


def frames(report: dict[str, Any], number: int) -> list[tuple[str, str]]:
    shown = report["exception"]["values"][number]["stacktrace"]["frames"]
    return [(Path(frame["abs_path"]).name, frame["function"]) for frame in shown]


def test_dead_letters_are_reported_with_frames_and_without_payloads(shop: SentryShop) -> None:
    charged, shipped = shop.start(shop.charge.request(CARD)), shop.start(shop.ship.request(CARD))
    with Receiver() as sentry:
        shop.work(sentry.port)
        assert not any(CARD in request.body.decode() for request in sentry.received)
        found = {report["tags"]["job_id"]: report for report in reports(sentry.received)}
        assert len(reports(sentry.received)) == 2, "the log's lines about them are not reported"
    report = found[charged]
    assert (report["level"], report["transaction"]) == ("error", "charge")
    cause, error = report["exception"]["values"]
    assert (cause["type"], cause["value"]) == ("Refused", "no money")
    assert (error["type"], error["value"]) == ("ValueError", "not charged")
    assert error["mechanism"] == {"type": "headway", "handled": False} | error["mechanism"]
    assert frames(report, 0) == [("shop.py", "charge"), ("shop.py", "pay")]
    assert frames(report, 1) == [("shop.py", "charge")], "it begins in the user's code"
    facts = {"job_id": charged, "sequence_id": charged, "job_type": "charge", "queue": "money"}
    tags = {**facts, "attempt": "2", "outcome": "dead_lettered", "shop": "north"}
    assert report["tags"] == tags, "those of the program, and not those of other jobs"
    group = shop.app.sync.get(charged).fingerprint
    assert report["fingerprint"] == ["headway", group], "as the dashboard groups failures"
    context = {**facts, "attempt": 2, "fingerprint": group, "retry_in": None}
    assert report["contexts"]["job"] == context
    isolated = found[shipped]
    (error,) = isolated["exception"]["values"]
    assert (error["type"], error["value"]) == ("Refused", "no money")
    assert frames(isolated, 0)[-2:] == [("shop.py", "ship"), ("shop.py", "pay")]
    assert "raise Refused" in error["stacktrace"]["frames"][-1]["context_line"]


def test_every_failure_and_its_variables_if_asked_and_all_before_the_end(shop: SentryShop) -> None:
    """The SDK's own flush at exit is off, and the server slow."""
    charged = shop.start(shop.charge.request(CARD))
    with Receiver(seconds=0.3) as sentry:
        shop.work(sentry.port, asked=True)
        first, last = reports(sentry.received)
    assert (first["level"], first["tags"]["attempt"]) == ("warning", "1")
    assert first["contexts"]["job"]["retry_in"] == 0.0
    assert first["exception"]["values"][-1]["mechanism"]["handled"] is True
    assert (last["level"], last["tags"]["attempt"]) == ("error", "2")
    assert first["fingerprint"] == last["fingerprint"]
    assert {first["tags"]["job_id"], last["tags"]["job_id"]} == {charged}
    (variables,) = (
        frame["vars"] for frame in last["exception"]["values"][1]["stacktrace"]["frames"]
    )
    assert variables["card"] == f"'{CARD}'"


@pytest.mark.long
def test_a_storm_is_sampled_and_a_server_that_is_not_there_harms_no_job(shop: SentryShop) -> None:
    started = shop.app.sync.start_many([shop.charge.request(CARD) for _ in range(100)])
    log = shop.work(free_port())
    assert {shop.app.sync.get(job).state for job in started} == {"failed"}
    assert "failures were not reported to Sentry: too many" in log


def test_without_init_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    SentryObserver().observe(WorkerStarted("w", ("default",), ("charge",), 1))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "sentry_sdk.init was not called" in record.message


def test_a_limit_that_cannot_be() -> None:
    with pytest.raises(InvalidOption, match="per_second is 1 or more"):
        SentryObserver(per_second=0)
