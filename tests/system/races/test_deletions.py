"""A sequence is deleted while a job that is to wait for it is being created, on PostgreSQL. Between
any two statements of the one, the other is done by another connection: afterwards no job is stored
whose blocker is gone."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

from headway.admin import transfer
from headway.client import changes
from headway.domain.job import JobRecord, JobState, NewJob
from headway.domain.orders import PruneRule
from headway.domain.queries import JobFilter
from headway.errors import JobNotFound, SequencesNeeded
from headway.jobs.ids import new_id
from headway.ports.statement import Operation
from headway.stores.postgres import PostgresStore
from tests.support.stores import opened
from tests.system.races.between import Others, interrupted

Deletion = Callable[[PostgresStore, str], Operation[Any]]


def by_root(store: PostgresStore, id: str) -> Operation[Any]:
    with suppress(SequencesNeeded):
        yield from changes.delete_sequences(store, [id], False)


def with_dependents(store: PostgresStore, id: str) -> Operation[Any]:
    yield from changes.delete_sequences(store, [id], True)


def removing(store: PostgresStore, id: str) -> Operation[Any]:
    yield from store.delete_ended([id])


def pruning(store: PostgresStore, id: str) -> Operation[Any]:
    for state in (JobState.COMPLETED, JobState.CANCELLED):
        yield from store.prune(PruneRule(state=state, older_than=0.0), 10)


def moving_out(store: PostgresStore, id: str) -> Operation[Any]:
    with suppress(transfer._Unsettled):
        jobs = yield from transfer._gather(store.transfer, [id], transfer._RUNNING)
        yield from transfer._move_out(store.transfer, new_id(), jobs)


DELETIONS = (by_root, with_dependents, removing, pruning, moving_out)


class House:
    """A store, and a connection whose transactions are ours."""

    def __init__(self, store: PostgresStore, url: str) -> None:
        self.store = store
        self.ours = psycopg.connect(url)
        self.others = Others(url)

    def close(self) -> None:
        self.ours.close()
        self.others.close()

    def blocker(self, *, completed: bool) -> str:
        """A sequence of one job that has ended."""
        job = NewJob(id=new_id(), type="blocker", input="{}")
        self.store.run_sync(self.store.insert, [job])
        if completed:
            self.store.run_sync(self.store.complete_without_lease, job.id, "7", None)
        else:
            self.store.run_sync(self.store.cancel, [job.id])
        return job.id

    def jobs(self) -> dict[str, JobRecord]:
        page = self.store.run_sync(self.store.find, JobFilter(), limit=500)
        return {job.id: job for job in page.jobs}

    def interrupt(self, operation: Operation[Any], place: int, beside: Callable[[], None]) -> bool:
        """Run the operation with something else before its statement number `place`; whether it
        has that many."""
        found = self.store.run_in_sync(self.ours, interrupted, operation, place, beside)
        self.ours.commit()
        self.others.end()
        self.check()
        return found

    def check(self) -> None:
        """Nobody waits, or waited, for what is not there; and sequences are whole."""
        jobs = self.jobs()
        for job in jobs.values():
            assert job.sequence_id in jobs, f"{job.id} is left of its sequence"
            assert jobs.keys() >= set(job.blockers), f"{job.id} is {job.state} without its blocker"


async def at_every_place(try_at: Callable[[int], bool]) -> None:
    await asyncio.to_thread(lambda: all(map(try_at, itertools.count())))


@pytest.fixture
async def house(postgres_url: str) -> AsyncIterator[House]:
    async with opened(PostgresStore(postgres_url)) as store:
        house = House(store, postgres_url)
        yield house
        house.close()


@pytest.mark.parametrize("completed", [True, False], ids=["completed", "cancelled"])
@pytest.mark.parametrize("deletion", DELETIONS)
async def test_a_job_starts_between_any_two_statements_of_a_deletion(
    house: House, deletion: Deletion, completed: bool
) -> None:
    def try_at(place: int) -> bool:
        store, blocker = house.store, house.blocker(completed=completed)
        waiting = NewJob(id=new_id(), type="waiting", input="{}", blockers=(blocker,))

        def start() -> None:
            with suppress(JobNotFound):
                store.run_sync(store.insert, [waiting])

        return house.interrupt(deletion(store, blocker), place, lambda: house.others.act(start))

    await at_every_place(try_at)


@pytest.mark.long
@pytest.mark.parametrize("completed", [True, False], ids=["completed", "cancelled"])
@pytest.mark.parametrize("deletion", DELETIONS)
async def test_a_deletion_between_any_two_statements_of_a_start(
    house: House, deletion: Deletion, completed: bool
) -> None:
    def try_at(place: int) -> bool:
        store, blocker = house.store, house.blocker(completed=completed)
        waiting = NewJob(id=new_id(), type="waiting", input="{}", blockers=(blocker,))

        def delete() -> None:
            store.run_sync(deletion, store, blocker)

        try:
            return house.interrupt(store.insert([waiting]), place, lambda: house.others.act(delete))
        except JobNotFound:
            assert blocker not in house.jobs()
            house.ours.rollback()
            house.others.end()
            house.check()
            return True

    await at_every_place(try_at)


@pytest.mark.parametrize("deletion", DELETIONS)
async def test_a_tree_grows_between_any_two_statements_of_its_deletion(
    house: House, deletion: Deletion
) -> None:
    """By a job that another one waits for: both are deleted, or none."""

    def try_at(place: int) -> bool:
        store, root = house.store, house.blocker(completed=True)
        child = NewJob(id=new_id(), type="child", input="{}", root_id=root, origin_id=root)
        waiting = NewJob(id=new_id(), type="waiting", input="{}", blockers=(child.id,))

        def grow() -> None:
            store.run_sync(store.insert, [child])
            store.run_sync(store.insert, [waiting])

        return house.interrupt(deletion(store, root), place, grow)

    await at_every_place(try_at)


@pytest.mark.parametrize("deletion", DELETIONS)
async def test_a_sequence_goes_on_between_any_two_statements_of_its_deletion(
    house: House, deletion: Deletion
) -> None:
    def try_at(place: int) -> bool:
        store, first = house.store, house.blocker(completed=False)
        following = NewJob(
            id=new_id(), type="t", input="{}", sequence_id=first, root_id=first, position=1
        )

        def go_on() -> Operation[None]:
            yield from store.current([first], lock=True)
            yield from store.retry([first])
            yield from store.complete_without_lease(first, None, following)

        def beside() -> None:
            house.others.act(lambda: store.run_sync(go_on))

        return house.interrupt(deletion(store, first), place, beside)

    await at_every_place(try_at)


@pytest.mark.parametrize("completed", [True, False], ids=["completed", "cancelled"])
@pytest.mark.parametrize("deletion", [by_root, removing, pruning])
async def test_a_deletion_with_an_old_snapshot_is_refused(
    house: House, deletion: Deletion, completed: bool
) -> None:
    """Under REPEATABLE READ it would not see who waits by now."""
    store, blocker = house.store, house.blocker(completed=completed)
    house.ours.set_isolation_level(IsolationLevel.REPEATABLE_READ)
    assert blocker in await asyncio.to_thread(house.jobs)
    house.ours.execute("select count(*) from headway.job").fetchone()
    waiting = NewJob(id=new_id(), type="waiting", input="{}", blockers=(blocker,))
    await store.run(store.insert, [waiting])
    with pytest.raises(psycopg.errors.SerializationFailure):
        await asyncio.to_thread(store.run_in_sync, house.ours, deletion, store, blocker)
    house.ours.rollback()
    house.check()
