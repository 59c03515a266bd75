"""Insertion of new jobs: deduplicated, blocked, or pending."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from headway.domain.due_time import NOW, due
from headway.domain.job import TERMINAL, JobState, NewJob
from headway.errors import DuplicateJob
from headway.ports.statement import Operation
from headway.ports.store import Inserted
from headway.stores.dedup import useless_blockers
from headway.stores.memory.row import JobRow
from headway.stores.memory.table import JobTable, continues, moment
from headway.stores.memory.transaction import Locked


class MemoryInsert(JobTable):
    def insert(
        self, jobs: Sequence[NewJob], *, now: datetime | None = None
    ) -> Operation[list[Inserted]]:
        yield from ()
        now = moment(now)
        if self._journal is None and self._are_plain(jobs):
            return [self._insert_plain(job, now) for job in jobs]
        with self._journaled():
            twins = self._twins(jobs, now)
            for job in jobs:
                if job.id not in twins:
                    self._insert_one(job, now, twins)
            return [self._answer(job.id, twins.get(job.id)) for job in jobs]

    def _are_plain(self, jobs: Sequence[NewJob]) -> bool:
        """Whether nothing can go wrong: new ids, no blockers, no keys, no continuations."""
        rows = self._rows
        for job in jobs:
            if job.blockers or job.dedup_key is not None or job.id in rows or continues(job):
                return False
        return len(jobs) == 1 or len({job.id for job in jobs}) == len(jobs)

    def _insert_plain(self, job: NewJob, now: datetime) -> Inserted:
        run_at = now if job.schedule is NOW else due(job.schedule, now)
        row = JobRow(job.id, job, now, JobState.PENDING, job.input, run_at)
        self._add(row)
        self._pending.push(row, now)
        return Inserted(job.id, run_at)

    def _insert_one(self, job: NewJob, now: datetime, twins: dict[str, str]) -> None:
        taken = self._rows.get(job.id)
        if taken is None:
            self._insert_job(job, now, twins)
        elif taken.owner is not None and taken.owner is not self._tx:
            raise Locked(taken.owner)
        elif job.id_given or taken.deleted or taken.spec.type != job.type:
            raise DuplicateJob(job.id)

    def _answer(self, job_id: str, twin: str | None) -> Inserted:
        row = self._rows[twin or job_id]
        if twin is not None:
            row = row.last or row
        return Inserted(
            twin or job_id, row.run_at, row.state is JobState.BLOCKED, deduplicated=twin is not None
        )

    def _twins(self, jobs: Sequence[NewJob], now: datetime) -> dict[str, str]:
        """The jobs that are not inserted, with the sequences that they duplicate."""
        left_out: dict[str, str] = {}
        while True:
            twins = dict(left_out)
            fresh: dict[tuple[str, str], str] = {}
            for job in jobs:
                if job.dedup_key is None or continues(job) or job.id in left_out:
                    continue
                if job.id in self._rows:  # our own earlier try, or an error
                    continue
                key = job.type, job.dedup_key
                twin = fresh.get(key)
                if twin is None or twin == job.dedup_except:
                    twin = self._twin(job, job.dedup_key, now)
                if twin is None:
                    fresh[key] = job.id
                else:
                    twins[job.id] = twin
            # As in `headway.stores.dedup`.
            while useless := useless_blockers(jobs, twins, left_out):
                for job in useless:
                    left_out[job.id] = twins[job.id] = twins[job.only_for or ""]
            if left_out.keys().isdisjoint(twins.values()):
                return twins

    def _twin(self, job: NewJob, key: str, now: datetime) -> str | None:
        """The newest stored sequence that the new job duplicates."""
        since = None
        if job.dedup_window is not None:
            since = now - timedelta(seconds=job.dedup_window)
        for first in reversed(self._keys.get((job.type, key), {})):
            if first.id == job.dedup_except or (since is not None and first.created_at <= since):
                continue
            last = first.last or first
            for row in (first, last):
                if row.owner is not None and row.owner is not self._tx:
                    raise Locked(row.owner)
            if not first.deleted and (job.dedup_any or last.state not in TERMINAL):
                return first.id
        return None
