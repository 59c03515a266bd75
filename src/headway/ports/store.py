"""The promises of a store. It keeps jobs and performs primitive changes; it decides nothing.

Verbs are *operations*: calling one does nothing, running it does. `run(store.claim, order)` runs
it on a connection of the store's own, `run_in(tx, store.insert, jobs)` inside the caller's
transaction, and the `_sync` twins do so without an event loop.

Promises that every store keeps, and `headway.testing.conformance.store` checks:

- An operation is atomic: all of it happened when the call returns, or nothing.
- **Claim.** A running job whose lease is valid is never handed out again, whatever runs at once.
  Each job is handed to at most one of any number of concurrent claimers.
- **Fence.** A change of a running job on behalf of its holder compares the token and the expiry in
  the statement that changes the row. A refused change changes nothing at all.
- **Batches.** Verbs that take many items answer for each, in order; a refused item does not affect
  the others.
- **Time.** `now=None` is the store's own clock. Times are kept to the microsecond, in UTC. A job is
  due when `run_at <= now`; a lease has expired when `until <= now`.
- **Durability.** When `run` returns, the change survives the death of this process (memory store
  excepted) and, with the database's default settings, of the database.

`run` and `run_in` may be called by any number of tasks at once; the `_sync` ones from any thread.
Transient errors (connection lost, serialization failure, database starting up) are retried inside
`run` and `run_sync` as the store's `OperationRetry` says, never inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, ParamSpec, Protocol, TypeVar

import msgspec

from headway.domain.job import AttemptRecord, ClaimedJobs, JobRecord, NewJob
from headway.domain.lease import Held, Verdict
from headway.domain.orders import ClaimOrder, ProgressReport, PruneRule
from headway.domain.queries import (
    EndedCount,
    EndedJob,
    FailureCount,
    IdPage,
    JobCount,
    JobFilter,
    Page,
    QueueRecord,
    Tally,
    WorkerRecord,
)
from headway.domain.schedules.schedule import (
    ScheduleAdvance,
    ScheduleRecord,
    ScheduleRun,
)
from headway.domain.settlement import Freed, Settled, Settlement
from headway.domain.views import AuditPage, AuditRecord, Count, Progress
from headway.ports.queue_limits import LimitOperations
from headway.ports.statement import Operation
from headway.ports.transfer import Transfer

P = ParamSpec("P")
T = TypeVar("T")


class Inserted(msgspec.Struct, frozen=True, gc=False):
    """The answer for a new job. When `deduplicated`, `id` is the existing sequence's."""

    id: str
    run_at: datetime
    blocked: bool = False
    deduplicated: bool = False


class MigrationStatus(msgspec.Struct, frozen=True):
    """One step of the schema; `applied_at` is None while it is missing."""

    version: int
    name: str
    applied_at: datetime | None


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """Abilities of a store; conformance cases are left out only by these."""

    durable: bool
    """Jobs survive the process."""
    across_processes: bool
    """Several processes can work on it."""
    transactions: bool
    """`begin` hands out a transaction whose changes can be rolled back."""
    one_writer: bool = False
    """A transaction that writes makes every other writer wait."""


