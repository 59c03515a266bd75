"""prune: deletes only sequences that the rule allows."""

from __future__ import annotations

from typing import Any

from headway.domain.job import JobState
from headway.domain.orders import PruneRule
from headway.domain.settlement import Fail, Retry
from headway.domain.validation import LONGEST
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, MICROSECOND, StoreCases, at

case = StoreCases("prune")

DAY = 86_400.0
LATER = at(2 * DAY)


def rule(state: JobState = JobState.COMPLETED, **fields: Any) -> PruneRule:
    given: dict[str, Any] = {"state": state, "older_than": DAY}
    return PruneRule(**given | fields)


async def ids(store: Store) -> set[str]:
    return {job.id for job in await kit.everything(store)}


ENDED = {str(s): s for s in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)}


@case.each(ENDED)
async def jobs_that_ended_long_ago_go(store: Store, state: JobState) -> None:
    await kit.in_state(store, state)
    assert await store.run(store.prune, rule(state), 10, now=LATER) == 1
    assert await kit.everything(store) == []


@case.each(ENDED)
async def jobs_that_ended_otherwise_stay(store: Store, state: JobState) -> None:
    for other in JobState:
        if other is not state:
            await kit.in_state(store, other)
    before = await kit.snapshot(store)
    assert await store.run(store.prune, rule(state), 100, now=LATER) == 0
    assert await kit.snapshot(store) == before


@case
async def retention_is_kept_to_the_microsecond(store: Store) -> None:
    await kit.in_state(store, JobState.COMPLETED)  # at T0 + 1 s
    early = at(1 + DAY) - MICROSECOND
    assert await store.run(store.prune, rule(), 10, now=early) == 0
    assert await store.run(store.prune, rule(), 10, now=at(1 + DAY) + MICROSECOND) == 1


@case
async def no_more_sequences_go_than_the_limit_oldest_first(store: Store) -> None:
    jobs = [await kit.running(store) for _ in range(5)]
    for number, job in enumerate(reversed(jobs)):
        await kit.complete(store, job, now=at(1 + number))
    assert await store.run(store.prune, rule(), 2, now=LATER) == 2
    assert await ids(store) == {job.id for job in jobs[:3]}
    assert await store.run(store.prune, rule(), 10, now=LATER) == 3
    assert await store.run(store.prune, rule(), 10, now=LATER) == 0


@case
async def a_sequence_goes_with_all_its_jobs_and_attempts(store: Store) -> None:
    first = await kit.running(store)
    await kit.apply(store, Retry(first.id, first.lease.token, 0.0, ERROR))
    first = await kit.claim_one(store, first.queue, now=at(2))
    following = kit.successor_of(first, queue="second")
    await kit.complete(store, first, successor=following, now=at(3))
    await kit.complete(store, await kit.claim_one(store, "second", now=at(4)), now=at(5))
    assert await store.run(store.prune, rule(), 1, now=LATER) == 2
    assert await kit.everything(store) == []
    assert await kit.attempts_of(store, first.id) == []


@case
async def a_sequence_that_goes_on_stays_whole(store: Store) -> None:
    first = await kit.running(store)
    await kit.complete(store, first, successor=kit.successor_of(first))
    before = await kit.snapshot(store)
    assert await store.run(store.prune, rule(), 10, now=LATER) == 0
    assert await kit.snapshot(store) == before


@case
async def the_end_of_the_last_job_counts(store: Store) -> None:
    first = await kit.running(store)
    await kit.complete(store, first, successor=kit.successor_of(first, queue="second"))
    second = await kit.claim_one(store, "second", now=at(3))
    await kit.apply(store, Fail(second.id, second.lease.token, ERROR), now=at(4))
    assert await store.run(store.prune, rule(JobState.COMPLETED), 10, now=LATER) == 0
    assert await store.run(store.prune, rule(JobState.FAILED), 10, now=at(3 + DAY)) == 0
    assert await store.run(store.prune, rule(JobState.FAILED), 10, now=LATER) == 2


@case
async def a_sequence_that_a_blocked_job_waits_for_stays(store: Store) -> None:
    done, busy = await kit.running(store), await kit.running(store)
    waiting = await kit.add(store, blockers=(done.id, busy.id))
    await kit.complete(store, done)
    assert await kit.state_of(store, waiting) is JobState.BLOCKED
    assert await store.run(store.prune, rule(), 10, now=LATER) == 0
    assert (await kit.read(store, done.id)).output == '"done"'


@case
async def a_sequence_that_a_pending_job_will_read_stays(store: Store) -> None:
    done = await kit.running(store)
    waiting = await kit.add(store, blockers=(done.id,))
    await kit.complete(store, done)
    assert await kit.state_of(store, waiting) is JobState.PENDING
    assert await store.run(store.prune, rule(), 10, now=LATER) == 0


@case
async def a_sequence_that_was_complete_before_its_dependent_stays(store: Store) -> None:
    done = await kit.in_state(store, JobState.COMPLETED)
    waiting = await kit.add(store, blockers=(done,))
    assert await kit.state_of(store, waiting) is JobState.PENDING
    assert await store.run(store.prune, rule(), 10, now=LATER) == 0
    assert await store.run(store.blocker_outputs, [waiting]) == {waiting: ['"done"']}


