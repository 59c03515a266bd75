"""Lengths of time and moments that no store could keep are refused before anything is written."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from headway import After, At, Backoff, Dedup, Fixed, Headway, Job
from headway.domain.events import AttemptFailed
from headway.domain.request import Options
from headway.domain.validation import LATEST, LONGEST
from headway.errors import InvalidOption
from headway.worker.settings import Retention, WorkerSettings
from tests.support.worker_harness import WorkerHarness

EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))

REFUSED: dict[str, Callable[[], object]] = {
    "after: days": lambda: After(days=3_000_000),
    "after: more days than there are": lambda: After(days=1e12),
    "after: nan": lambda: After(seconds=math.nan),
    "after: inf": lambda: After(hours=math.inf),
    "after: text": lambda: After(seconds="5"),  # type: ignore[arg-type]
    "after: a number": lambda: After(5),  # type: ignore[arg-type]
    "after: a long delay": lambda: After(timedelta.max, days=1),
    "at: naive": lambda: At(datetime(2030, 1, 1)),  # noqa: DTZ001
    "at: late": lambda: At(datetime.max.replace(tzinfo=UTC)),
    "at: late in the west": lambda: At(datetime.max.replace(tzinfo=WEST)),
    "at: early in the east": lambda: At(datetime.min.replace(tzinfo=EAST)),
    "at: text": lambda: At("2030-01-01"),  # type: ignore[arg-type]
    "dedup: window": lambda: Dedup("k", window=timedelta.max),
    "dedup: no window": lambda: Dedup("k", window=timedelta()),
    "dedup: a number": lambda: Dedup("k", window=60),  # type: ignore[arg-type]
    "timeout: long": lambda: Options(timeout=LONGEST + 1),
    "timeout: nan": lambda: Options(timeout=math.nan),
    "timeout: inf": lambda: Options(timeout=math.inf),
    "fixed: inf": lambda: Fixed(math.inf),
    "fixed: nan": lambda: Fixed(math.nan),
    "fixed: negative": lambda: Fixed(-1),
    "fixed: text": lambda: Fixed("1"),  # type: ignore[arg-type]
    "backoff: base": lambda: Backoff(base=math.nan),
    "backoff: cap": lambda: Backoff(cap=math.inf),
    "retention": lambda: Retention(completed=timedelta.max),
    "retention: a number": lambda: Retention(failed=60),  # type: ignore[arg-type]
    "lease": lambda: WorkerSettings(lease_for=1e12),
    "polling": lambda: WorkerSettings(poll_every=math.nan),
    "heartbeat": lambda: WorkerSettings(heartbeat_every=math.nan),
    "grace": lambda: WorkerSettings(grace=math.inf),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_store_could_keep_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        REFUSED[name]()
    assert "\n" not in str(refused.value)


def test_the_furthest_is_allowed() -> None:
    assert After(seconds=LONGEST).seconds == LONGEST
    assert At(LATEST).moment == LATEST
    assert At(LATEST.astimezone(EAST)) == At(LATEST)
    assert After(seconds=-5).seconds == 0
    assert Dedup("k", window=timedelta(seconds=LONGEST)).window is not None


async def test_nothing_is_written_for_a_refused_delay() -> None:
    app = Headway("memory://")

    @app.job
    async def work() -> None: ...

    async with app:
        with pytest.raises(InvalidOption, match="100 years"):
            await app.start(work.request(), schedule=After(days=3_000_000))
        with pytest.raises(InvalidOption, match="between the years 1900 and 9000"):
            app.sync.start(work.request(), schedule=At(datetime.max.replace(tzinfo=UTC)))
        with pytest.raises(InvalidOption, match="100 years"):
            await app.actions("me").start("work", "{}", delay=1e12)
        for timeout in (math.nan, -1.0, "5"):
            with pytest.raises(InvalidOption, match="a timeout"):
                await app.wait(await app.start(work.request()), timeout=timeout)  # type: ignore[arg-type]
            with pytest.raises(InvalidOption, match="a timeout"):
                app.sync.wait(app.sync.start(work.request()), timeout=timeout)  # type: ignore[arg-type]
    app.sync.close()


async def test_a_handler_that_reschedules_itself_too_far_fails(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=1)
    async def far(job: Job) -> None:
        job.reschedule(After(days=3_000_000))

    @harness.job(max_attempts=1)
    def far_in_a_thread(job: Job) -> None:
        job.reschedule(After(seconds=math.inf))

    for job_id in await harness.start(far.request(), far_in_a_thread.request()):
        await harness.drain()
        (attempt,) = await harness.attempts(job_id)
        assert "100 years" in attempt.failure.message


class Nonsense:
    """A retry policy."""

    def __init__(self, delay: Any) -> None:
        self._delay = delay

    def delay(self, attempts: int) -> Any:
        if isinstance(self._delay, Exception):
            raise self._delay
        return self._delay


@pytest.mark.parametrize(
    "delay", [1e12, math.nan, math.inf, -1.0, "soon", None, True, RuntimeError("broken")], ids=repr
)
async def test_nonsense_from_a_retry_policy_is_noted_and_the_default_is_used(
    harness: WorkerHarness, delay: Any
) -> None:
    @harness.job(retry=Nonsense(delay), max_attempts=2)
    async def work() -> None:
        raise ValueError("no such order")

    (job_id,) = await harness.start(work.request())
    await harness.drain()
    failed = await harness.event(AttemptFailed)
    assert 0 <= (failed.retry_in or 0.0) <= 2.0
    (attempt,) = await harness.attempts(job_id)
    message = attempt.failure.message
    assert message.startswith(
        "no such order (Nonsense gave no retry delay, so the default was used: "
    )
    assert (await harness.get(job_id)).attempts == 1
