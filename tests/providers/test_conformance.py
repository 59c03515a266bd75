"""Every kind of connection, one test: it runs the cases that are there for anyone's provider."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headway import Headway
from headway.testing.conformance.provider import ProviderFixture, Subject, cases_for
from tests.providers.connections import ON_POSTGRES, ON_SQLITE, make_subject


@pytest.fixture(params=[*ON_POSTGRES, *ON_SQLITE])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    return make_subject(request.param, request, tmp_path)


HOUR = 3600.0


def test_conforms(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = cases_for(subject)
    assert len(cases) >= 10
    with ProviderFixture(subject) as fixture:
        for case in cases:
            try:
                case.function(fixture)
            except BaseException as error:
                error.add_note(f"in the case {case.name}")
                raise
        monkeypatch.setattr("headway.worker.claims.claim_timing.SHORTEST_POLL", HOUR)
        wakes_a_worker(fixture)


def wakes_a_worker(fixture: ProviderFixture) -> None:
    """Polls are an hour apart: only the commit can have woken it."""
    elsewhere = Headway(fixture.subject.url)
    ready, begun = threading.Event(), threading.Event()

    @elsewhere.job(name="woken", queue="woken")
    async def woken(event: str) -> None:
        (ready if event == "ready" else begun).set()

    worker = elsewhere.worker(poll_every=HOUR, maintain_every=HOUR)

    async def open_and_work() -> None:
        await elsewhere.open()
        await worker.start()
        await elsewhere.start(woken.request("ready"))

    async def stop() -> None:
        await worker.stop()
        await elsewhere.close()

    fixture.wait_for(open_and_work())
    try:
        assert ready.wait(10)
        with fixture.transaction() as tx:
            fixture.start(woken.request("begun"), tx)
            assert not begun.is_set()
        assert begun.wait(10), "the commit woke no worker"
    finally:
        fixture.wait_for(stop())
