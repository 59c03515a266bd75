"""save_progress and progress: only the holder of a job can report its progress."""

from __future__ import annotations

from headway.domain.job import JobState
from headway.domain.orders import ProgressReport, PruneRule
from headway.domain.settlement import Retry
from headway.domain.views import Progress
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, LEASE, StoreCases, at

case = StoreCases("progress")


@case
async def what_a_holder_says_is_kept(store: Store) -> None:
    job, other = await kit.running(store), await kit.running(store)
    silent = await kit.add(store)
    reports = [
        ProgressReport(job.id, job.lease.token, 0.25, "resizing"),
        ProgressReport(other.id, other.lease.token, 1.0, ""),
    ]
    await store.run(store.save_progress, reports, now=at(1))
    assert await store.run(
        store.progress, [other.id, silent, kit.new_id(), "nonsense", job.id]
    ) == [
        Progress(fraction=1.0, note="", at=at(1)),
        None,
        None,
        None,
        Progress(fraction=0.25, note="resizing", at=at(1)),
    ]
    assert await store.run(store.progress, []) == []
    await store.run(store.save_progress, [], now=at(1))


@case
async def the_newest_report_wins(store: Store) -> None:
    job = await kit.running(store)
    for second, fraction in ((3, 0.3), (5, 0.5), (4, 0.4)):
        said = ProgressReport(job.id, job.lease.token, fraction, str(second))
        await store.run(store.save_progress, [said], now=at(second))
    assert await store.run(store.progress, [job.id]) == [Progress(fraction=0.5, note="5", at=at(5))]


@case
async def who_does_not_hold_the_job_is_not_heard(store: Store) -> None:
    job = await kit.running(store)
    waiting = await kit.add(store)
    reports = [
        ProgressReport(job.id, kit.new_token(), 0.5, "not mine"),
        ProgressReport(waiting, kit.new_token(), 0.5, "not running"),
        ProgressReport(kit.new_id(), kit.new_token(), 0.5, "not there"),
    ]
    await store.run(store.save_progress, reports, now=at(1))
    late = ProgressReport(job.id, job.lease.token, 0.5, "late")
    await store.run(store.save_progress, [late], now=at(LEASE))
    assert await store.run(store.progress, [job.id, waiting]) == [None, None]
    await kit.complete(store, job)
    await store.run(store.save_progress, [late], now=at(2))
    assert await store.run(store.progress, [job.id]) == [None]


@case
async def a_report_changes_nothing_else(store: Store) -> None:
    job = await kit.running(store)
    before = await kit.snapshot(store)
    said = ProgressReport(job.id, job.lease.token, 0.5, "half")
    await store.run(store.save_progress, [said], now=at(1))
    assert await kit.snapshot(store) == before


@case
async def the_next_holder_goes_on_from_there(store: Store) -> None:
    job = await kit.running(store)
    said = ProgressReport(job.id, job.lease.token, 0.5, "half")
    await store.run(store.save_progress, [said], now=at(1))
    await kit.apply(store, Retry(job.id, job.lease.token, 0.0, ERROR), now=at(2))
    again = await kit.claim_one(store, job.queue, now=at(3))
    await store.run(store.save_progress, [said], now=at(4))
    assert await store.run(store.progress, [job.id]) == [
        Progress(fraction=0.5, note="half", at=at(1))
    ]
    more = ProgressReport(job.id, again.lease.token, 0.1, "again")
    await store.run(store.save_progress, [more], now=at(4))
    assert await store.run(store.progress, [job.id]) == [
        Progress(fraction=0.1, note="again", at=at(4))
    ]


async def reported(store: Store) -> str:
    """A completed job that said something."""
    job = await kit.running(store)
    said = ProgressReport(job.id, job.lease.token, 0.5, "half")
    await store.run(store.save_progress, [said], now=at(0.5))
    await kit.complete(store, job)
    assert (await kit.read(store, job.id)).state is JobState.COMPLETED
    return job.id


@case
async def a_report_goes_with_its_job(store: Store) -> None:
    deleted, pruned, removed = [await reported(store) for _ in range(3)]
    await store.run(store.delete_jobs, [deleted])
    await store.run(store.delete_ended, [removed])
    await store.run(store.prune, PruneRule(state=JobState.COMPLETED, older_than=1), 10, now=at(60))
    ids = [deleted, pruned, removed]
    assert await store.run(store.get, ids) == [None] * 3
    await kit.insert(store, *[kit.new_job(id=id) for id in ids])
    assert await store.run(store.progress, ids) == [None] * 3