@case
async def a_sequence_goes_once_what_waited_for_it_has_ended(store: Store) -> None:
    done = await kit.running(store)
    await kit.add(store, queue="other", blockers=(done.id,))
    await kit.complete(store, done)
    await kit.complete(store, await kit.claim_one(store, "other", now=at(2)))
    assert await store.run(store.prune, rule(except_queues=("other",)), 10, now=LATER) == 1
    assert await store.run(store.get, [done.id]) == [None]


@case.each({"failed": JobState.FAILED, "cancelled": JobState.CANCELLED})
async def a_sequence_that_a_job_needs_once_it_is_retried_stays(
    store: Store, state: JobState
) -> None:
    done = await kit.running(store)
    waiting = await kit.add(store, queue="other", blockers=(done.id,))
    await kit.complete(store, done)
    if state is JobState.FAILED:
        claimed = await kit.claim_one(store, "other", now=at(2))
        await kit.apply(store, Fail(claimed.id, claimed.lease.token, ERROR), now=at(3))
    else:
        await store.run(store.cancel, [waiting], now=at(3))
    assert await store.run(store.prune, rule(), 10, now=LATER) == 0
    await store.run(store.retry, [waiting], now=LATER)
    assert await store.run(store.blocker_outputs, [waiting]) == {waiting: ['"done"']}


@case
async def a_failed_sequence_that_is_waited_for_stays(store: Store) -> None:
    dead = await kit.in_state(store, JobState.FAILED)
    await kit.add(store, blockers=(dead,))
    assert await store.run(store.prune, rule(JobState.FAILED), 10, now=LATER) == 0


@case
async def a_sequence_goes_once_its_dependents_have_ended(store: Store) -> None:
    done = await kit.running(store)
    await kit.add(store, queue="waiting", blockers=(done.id,))
    await kit.complete(store, done)
    await kit.complete(store, await kit.claim_one(store, "waiting", now=at(2)), now=at(3))
    assert await store.run(store.prune, rule(), 10, now=LATER) >= 1
    await store.run(store.prune, rule(), 10, now=LATER)
    assert await kit.everything(store) == []


async def completed_by_type_and_queue(store: Store) -> dict[tuple[str, str], str]:
    """The ids of four completed jobs, of the types x and y in the queues a and b."""
    return {
        (type, queue): await kit.in_state(store, JobState.COMPLETED, type=type, queue=queue)
        for type in "xy"
        for queue in "ab"
    }


@case
async def only_the_types_and_queues_named_go(store: Store) -> None:
    made = await completed_by_type_and_queue(store)
    await store.run(store.prune, rule(types=("x",), queues=("a",)), 10, now=LATER)
    assert await ids(store) == set(made.values()) - {made["x", "a"]}
    await store.run(store.prune, rule(queues=("a",)), 10, now=LATER)
    assert await ids(store) == {made["x", "b"], made["y", "b"]}
    await store.run(store.prune, rule(types=("y", "z")), 10, now=LATER)
    assert await ids(store) == {made["x", "b"]}
    await store.run(store.prune, rule(types=()), 10, now=LATER)
    assert await ids(store) == {made["x", "b"]}


@case
async def the_types_and_queues_excepted_are_spared(store: Store) -> None:
    made = await completed_by_type_and_queue(store)
    spare = rule(except_types=("x",), except_queues=("b",))
    assert await store.run(store.prune, spare, 10, now=LATER) == 1
    assert await ids(store) == set(made.values()) - {made["y", "a"]}
    await store.run(store.prune, rule(except_queues=("b",)), 10, now=LATER)
    assert await ids(store) == {made["x", "b"], made["y", "b"]}


@case
async def a_limit_of_none_prunes_nothing(store: Store) -> None:
    await kit.in_state(store, JobState.COMPLETED)
    assert await store.run(store.prune, rule(), 0, now=LATER) == 0
    assert len(await kit.everything(store)) == 1


@case
async def a_pruned_key_can_be_used_again(store: Store) -> None:
    old = await kit.in_state(store, JobState.COMPLETED, dedup_key="k")
    await store.run(store.prune, rule(), 10, now=LATER)
    (answer,) = await kit.insert(store, kit.new_job(dedup_key="k", dedup_any=True), now=LATER)
    assert not answer.deduplicated
    assert answer.id != old


@case
async def a_sequence_goes_by_the_type_that_it_began_with(store: Store) -> None:
    first = await kit.running(store, type="first")
    await kit.complete(store, first, successor=kit.successor_of(first, type="second"), now=at(1))
    await kit.complete(store, await kit.claim_one(store, types=("second",), now=at(2)), now=at(3))
    assert await store.run(store.prune, rule(types=("second",)), 10, now=LATER) == 0
    assert await store.run(store.prune, rule(except_types=("first",)), 10, now=LATER) == 0
    assert await store.run(store.prune, rule(types=("first",)), 10, now=LATER) == 2


@case
async def jobs_can_be_kept_for_a_hundred_years(store: Store) -> None:
    await kit.in_state(store, JobState.COMPLETED)
    rule = PruneRule(state=JobState.COMPLETED, older_than=LONGEST)
    assert await store.run(store.prune, rule, 10, now=at(1e6)) == 0
    assert await store.run(store.prune, rule, 10, now=at(LONGEST + 2)) == 1
