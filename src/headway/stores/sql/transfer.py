"""Jobs that move to another store, or come from one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import msgspec

from headway.domain.job import AttemptRecord, JobState
from headway.errors import DuplicateJob
from headway.ports.statement import Operation, Statement
from headway.ports.store import Store
from headway.ports.transfer import BatchOutcome, MovedJob
from headway.stores.sql.columns import moved_values
from headway.stores.sql.dialect import Dialect, SqlPart, to_attempt, to_record

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(MovedJob)


class SqlTransfer(SqlPart):
    """Made for a store, and run by it. `identity` says which database and tables hold the jobs."""

    def __init__(
        self,
        store: Store,
        dialect: Dialect,
        identity: Callable[[], Awaitable[tuple[object, ...]]],
    ) -> None:
        self.store = store
        self._identity = identity
        self._dialect = dialect
        self._sql = dialect.sql

    async def identity(self) -> tuple[object, ...]:
        return await self._identity()

    def movable(
        self, states: Sequence[JobState], after: str | None, limit: int
    ) -> Operation[list[tuple[str, str]]]:
        rows = yield Statement(
            self._sql["movable"], (list(map(str, states)), after, limit), alone=True
        )
        return [(str(row[0]), str(row[1])) for row in rows]

    def trees(self, root_ids: Sequence[str], *, lock: bool = False) -> Operation[list[MovedJob]]:
        rows = yield Statement(self._sql["trees_locked" if lock else "trees"], (list(root_ids),))
        jobs = [(to_record(self._dialect, row), row[-1]) for row in rows]
        rows = yield Statement(self._sql["attempts_of"], ([job.id for job, _ in jobs],))
        attempts: dict[str, list[AttemptRecord]] = {}
        for row in rows:
            attempt = to_attempt(self._dialect, row)
            attempts.setdefault(attempt.job_id, []).append(attempt)
        return [MovedJob(job, waiting, tuple(attempts.get(job.id, ()))) for job, waiting in jobs]

    def insert_moved(self, jobs: Sequence[MovedJob]) -> Operation[None]:
        rows = yield Statement(
            self._sql["insert_moved"],
            rows=[moved_values(moved, self._dialect.stamp) for moved in jobs],
        )
        stored = {str(row[0]) for row in rows}
        for moved in jobs:
            if moved.job.id not in stored:
                raise DuplicateJob(moved.job.id)
        attempts = [attempt for moved in jobs for attempt in moved.attempts]
        if attempts:
            yield Statement(
                self._sql["add_attempts"],
                rows=[
                    (
                        attempt.job_id,
                        attempt.version,
                        attempt.outcome,
                        attempt.worker,
                        self._dialect.stamp(attempt.started_at),
                        self._dialect.stamp(attempt.finished_at),
                        attempt.error,
                    )
                    for attempt in attempts
                ],
            )
        blockers = [
            (moved.job.id, position, blocker)
            for moved in jobs
            for position, blocker in enumerate(moved.job.blockers)
        ]
        if blockers:
            yield Statement(self._sql["add_blockers"], rows=blockers)

    def stage(self, batch: str, jobs: Sequence[MovedJob]) -> Operation[None]:
        yield Statement(
            self._sql["stage"],
            (batch,),
            [(moved.job.id, _encoder.encode(moved).decode()) for moved in jobs],
            alone=True,
        )

    def take_staged(self, batch: str) -> Operation[list[MovedJob]]:
        rows = yield Statement(self._sql["take_staged"], (batch,), alone=True)
        return [_decoder.decode(row[0]) for row in rows]

    def staged_batches(self, limit: int) -> Operation[list[str]]:
        rows = yield Statement(self._sql["staged_batches"], (limit,), alone=True)
        return [str(row[0]) for row in rows]

    def set_outcome(
        self, batch: str, outcome: BatchOutcome, *, now: datetime | None = None
    ) -> Operation[BatchOutcome]:
        yield Statement(
            self._sql["set_transfer_outcome"], (batch, str(outcome), self._dialect.now(now))
        )
        rows = yield Statement(self._sql["transfer_outcome"], (batch,))
        return BatchOutcome(rows[0][0])

    def delete_outcome(self, batch: str) -> Operation[None]:
        yield Statement(self._sql["delete_transfer_outcome"], (batch,), alone=True)
