"""Storing new jobs: deduplicated, blocked, or pending."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from headway.domain.job import TERMINAL, JobState, NewJob
from headway.domain.schedule import NOW, due
from headway.errors import DuplicateJob, InvalidOption, JobNotFound
from headway.ports.statement import Operation
from headway.ports.store import Inserted
from headway.stores.memory.row import Row
from headway.stores.memory.table import Table, moment
from headway.stores.memory.transaction import Locked


class Inserting(Table):
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
        """Whether nothing can go wrong: new ids, no blockers, no keys, no sequence to go on."""
        rows = self._rows
        for job in jobs:
            if job.blockers or job.dedup_key is not None or job.id in rows or _continues(job):
                return False
        return len(jobs) == 1 or len({job.id for job in jobs}) == len(jobs)

    def _insert_plain(self, job: NewJob, now: datetime) -> Inserted:
        run_at = now if job.schedule is NOW else due(job.schedule, now)
        row = Row(job.id, job, now, JobState.PENDING, job.input, run_at)
        self._add(row)
        self._lanes.push(row, now)
        return Inserted(job.id, run_at)

    def _insert_one(self, job: NewJob, now: datetime, twins: dict[str, str]) -> None:
        taken = self._rows.get(job.id)
        if taken is None:
            self._store(job, now, twins)
        elif taken.owner is not None and taken.owner is not self._tx:
            raise Locked(taken.owner)
        elif job.id_given or taken.dead or taken.spec.type != job.type:
            raise DuplicateJob(job.id)

    def _answer(self, job_id: str, twin: str | None) -> Inserted:
        row = self._rows[twin or job_id]
        if twin is not None:
            row = row.last or row
        return Inserted(
            twin or job_id, row.run_at, row.state is JobState.BLOCKED, deduplicated=twin is not None
        )

    def _store(self, job: NewJob, now: datetime, twins: dict[str, str]) -> Row:
        """Store a job that may have blockers or go on with a sequence; journaled. It waits for the
        twins of blockers that were not stored."""
        if job.id in self._rows:
            raise DuplicateJob(job.id)
        first = previous = None
        if _continues(job) and job.sequence_id is not None:
            previous = self._grasp_last(job.sequence_id)
            first = self._grasp(job.sequence_id)
            if first is None or previous is None:
                raise JobNotFound(job.sequence_id)
        row = Row(job.id, job, now, JobState.PENDING, job.input, due(job.schedule, now))
        row.first = first
        row.blockers = tuple(twins.get(blocker, blocker) for blocker in job.blockers)
        row.unmet = self._await_blockers(row)
        if row.unmet:
            row.state = JobState.BLOCKED
        self._add(row)
        if first is not None and previous is not None:
            row.awaited = previous.awaited
            previous.successor = first.last = row
        if row.state is JobState.PENDING:
            self._lanes.push(row, now)
        return row

    def _await_blockers(self, row: Row) -> int:
        """Tell the incomplete sequences among a job's blockers that they are awaited; how many
        they are."""
        sequence_id = row.id if row.first is None else row.first.id
        unmet = 0
        for blocker in dict.fromkeys(row.blockers):
            if self._waits_for(blocker, sequence_id):
                raise InvalidOption(
                    f"job {row.id} would wait for itself: its blocker {blocker} is its own "
                    f"sequence or waits for it; leave that blocker out"
                )
            # Owning the blocker's last job keeps others from completing it before we commit.
            last = self._grasp_last(blocker)
            if last is None:
                raise JobNotFound(blocker)
            if last.state is not JobState.COMPLETED:
                last.awaited = True
                unmet += 1
        return unmet

    def _waits_for(self, sequence_id: str, goal: str) -> bool:
        """Whether a sequence is `goal` or waits for it, however indirectly."""
        seen: set[str] = set()
        ahead = [sequence_id]
        while ahead:
            waiting = ahead.pop()
            if waiting == goal:
                return True
            if waiting in seen:
                continue
            seen.add(waiting)
            last = self._look_last(waiting)
            if last is not None and last.unmet and last.state is not JobState.COMPLETED:
                ahead += last.blockers
        return False

    def _twins(self, jobs: Sequence[NewJob], now: datetime) -> dict[str, str]:
        """Which jobs are not stored, and the sequences that stand in for them."""
        left_out: dict[str, str] = {}
        while True:
            twins = dict(left_out)
            fresh: dict[tuple[str, str], str] = {}
            for job in jobs:
                if job.dedup_key is None or _continues(job) or job.id in left_out:
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
            # A job that exists only for one that is not stored is not stored either, and what it
            # stood in for has to be looked at again.
            more = {
                job.id: twins[job.only_for]
                for job in jobs
                if job.only_for in twins and job.id not in left_out
            }
            if not more:
                return twins
            left_out |= more

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
            if not first.dead and (job.dedup_any or last.state not in TERMINAL):
                return first.id
        return None


def _continues(job: NewJob) -> bool:
    """Whether a job goes on with a sequence that there is already."""
    return job.sequence_id is not None and job.sequence_id != job.id
