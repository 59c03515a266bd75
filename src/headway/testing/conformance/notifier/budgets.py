"""Budgets: N jobs wake about N idle workers, and no worker is left out for good."""

from __future__ import annotations

from headway.ports.notifications import JobsScheduled
from headway.ports.notifier import Notifier, Reach
from headway.testing.conformance.notifier import kit
from headway.testing.conformance.notifier.kit import Make, NotifierCases

case = NotifierCases("budgets", kit.reaching(Reach.PROCESS))


class _Worker:
    """Idle until it hears of a job; then busy, like a worker with a single slot."""

    def __init__(self, *, idle: bool = True) -> None:
        self.heard = kit.RecordingListener()
        self._idle = idle

    async def join(self, notifier: Notifier) -> None:
        await notifier.subscribe(self.heard, kit.interest_in(), idle=self._is_idle)

    def _is_idle(self) -> bool:
        return self._idle and not self.heard.notifications


async def _workers(notifiers: list[Notifier]) -> list[_Worker]:
    workers: list[_Worker] = []
    for notifier in notifiers:
        worker = _Worker()
        await worker.join(notifier)
        workers.append(worker)
    return workers


def _woken(workers: list[_Worker]) -> int:
    return sum(bool(worker.heard.notifications) for worker in workers)


def _scheduled(count: int) -> JobsScheduled:
    return JobsScheduled("mail", "send", count)


async def _wakes(make: Make, counts: list[int], *, apart: bool = False) -> int:
    """How many of five idle workers wake, together on one notifier or each on its own."""
    async with kit.opened(make, 6 if apart else 2) as (one, *others):
        workers = await _workers(others if apart else others * 5)
        for count in counts:
            await one.publish([_scheduled(count)])
            await kit.silence()
        return _woken(workers)


@case
async def one_job_wakes_one(make: Make) -> None:
    assert await _wakes(make, [1]) == 1


@case
async def three_jobs_wake_three(make: Make) -> None:
    assert await _wakes(make, [3]) == 3


@case
async def counts_add_up(make: Make) -> None:
    assert await _wakes(make, [1, 2]) == 3


@case
async def more_jobs_than_workers_wake_all(make: Make) -> None:
    assert await _wakes(make, [100]) == 5


@case
async def an_unknown_number_of_jobs_wakes_all(make: Make) -> None:
    assert await _wakes(make, [0]) == 5


@case
async def jobs_published_in_one_go_wake_as_many(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        workers = await _workers([other] * 5)
        for _ in range(4):
            one.publish_soon([_scheduled(1)])
        await kit.silence()
        assert _woken(workers) == 4


@case
async def the_busy_are_told_but_take_nothing(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        busy, idle = _Worker(idle=False), _Worker()
        await busy.join(other)
        await idle.join(other)
        await one.publish([_scheduled(1)])
        await idle.heard.until_count(1)
        await busy.heard.until_count(1)


@case
async def an_onlooker_takes_nothing(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        onlooker, idle = kit.RecordingListener(), _Worker()
        await other.subscribe(onlooker)
        await idle.join(other)
        await one.publish([_scheduled(1)])
        await idle.heard.until_count(1)
        await onlooker.until_count(1)


@case
async def the_idle_take_turns(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        workers = [kit.RecordingListener() for _ in range(3)]
        for worker in workers:
            await other.subscribe(worker, kit.interest_in())
        for _ in range(3):
            await one.publish([_scheduled(1)])
            await kit.silence()
        assert [len(worker.notifications) for worker in workers] == [1, 1, 1]


@case
async def one_whose_answer_raises_counts_as_idle(make: Make) -> None:
    def broken() -> bool:
        raise ValueError("no")

    async with kit.opened(make) as (one, other):
        heard = kit.RecordingListener()
        await other.subscribe(heard, kit.interest_in(), idle=broken)
        await one.publish([_scheduled(1)])
        await heard.until_count(1)


@case.only(kit.reaching(Reach.EVERYONE, counting=True))
async def one_job_wakes_one_among_all_processes(make: Make) -> None:
    assert await _wakes(make, [1], apart=True) == 1


@case.only(kit.reaching(Reach.EVERYONE, counting=True))
async def three_jobs_wake_three_among_all_processes(make: Make) -> None:
    assert await _wakes(make, [2, 1], apart=True) == 3


@case.only(kit.reaching(Reach.EVERYONE, counting=False))
async def without_budgets_between_processes_each_may_look(make: Make) -> None:
    assert await _wakes(make, [1], apart=True) == 5


@case.only(kit.reaching(Reach.EVERYONE))
async def a_job_that_finds_a_worker_at_home_wakes_nobody_else(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        at_home, elsewhere = _Worker(), _Worker()
        await at_home.join(one)
        await elsewhere.join(other)
        await one.publish([_scheduled(1)])
        await at_home.heard.until_count(1)
        await kit.silence()
        assert not elsewhere.heard.notifications
        await one.publish([_scheduled(2)])
        await elsewhere.heard.until_count(1)
