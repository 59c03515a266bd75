"""New jobs: their deduplication, and their rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from headway.domain.due_time import NOW, After, At
from headway.domain.job import JobState, NewJob
from headway.domain.validation import is_id
from headway.errors import DuplicateJob, InvalidOption, JobNotFound
from headway.ports.statement import Operation, Row, Statement
from headway.ports.store import Inserted
from headway.stores.dedup import find_twins, insert_answers, without_twins
from headway.stores.sql.columns import TEMPLATE, shared_values, template_of
from headway.stores.sql.dialect import Dialect, SqlPart

_STATE = TEMPLATE.index("state")


class SqlInsert(SqlPart):
    """insert, with deduplication."""

    _rows: JobRows

    def insert(
        self, jobs: Sequence[NewJob], *, now: datetime | None = None
    ) -> Operation[list[Inserted]]:
        if any(job.dedup_key is not None for job in jobs):
            return (yield from self._insert_deduplicated(jobs, now))
        stored = yield from self._rows.insert(jobs, (), now)
        return [stored[job.id] for job in jobs]

    def _insert_deduplicated(
        self, jobs: Sequence[NewJob], now: datetime | None
    ) -> Operation[list[Inserted]]:
        keys = sorted({(job.type, job.dedup_key) for job in jobs if job.dedup_key is not None})
        yield from self._lock_keys(keys, now)
        twins = yield from find_twins(jobs, lambda job: self._by_key(job, now))
        stored = yield from self._rows.insert(without_twins(jobs, twins), (), now)
        return insert_answers(jobs, twins, stored)

    def _by_key(self, job: NewJob, now: datetime | None) -> Operation[Inserted | None]:
        rows = yield Statement(
            self._sql["by_key"],
            (
                job.type,
                job.dedup_key,
                job.dedup_any,
                job.dedup_window,
                job.dedup_except,
                self._dialect.now(now),
            ),
        )
        if not rows:
            return None
        id, run_at, blocked = rows[0]
        return Inserted(str(id), self._dialect.time(run_at), bool(blocked), deduplicated=True)

    def _lock_keys(self, keys: Sequence[tuple[str, str]], now: datetime | None) -> Operation[None]:
        """Lock these keys until the transaction ends, so that no other transaction starts jobs
        under them; SQLite's one writer needs no lock."""
        yield from ()