class Operations(LimitOperations, Protocol):
    """The verbs. Nothing happens until a store runs the operation that a verb returns."""

    def insert(
        self, jobs: Sequence[NewJob], *, now: datetime | None = None
    ) -> Operation[list[Inserted]]:
        """Store new jobs, blocked if a blocker is not complete, pending otherwise; all or none.

        Raises DuplicateJob for a given id that is taken (a generated id can be taken only by an
        earlier try of the same insert, which then counts), JobNotFound for a missing blocker.
        """
        ...

    def claim(self, order: ClaimOrder, *, now: datetime | None = None) -> Operation[ClaimedJobs]:
        """Hand out due pending jobs: queues in the order given, within a queue by priority
        (highest first), then `run_at`, then id. Nothing from paused queues, nothing from queues
        with limits unless the order is `limited`, and nothing that was lost more often than
        `most_losses`. Raises InvalidOption for a lease of 0 seconds or less,
        or of more than 100 years. Returns them in the order in which they should be run.

        If the order is given `again`, the jobs that carry its token and whose lease is valid come
        first: their leases begin anew, and if there are any, no others are taken. A store that
        tries a claim again by itself does the same."""
        ...

    def extend(
        self,
        held: Sequence[Held],
        lease_for: float,
        *,
        late: bool = False,
        now: datetime | None = None,
    ) -> Operation[list[Verdict]]:
        """Make leases last `lease_for` seconds from now; token and version stay. `late`: also those
        that have expired, if nobody has taken the jobs since."""
        ...

    def settle(
        self, settlements: Sequence[Settlement], *, now: datetime | None = None
    ) -> Operation[Settled]:
        """Apply settlements, each guarded by its own fence.

        A completion without successor completes its sequence and, in the same transaction, frees
        the jobs for which it was the last incomplete blocker: their `run_at` becomes the later of
        the old one and now. Failures and losses leave an AttemptRecord. A loss that is charged
        counts one more in a row; Retry, Fail and Reschedule set `losses` back to 0.
        """
        ...

    def expired(self, limit: int, *, now: datetime | None = None) -> Operation[list[JobRecord]]:
        """Running jobs whose lease has expired, longest ago first. Changes nothing."""
        ...

    def get(self, ids: Sequence[str]) -> Operation[list[JobRecord | None]]:
        """The jobs with these ids, in order; None for those that do not exist."""
        ...

    def find(
        self,
        which: JobFilter,
        *,
        cursor: str | None = None,
        limit: int = 50,
        now: datetime | None = None,
    ) -> Operation[Page]:
        """Jobs by id, newest first. Raises InvalidOption for a cursor that no page came with.

        Bounded: for a filter that no index serves a store reads a limited number of jobs, and the
        page comes back short, even empty, with a cursor to go on from. Conditions on text
        (`arguments`, `errors`, `words`) are decided by `headway.domain.filters.matches_text`.
        """
        ...

    def find_ids(self, endings: Sequence[str], *, cursor: str | None = None) -> Operation[IdPage]:
        """Ids of jobs with one of these endings (hexadecimal digits and dashes), newest first. One
        call compares `IDS_COMPARED` ids, or more, and needs no more than the index of the ids."""
        ...

    def count(
        self, which: JobFilter, at_most: int, *, now: datetime | None = None
    ) -> Operation[Count]:
        """The number of jobs that match, up to `at_most`. Bounded as `find` is: not exact if more
        match, or if more would have to be read."""
        ...

    def counts(self) -> Operation[list[JobCount]]:
        """Exact numbers of jobs; slow if there are many, because all are read."""
        ...

    def time(self, *, now: datetime | None = None) -> Operation[datetime]:
        """The time of the store's clock, or `now` if that is given."""
        ...

    def tally(self, *, now: datetime | None = None) -> Operation[list[Tally]]:
        """Numbers of jobs in bounded time: exact for states that few jobs are in, estimated for
        the others. Empty groups are left out."""
        ...

    def ended(self, limit: int) -> Operation[list[EndedJob]]:
        """The jobs that ended last, the last one first."""
        ...

    def throughput(
        self, slices: int, seconds: float, *, now: datetime | None = None
    ) -> Operation[list[EndedCount]]:
        """Numbers of jobs that ended in so many slices of so many seconds each, the last of which
        ends now. Of very many in a slice only those are counted that ended within its first
        `covered` seconds."""
        ...

    def failures(
        self, which: JobFilter, limit: int, *, now: datetime | None = None
    ) -> Operation[list[FailureCount]]:
        """Failed jobs that match, by fingerprint, the largest group first, then the one that failed
        last. Bounded: of very many failed jobs only the newest are read, and the counts are not
        exact."""
        ...

    def attempts(self, job_id: str) -> Operation[list[AttemptRecord]]:
        """The failed and lost executions of a job, oldest first."""
        ...

    def cancel(
        self, ids: Sequence[str], *, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        """End blocked, pending and running jobs as cancelled; ALREADY for cancelled ones,
        WRONG_STATE for those that ended otherwise. A running job's holder loses its lease."""
        ...

    def retry(
        self, ids: Sequence[str], *, input: str | None = None, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        """Make failed and cancelled jobs pending again, due now, attempts and losses back to 0,
        with another input if one is given. WRONG_STATE for all others. History stays."""
        ...

    def pause(
        self, queue: str, paused: bool, *, now: datetime | None = None
    ) -> Operation[None]: ...

    def queues(self) -> Operation[list[QueueRecord]]:
        """Queues that have been paused or resumed, or that hold jobs, by name."""
        ...

    def managed_queues(self) -> Operation[list[QueueRecord]]:
        """Queues that have been paused or resumed, by name; reads no jobs."""
        ...

    def save_progress(
        self, reports: Sequence[ProgressReport], *, now: datetime | None = None
    ) -> Operation[None]:
        """Keep progress reports of running jobs; the newest report of a job wins. A report whose
        token does not hold the job any more is dropped. Reports are deleted with their jobs."""
        ...

    def progress(self, job_ids: Sequence[str]) -> Operation[list[Progress | None]]:
        """The last progress reports of these jobs, in order."""
        ...

    def add_audit(self, record: AuditRecord, *, now: datetime | None = None) -> Operation[None]:
        """Write the audit record of an operator's action, in the transaction of the action; the
        store sets `at`."""
        ...

    def audit_page(self, *, cursor: str | None = None, limit: int = 50) -> Operation[AuditPage]:
        """Audit records by id, newest first. Raises InvalidOption as `find` does."""
        ...

    def prune_audit(self, older_than: float, *, now: datetime | None = None) -> Operation[int]:
        """Delete audit records that are older than so many seconds, oldest first, at least a
        thousand of them; the number deleted."""
        ...

    def save_worker(
        self, worker: WorkerRecord, *, now: datetime | None = None
    ) -> Operation[float | None]:
        """Write the record of a living worker; the store sets `seen_at` (and `started_at` the
        first time). The answer is that of `next_schedule` for the schedules that the worker
        declares, without a further statement; None if the worker fires no schedules."""
        ...

    def workers(self) -> Operation[list[WorkerRecord]]: ...

    def delete_workers(
        self,
        ids: Sequence[str] = (),
        *,
        unseen_for: float | None = None,
        now: datetime | None = None,
    ) -> Operation[int]:
        """Delete the records of these workers and of workers that have not written theirs for
        `unseen_for` seconds; the number deleted."""
        ...

    def prune(self, rule: PruneRule, limit: int, *, now: datetime | None = None) -> Operation[int]:
        """Delete up to `limit` sequences that the rule selects, with all their jobs, attempts and
        blocker entries; the number of jobs deleted. Never deletes a sequence whose last job has not
        ended, nor a blocker of a job that has not completed, even one in a transaction that is
        still open: a failed job that is retried needs its blockers."""
        ...

    def current(
        self, sequence_ids: Sequence[str], *, lock: bool = False, wait: bool = True
    ) -> Operation[list[JobRecord | None]]:
        """The last job of each sequence; with `lock`, held until the transaction ends. Without
        `wait`, those that another transaction holds are left out."""
        ...

    def trigger(
        self, ids: Sequence[str], *, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        """Make pending jobs due now; WRONG_STATE for others."""
        ...

    def complete_without_lease(
        self,
        job_id: str,
        output: str | None,
        successor: NewJob | None,
        *,
        now: datetime | None = None,
    ) -> Operation[list[Freed]]:
        """Complete a job without a lease (from outside, `worker` becomes None), whatever
        non-terminal state it is in; frees jobs as `settle` does. The caller holds the row through
        `current(..., lock=True)` and has checked its state."""
        ...

    def blocker_outputs(self, job_ids: Sequence[str]) -> Operation[dict[str, list[str | None]]]:
        """For each job the outputs of its blockers' sequences, in order."""
        ...

    def dependents(
        self, sequence_ids: Sequence[str], *, limit: int | None = None
    ) -> Operation[list[JobRecord]]:
        """Jobs that were given any of these sequences as blockers, by id; the first `limit`."""
        ...

    def delete_jobs(self, ids: Sequence[str]) -> Operation[list[str]]:
        """Delete these jobs in any state, with their attempts, blocker entries and progress
        reports; the ids of the deleted ones. The caller has locked the last jobs of their sequences
        and has seen which jobs wait for them."""
        ...

    def delete_ended(self, ids: Sequence[str]) -> Operation[list[str]]:
        """Delete the whole sequences of these jobs that have ended and are no blockers of a job
        that has not completed, as `prune` does; the ids of the deleted jobs. Other jobs stay."""
        ...

    def insert_scheduled(
        self, jobs: Sequence[NewJob], *, now: datetime | None = None
    ) -> Operation[list[Inserted]]:
        """Store the jobs of ticks; they have no blockers and no deduplication key. A job whose id
        is taken is not stored, and counts as deduplicated."""
        ...

    def add_schedules(self, schedules: Sequence[ScheduleRecord]) -> Operation[list[str]]:
        """Store schedules whose names are not taken; their names. Waits for transactions that
        store one of the same name."""
        ...

    def put_schedules(self, schedules: Sequence[ScheduleRecord]) -> Operation[None]:
        """Store schedules as they are given, over stored ones of the same names. The caller has
        locked those."""
        ...

    def schedules(
        self, names: Sequence[str], *, lock: bool = False
    ) -> Operation[list[ScheduleRecord | None]]:
        """The schedules of these names, in order; with `lock`, held until the transaction ends."""
        ...

    def list_schedules(
        self, *, after: str | None = None, limit: int = 1_000
    ) -> Operation[list[ScheduleRecord]]:
        """Schedules by name, by Unicode code points, from the first name after `after` on."""
        ...

    def due_schedules(
        self,
        declared: Collection[str],
        limit: int,
        *,
        ended: Collection[str] = (),
        now: datetime | None = None,
    ) -> Operation[list[ScheduleRecord]]:
        """Schedules whose `next_at` has come, oldest first, and those of `ended` with a tick that
        waits; none that are paused, nor declared ones that are not in `declared`. They are locked
        until the transaction ends; schedules that another transaction has locked are left out."""
        ...

    def next_schedule(
        self, declared: Collection[str], *, now: datetime | None = None
    ) -> Operation[float | None]:
        """Seconds until the next `next_at` of the schedules that `due_schedules` selects from, by
        the store's clock, 0 or less if it has come; None: there is no such schedule."""
        ...

    def advance_schedules(self, advances: Sequence[ScheduleAdvance]) -> Operation[None]:
        """Keep what firing changed in schedules that this transaction has locked."""
        ...

    def schedule_runs(self, names: Sequence[str]) -> Operation[list[list[ScheduleRun]]]:
        """The last ticks of each of these schedules, at most `KEPT_RUNS`, newest first."""
        ...

    def delete_schedules(self, names: Sequence[str]) -> Operation[list[str]]:
        """Delete schedules and their runs; their jobs stay. The names of the deleted ones."""
        ...


class Store(Operations, Protocol):
    """Operations, and the methods that run them."""

    name: str
    """Name in messages, without secrets: `SQLite shop.db`, `PostgreSQL db at host:5432`."""
    capabilities: Capabilities

    @property
    def transfer(self) -> Transfer | None:
        """Moves jobs to and from other stores; None: this store's jobs cannot move."""
        ...

    @property
    def transactions(self) -> int | None:
        """The most transactions of `begin` that this process can have open; a further one waits
        for one of these to end. None: any number."""
        ...

    async def open(self, *, migrate: bool = False) -> None:
        """Connect, and check the schema; `migrate` brings it up to date first. Does not wait for
        a transaction that the caller has open: what needs its lock is done at the first use, or in
        that transaction (`run_in`). Raises StoreUnreachable, SchemaMissing, SchemaOutdated."""
        ...

    async def close(self) -> None:
        """Wait for running operations and close all connections. Closing twice, or before opening,
        is fine; any other call afterwards raises StoreClosed."""
        ...

    async def migrate(self) -> list[str]:
        """Bring the schema up to date; the names of the steps applied. May be run again, from
        several processes at once, and while workers of the previous version run."""
        ...

    async def migration_status(self) -> list[MigrationStatus]: ...

    def migration_script(self, *, after: int = 0) -> str:
        """The steps after a version as SQL, to be applied by hand; by default the whole schema.
        Empty if there is none."""
        ...

    async def run(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run an operation in a transaction of its own."""
        ...

    def run_sync(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The same, blocking, from any thread; it depends on no event loop."""
        ...

    async def run_in(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run an operation inside a transaction that the caller began and will end."""
        ...

    def run_in_sync(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool:
        """Call `callback` when the caller's transaction commits; False if the driver does not tell
        of commits."""
        ...

    def begin(self) -> AbstractAsyncContextManager[Any]:
        """A transaction: commits when left, rolls back when left by an exception. The context is
        the driver's own object, accepted by `run_in`."""
        ...

    def expect(self, queue: str, run_at: datetime | None) -> None:
        """A hint that a job due at `run_at` may have appeared: a store that remembers how far it
        has claimed looks there again. Never blocks."""
        ...
