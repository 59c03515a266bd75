"""Jobs that leave for another store, or come from one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from headway.domain.job import AttemptRecord, JobRecord, JobState
from headway.errors import DuplicateJob
from headway.ports.statement import Operation, Statement
from headway.ports.transfer import Departure, PackedJob
from headway.stores.sql.dialect import to_attempt, to_record
from headway.stores.sql.manage import Managing

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(PackedJob)


class Moving(Managing):
    def movable(
        self, states: Sequence[JobState], after: str | None, limit: int
    ) -> Operation[list[tuple[str, str]]]:
        rows = yield Statement(
            self._sql["movable"], (list(map(str, states)), after, limit), alone=True
        )
        return [(str(row[0]), str(row[1])) for row in rows]

    def trees(self, root_ids: Sequence[str], *, lock: bool = False) -> Operation[list[PackedJob]]:
        rows = yield Statement(self._sql["trees_locked" if lock else "trees"], (list(root_ids),))
        jobs = [(to_record(self._dialect, row), row[-1]) for row in rows]
        rows = yield Statement(self._sql["attempts_of"], ([job.id for job, _ in jobs],))
        attempts: dict[str, list[AttemptRecord]] = {}
        for row in rows:
            attempt = to_attempt(self._dialect, row)
            attempts.setdefault(attempt.job_id, []).append(attempt)
        return [PackedJob(job, waiting, tuple(attempts.get(job.id, ()))) for job, waiting in jobs]

    def put(self, jobs: Sequence[PackedJob]) -> Operation[None]:
        rows = yield Statement(self._sql["put"], rows=[self._columns(packed) for packed in jobs])
        stored = {str(row[0]) for row in rows}
        for packed in jobs:
            if packed.job.id not in stored:
                raise DuplicateJob(packed.job.id)
        attempts = [attempt for packed in jobs for attempt in packed.attempts]
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
            (packed.job.id, position, blocker)
            for packed in jobs
            for position, blocker in enumerate(packed.job.blockers)
        ]
        if blockers:
            yield Statement(self._sql["add_blockers"], rows=blockers)

    def pack(self, batch: str, jobs: Sequence[PackedJob]) -> Operation[None]:
        yield Statement(
            self._sql["pack"],
            (batch,),
            [(packed.job.id, _encoder.encode(packed).decode()) for packed in jobs],
            alone=True,
        )

    def unpack(self, batch: str) -> Operation[list[PackedJob]]:
        rows = yield Statement(self._sql["unpack"], (batch,), alone=True)
        return [_decoder.decode(row[0]) for row in rows]

    def luggage(self, limit: int) -> Operation[list[str]]:
        rows = yield Statement(self._sql["luggage"], (limit,), alone=True)
        return [str(row[0]) for row in rows]

    def depart(
        self, batch: str, departure: Departure, *, now: datetime | None = None
    ) -> Operation[Departure]:
        yield Statement(self._sql["depart"], (batch, str(departure), self._dialect.now(now)))
        rows = yield Statement(self._sql["departure"], (batch,))
        return Departure(rows[0][0])

    def forget_departure(self, batch: str) -> Operation[None]:
        yield Statement(self._sql["forget_departure"], (batch,), alone=True)

    def _columns(self, packed: PackedJob) -> tuple[Any, ...]:
        job: JobRecord = packed.job
        stamp = self._dialect.stamp
        return (
            job.id,
            job.sequence_id,
            job.root_id,
            job.origin_id,
            stamp(job.run_at),
            stamp(job.created_at),
            stamp(job.started_at),
            stamp(job.finished_at),
            job.timeout,
            job.position,
            job.attempts,
            job.losses,
            job.max_attempts,
            job.max_losses,
            job.lease_version,
            packed.waiting,
            job.priority,
            bool(job.blockers),
            job.awaited,
            str(job.state),
            job.type,
            job.queue,
            job.sequence_type,
            job.worker,
            job.dedup_key,
            job.trace,
            job.last_error,
            job.fingerprint,
            job.input,
            job.output,
        )