class JobRows(SqlPart):
    """Inserts the rows of new jobs, for `insert` and for the jobs that continue a sequence. Jobs
    that differ only in id, input and key go into one statement."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._sql = dialect.sql

    def insert(
        self, jobs: Sequence[NewJob], awaited: Collection[str], now: datetime | None
    ) -> Operation[dict[str, Inserted]]:
        """Insert jobs in order; some job waits for those in `awaited`."""
        stored: dict[str, Inserted] = {}
        template = None if awaited else self._template_of_all(jobs)
        if template is not None:
            yield from self._store_group(template, jobs, now, stored, alone=True)
            return stored
        ready: list[NewJob] = []
        ready_ids: set[str] = set()
        for job in jobs:
            if not ready_ids.isdisjoint(job.blockers):
                yield from self._store_ready(ready, awaited, now, stored)
                ready.clear()
                ready_ids.clear()
            ready.append(job)
            ready_ids.add(job.id)
        yield from self._store_ready(ready, awaited, now, stored)
        return stored

    def _store_ready(
        self,
        jobs: Sequence[NewJob],
        awaited: Collection[str],
        now: datetime | None,
        stored: dict[str, Inserted],
    ) -> Operation[None]:
        """Insert jobs that do not wait for one another."""
        incomplete: set[str] = set()
        blocked = [job for job in jobs if job.blockers]
        if blocked:
            incomplete = yield from self._await_sequences(blocked)
        groups: dict[tuple[tuple[Any, ...], str | None], list[NewJob]] = {}
        for job in jobs:
            waiting = sum(blocker in incomplete for blocker in job.blockers)
            template = self._template(job, waiting, job.id in awaited)
            # A given id stands alone, so that its being taken can be told.
            groups.setdefault((template, job.id if job.id_given else None), []).append(job)
        for (template, _), alike in groups.items():
            yield from self._store_group(template, alike, now, stored, alone=False)
        if blocked:
            yield Statement(
                self._sql["add_blockers"],
                rows=[
                    (job.id, position, blocker)
                    for job in blocked
                    for position, blocker in enumerate(job.blockers)
                ],
            )

    def _store_group(
        self,
        template: tuple[Any, ...],
        jobs: Sequence[NewJob],
        now: datetime | None,
        stored: dict[str, Inserted],
        *,
        alone: bool,
    ) -> Operation[None]:
        present = self._dialect.now(now)
        rows: Sequence[Row] = yield self._insertion(template, jobs, present, alone=alone)
        count, run_at = self._insert_answer(rows[0], present, jobs[0])
        if count != len(jobs) and jobs[0].id_given:
            raise DuplicateJob(jobs[0].id)
        # An id of our own making is taken only by an earlier try whose answer was lost.
        blocked = template[_STATE] == JobState.BLOCKED
        for job in jobs:
            stored[job.id] = Inserted(job.id, run_at, blocked)

    def _insertion(
        self, template: tuple[Any, ...], jobs: Sequence[NewJob], present: Any, *, alone: bool
    ) -> Statement:
        return Statement(
            self._sql["insert"],
            (present, *template),
            [(job.id, job.input, job.key) for job in jobs],
            alone=alone,
        )

    def _insert_answer(self, row: Row, present: Any, job: NewJob) -> tuple[int, datetime]:
        """The number of new jobs, and their `run_at`."""
        raise NotImplementedError

    def _template_of_all(self, jobs: Sequence[NewJob]) -> tuple[Any, ...] | None:
        """The template that all jobs share, if they do: then a single statement inserts them, and
        no transaction is needed."""
        template: tuple[Any, ...] | None = None
        for job in jobs:
            if job.blockers or job.id_given:
                return None
            found = self._template(job, 0, False)
            if template is None:
                template = found
            elif template != found:
                return None
        return template

    def _template(self, job: NewJob, waiting: int, awaited: bool) -> tuple[Any, ...]:
        """Everything about a job but its id, input and key, as parameters of `insert`."""
        if job.schedule is NOW:
            return template_of(job, None, 0.0, waiting, awaited)
        at, delay = self.when(job.schedule)
        return template_of(job, at, delay or 0.0, waiting, awaited)

    def kind(self, job: NewJob) -> tuple[Any, ...]:
        """What jobs that continue sequences can share, as parameters."""
        at, delay = self.when(job.schedule)
        return shared_values(job, at, delay or 0.0)

    def when(self, schedule: At | After) -> tuple[Any, float | None]:
        """A schedule as two parameters: a moment, or a delay in seconds."""
        match schedule:
            case At(moment):
                return self._dialect.stamp(moment), None
            case After():
                return None, schedule.seconds

    def _await_sequences(self, jobs: Sequence[NewJob]) -> Operation[set[str]]:
        """Mark the blockers as awaited; those that are not complete.

        Marking takes the same row lock as completing, so a blocker either completed before (and is
        seen so) or completes after these jobs are committed (and finds them).
        """
        yield from self._refuse_cycles(jobs)
        unknown = sorted({blocker for job in jobs for blocker in job.blockers})
        incomplete: set[str] = set()
        tried: dict[str, str] = {}
        while unknown:
            known = [id for id in unknown if is_id(id)]
            rows = yield Statement(self._sql["current"], (known,), alone=True)
            current = {job.sequence_id: job.id for job in self._records(rows)}
            last: dict[str, str] = {}
            for sequence_id in unknown:
                if (job_id := current.get(sequence_id)) is None:
                    raise JobNotFound(sequence_id)
                if tried.get(sequence_id) != job_id:  # else: it completed, and nothing followed
                    last[job_id] = sequence_id
            tried = {sequence_id: job_id for job_id, sequence_id in last.items()}
            if not last:
                break
            rows = yield Statement(self._sql["await_jobs"], (sorted(last),))
            incomplete.update(last.pop(str(row[0])) for row in rows)
            unknown = sorted(last.values())
        return incomplete

    def _refuse_cycles(self, jobs: Sequence[NewJob]) -> Operation[None]:
        """Raise InvalidOption for a job that would wait for itself: only a successor can."""
        for job in jobs:
            if job.sequence_id is None or job.sequence_id == job.id:
                continue
            rows = yield Statement(self._sql["waits_for"], (list(job.blockers), job.sequence_id))
            if rows:
                raise InvalidOption(
                    f"job {job.id} ({job.type}) would wait for itself: one of its blockers waits "
                    f"for its own sequence {job.sequence_id}"
                )
