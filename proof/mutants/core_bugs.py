"""Bugs to plant into the engine and into what it asks of a store. Each is what somebody could
have written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from headway.admin import id_lookup
from headway.after_commit.effects import Effects
from headway.after_commit.publisher import Publisher
from headway.client.client import Client
from headway.domain import lifecycle
from headway.domain.job import JobState
from headway.domain.lease import Verdict
from headway.domain.settlement import Complete, Fail, Lose, Release, Settled
from headway.errors import StoreUnreachable
from headway.ports.store import Inserted
from headway.stores.memory import claim, settle
from headway.stores.memory.insert import MemoryInsert
from headway.stores.memory.table import JobTable
from headway.stores.postgres.claim_bounds import ClaimBounds
from headway.stores.postgres.insert import PostgresInsert
from headway.worker import committer
from headway.worker.claims import slots
from headway.worker.claims.fetcher import Fetcher
from headway.worker.committer import Committer
from headway.worker.handler_transactions import AttemptTransactions, CompletedTransaction
from headway.worker.leases import heartbeat
from headway.worker.leases.store_outage import Outage
from proof.simulation import world


def judging(careless: Callable[[Any], bool]) -> Callable[[], None]:
    """A store that applies such settlements to whatever runs."""

    def plant() -> None:
        def judge(settlement: Any, state: Any, token: Any, until: Any, now: Any) -> Verdict:
            if careless(settlement) and state is JobState.RUNNING:
                return Verdict.APPLIED
            return lifecycle.judge(settlement, state, token, until, now)

        settle.judge = judge

    return plant


def fence_dropped_from_extend() -> None:
    def judge_lease(claimed: Any, state: Any, token: Any, until: Any, now: Any) -> Verdict:
        if state is JobState.RUNNING:
            return Verdict.APPLIED
        return Verdict.NOT_RUNNING

    extend_one = JobTable._extend_one

    def extend(self: Any, lease: Any, until: Any, now: Any, *, late: bool = False) -> Verdict:
        row = self._rows.get(lease.job_id)
        if row is None or row.state is not JobState.RUNNING or row.owner is not None:
            return extend_one(self, lease, until, now, late=late)
        row.until = until
        return judge_lease(lease.token, row.state, row.token, row.until, now)

    JobTable._extend_one = extend


def expiry_by_the_workers_clock() -> None:
    """The engine hands its own clock to the store: workers whose clocks differ disagree."""

    def now(self: Any) -> Any:
        skew = timedelta(seconds=id(self) // 64 % 7 - 3)
        return world.BEGINNING + timedelta(seconds=self._loop.now) + skew

    world.SimulatedClock.now = now


def start_taken_for_granted() -> None:
    async def run(self: Any, tx: Any, operation: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            if tx is None:
                return await self._store.run(operation, *args, **kwargs)
            return await self._store.run_in(tx, operation, *args, **kwargs)
        except StoreUnreachable:
            if operation.__name__ != "insert":
                raise
            moment = world.BEGINNING
            return [Inserted(job.id, moment, blocked=True) for job in args[0]]

    Client._run = run


def settlement_taken_for_granted() -> None:
    """The handler's transaction counts as committed although its commit failed: the worker
    announces an end that has not come."""
    commit = AttemptTransactions.commit

    async def careless(self: Any, complete: Any, succession: Any) -> Any:
        try:
            return await commit(self, complete, succession)
        except StoreUnreachable:
            return CompletedTransaction(Settled([Verdict.APPLIED], []), (), (), {})

    AttemptTransactions.commit = careless


def notification_before_the_commit() -> None:
    async def tell(self: Any, tx: Any, effects: Any) -> None:
        self.publish_soon(effects)

    Publisher.publish_with = tell


def notification_before_the_settlement() -> None:
    settle = Committer._settle

    async def early(self: Any, batch: Any) -> Any:
        effects = Effects()
        for attempt in batch:
            if isinstance(attempt.settlement, Complete):
                effects.ended.append(attempt.claimed.sequence_id)
        self._publisher.publish_soon(effects)
        return await settle(self, batch)

    Committer._settle = early


def unblocking_afterwards() -> None:
    free = settle.MemorySettle._free

    def later(self: Any, waiters: Any, now: Any, freed: Any) -> None:
        asyncio.get_running_loop().call_later(0.01, free, self, waiters, now, [])

    settle.MemorySettle._free = later


def dedup_by_reading_first() -> None:
    twins = MemoryInsert._twins
    store_plan = Client._store_plan

    def looked_up(store: Any, jobs: Any) -> Any:
        yield from ()
        return twins(store, jobs, world.current_world().store_time())

    async def read_then_write(self: Any, plan: Any, requests: Any, tx: Any) -> Any:
        keyed = [job for job in plan.jobs if job.dedup_key is not None]
        if keyed and tx is None:
            memory = self._store._memory
            found = await self._store.run(looked_up, memory, plan.jobs)
            if found:
                return [self.sequence(next(iter(found.values()))) for _ in requests]
        return await store_plan(self, plan, requests, tx)

    MemoryInsert._twins = lambda self, jobs, now: {}
    Client._store_plan = read_then_write


def release_charged() -> None:
    give_back = settle.MemorySettle._settle_one

    def charge(self: Any, settlement: Any, now: Any, freed: Any) -> Verdict:
        verdict = give_back(self, settlement, now, freed)
        if verdict is Verdict.APPLIED and isinstance(settlement, Release):
            self._rows[settlement.job_id].attempts += 1
        return verdict

    settle.MemorySettle._settle_one = charge


def flush_lost_on_shutdown() -> None:
    close = Committer.close

    def forget(self: Any) -> None:
        self._outcomes.clear()
        close(self)

    Committer.close = forget


def versions_not_raised() -> None:
    hand_out = claim.MemoryClaim._take

    def same_version(self: Any, row: Any, order: Any, now: Any, until: Any) -> Any:
        claimed = hand_out(self, row, order, now, until)
        row.version = max(row.version - 1, 1)
        return claimed

    claim.MemoryClaim._take = same_version


def successors_of_refused_completions() -> None:
    settle_one = settle.MemorySettle._settle_one

    def store_anyway(self: Any, settlement: Any, now: Any, freed: Any) -> Verdict:
        verdict = settle_one(self, settlement, now, freed)
        if isinstance(settlement, Complete) and settlement.successor is not None:
            known = settlement.successor.id in self._rows
            if verdict in (Verdict.EXPIRED, Verdict.MISMATCH) and not known:
                self._insert_job(settlement.successor, now, {})
        return verdict

    settle.MemorySettle._settle_one = store_anyway


def local_deadline_ignored() -> None:
    heartbeat.Heartbeat._look = lambda self: None


def effect_outside_the_transaction() -> None:
    """What a handler writes is there even if its transaction is rolled back."""
    begin = world.World.begin

    def leaking(self: Any, process: Any) -> Any:
        tx = begin(self, process)
        apply = tx.data.apply
        end = tx._end

        def end_and_apply(ended: Any, commit: bool) -> None:
            if not commit and tx.data._changes:
                apply()
                self._watch(self.checker.committed, tx, {})
            end(ended, commit)

        tx._end = end_and_apply
        return tx

    world.World.begin = leaking


def bound_without_looking() -> None:
    """A claim never looks below what it has claimed, whatever it hears."""
    ClaimBounds.expect = lambda self, queue, run_at: None
    ClaimBounds.should_look_around = lambda self, queues: (
        not any(self._bounds.get(queue.name) for queue in queues)
    )


def claims_forgotten() -> None:
    """A claim whose answer was lost is followed by another one, and not repeated."""
    claim = Fetcher._claim

    async def forgetful(self: Any, shares: Any, limit: int) -> Any:
        self._unanswered = None
        return await claim(self, shares, limit)

    Fetcher._claim = forgetful


def trouble_is_the_jobs_fault() -> None:
    """A job whose outcome cannot be stored now is dead-lettered, whatever the reason."""
    committer.is_refusal = lambda error: True


def store_trouble_charged() -> None:
    """A job whose transaction the store does not give or does not commit has failed."""
    AttemptTransactions.is_stores_error = lambda self, error: False


def keys_unlocked() -> None:
    def nothing(self: Any, keys: Any, now: Any) -> Any:
        yield from ()

    PostgresInsert._lock_keys = nothing


def expired_leases_never_excused() -> None:
    Outage.excuse = lambda self, attempt: None


def reapers_that_do_not_wait() -> None:
    type.__setattr__(Outage, "recent", property(lambda self: False))


def suspects_at_any_time() -> None:
    never = property(lambda self: False, lambda self, _: None)
    type.__setattr__(slots.Slots, "only_healthy", never)


def first_of_several_ids() -> None:
    async def only_one(store: Any, ending: str, lookup: Any) -> str:
        return next(iter(lookup.found[ending]))

    id_lookup._only_one = only_one


SEEN_BY_ABSENCE: dict[str, Callable[[], None]] = {
    "leases that ran out while the store was away are charged": expired_leases_never_excused,
    "reapers charge before holders can speak": reapers_that_do_not_wait,
}


SEEN_BY_SIMULATION: dict[str, Callable[[], None]] = {
    "fence dropped from ack": judging(lambda each: isinstance(each, Complete)),
    "fence dropped from fail": judging(lambda each: isinstance(each, Fail)),
    "fence dropped from extend": fence_dropped_from_extend,
    "unguarded reaper": judging(lambda each: isinstance(each, Lose)),
    "expiry compared with the wrong clock": expiry_by_the_workers_clock,
    "commit outcome taken for granted by a client": start_taken_for_granted,
    "commit outcome taken for granted by a worker": settlement_taken_for_granted,
    "notification before the caller's commit": notification_before_the_commit,
    "notification before the worker's commit": notification_before_the_settlement,
    "unblocking outside the transaction": unblocking_afterwards,
    "dedup by read-then-write": dedup_by_reading_first,
    "attempt charged on release": release_charged,
    "lease version not raised": versions_not_raised,
    "successor of a refused completion": successors_of_refused_completions,
    "lease's end ignored by the local clock": local_deadline_ignored,
    "effect outside the transaction": effect_outside_the_transaction,
    "attempt charged for the store's trouble": store_trouble_charged,
}
