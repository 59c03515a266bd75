"""save_worker, workers and delete_workers: the records of workers."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.domain.queries import WorkerRecord
from headway.ports.store import Store
from headway.testing.conformance.store.kit import MICROSECOND, T0, StoreCases, at

case = StoreCases("workers")


def worker(**fields: Any) -> WorkerRecord:
    """A worker's description of itself; its times are the store's to set."""
    given: dict[str, Any] = {
        "id": "host:1",
        "host": "host",
        "pid": 1,
        "queues": ("a", "b"),
        "types": ("x", "y.z"),
        "concurrency": 10,
        "running": 0,
        "started_at": at(-1e6),
        "seen_at": at(-1e6),
    }
    return WorkerRecord(**given | fields)


@case
async def a_worker_is_seen_when_it_beats(store: Store) -> None:
    assert await store.run(store.workers) == []
    await store.run(store.save_worker, worker(), now=T0)
    expected = msgspec.structs.replace(worker(), started_at=T0, seen_at=T0)
    assert await store.run(store.workers) == [expected]


@case
async def a_worker_is_described_as_it_was_last(store: Store) -> None:
    await store.run(store.save_worker, worker(), now=T0)
    await store.run(store.save_worker, worker(running=7, queues=("c",), types=()), now=at(9))
    (seen,) = await store.run(store.workers)
    assert (seen.running, seen.queues, seen.types) == (7, ("c",), ())
    assert (seen.started_at, seen.seen_at) == (T0, at(9))


@case
async def a_worker_says_which_schedules_it_declares(store: Store) -> None:
    declared = {"nightly": "1f0c", "a.b $c": "", "Bericht “täglich”": "77aa"}
    for id, schedules in (("all", declared), ("empty", {}), ("none", None)):
        await store.run(store.save_worker, worker(id=id, schedules=schedules), now=T0)
    seen = {each.id: each.schedules for each in await store.run(store.workers)}
    assert seen == {"all": declared, "empty": {}, "none": None}
    await store.run(store.save_worker, worker(id="all"), now=at(1))
    await store.run(store.save_worker, worker(id="none", schedules=declared), now=at(1))
    seen = {each.id: each.schedules for each in await store.run(store.workers)}
    assert seen == {"all": None, "empty": {}, "none": declared}


@case
async def workers_are_listed_side_by_side(store: Store) -> None:
    for number in range(3):
        await store.run(store.save_worker, worker(id=f"host:{number}", pid=number), now=at(number))
    seen = await store.run(store.workers)
    assert {(each.id, each.pid, each.seen_at) for each in seen} == {
        (f"host:{number}", number, at(number)) for number in range(3)
    }


@case
async def a_worker_can_be_forgotten_by_name(store: Store) -> None:
    for name in ("a", "b", "c"):
        await store.run(store.save_worker, worker(id=name), now=T0)
    assert await store.run(store.delete_workers, ["b", "nobody"], now=at(1)) == 1
    assert sorted(each.id for each in await store.run(store.workers)) == ["a", "c"]
    assert await store.run(store.delete_workers, ["b"], now=at(1)) == 0


@case
async def workers_not_seen_for_long_are_forgotten(store: Store) -> None:
    await store.run(store.save_worker, worker(id="old"), now=T0)
    await store.run(store.save_worker, worker(id="new"), now=at(60))
    await store.run(store.save_worker, worker(id="named"), now=at(60))
    gone = await store.run(
        store.delete_workers, ["named"], unseen_for=60.0, now=at(60) + MICROSECOND
    )
    assert gone == 2
    assert [each.id for each in await store.run(store.workers)] == ["new"]


@case
async def workers_seen_recently_are_kept(store: Store) -> None:
    await store.run(store.save_worker, worker(), now=T0)
    gone = await store.run(store.delete_workers, unseen_for=60.0, now=at(60) - MICROSECOND)
    assert gone == 0
    assert len(await store.run(store.workers)) == 1


@case
async def forgetting_nobody_is_fine(store: Store) -> None:
    await store.run(store.save_worker, worker(), now=T0)
    assert await store.run(store.delete_workers, now=at(1e6)) == 0
    assert len(await store.run(store.workers)) == 1


@case
async def a_forgotten_worker_starts_anew(store: Store) -> None:
    await store.run(store.save_worker, worker(), now=T0)
    await store.run(store.delete_workers, ["host:1"], now=at(1))
    await store.run(store.save_worker, worker(), now=at(5))
    (seen,) = await store.run(store.workers)
    assert (seen.started_at, seen.seen_at) == (at(5), at(5))
