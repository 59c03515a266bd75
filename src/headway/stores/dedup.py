"""Deduplication of a batch of new jobs: which of them are not inserted, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from headway.domain.job import NewJob
from headway.ports.statement import Operation
from headway.ports.store import Inserted

_LATER = datetime.min.replace(tzinfo=UTC)
"""The `run_at` of a job of the batch, until it is stored."""


def find_twins(
    jobs: Sequence[NewJob], look: Callable[[NewJob], Operation[Inserted | None]]
) -> Operation[dict[str, Inserted]]:
    """The jobs that are not inserted, each with the sequence that it duplicates: one that is
    stored, for which `look` looks, or an earlier job of the batch."""
    left_out: dict[str, Inserted] = {}
    while True:
        twins = dict(left_out)
        fresh: dict[tuple[str, str], Inserted] = {}
        for job in jobs:
            if job.dedup_key is None or job.id in left_out:
                continue
            key = job.type, job.dedup_key
            twin = fresh.get(key)
            if twin is None or twin.id == job.dedup_except:
                twin = yield from look(job)
            if twin is None or twin.id == job.id:  # itself, by an earlier try whose answer was lost
                fresh[key] = Inserted(job.id, _LATER)
            else:
                twins[job.id] = twin
        # A job that exists only for one that is not inserted is not inserted either. Jobs that
        # duplicated it, and those that exist only for them, have to be checked again.
        while useless := useless_blockers(
            jobs, {id: twin.id for id, twin in twins.items()}, left_out
        ):
            for job in useless:
                left_out[job.id] = twins[job.id] = twins[job.only_for or ""]
        if left_out.keys().isdisjoint(each.id for each in twins.values()):
            return twins


def useless_blockers(
    jobs: Sequence[NewJob], twins: Mapping[str, str], left_out: Container[str]
) -> list[NewJob]:
    """Jobs that exist only for a duplicate of a job that is certainly stored."""
    asked = [
        (job, twin)
        for job in jobs
        if job.id not in twins and (twin := twins.get(job.only_for or "")) and twin not in left_out
    ]
    ids = {job.id for job, _ in asked}
    certain = [job for job, twin in asked if twin not in ids]
    return certain or [job for job, _ in asked[:1]]


def without_twins(jobs: Sequence[NewJob], twins: Mapping[str, Inserted]) -> list[NewJob]:
    """The jobs to insert. They wait for the twins of blockers that are not inserted."""
    return [
        job
        if twins.keys().isdisjoint(job.blockers)
        else msgspec.structs.replace(
            job, blockers=tuple(twins[id].id if id in twins else id for id in job.blockers)
        )
        for job in jobs
        if job.id not in twins
    ]


def insert_answers(
    jobs: Sequence[NewJob], twins: Mapping[str, Inserted], stored: Mapping[str, Inserted]
) -> list[Inserted]:
    """The answers to `insert`, in the order of the jobs."""
    answers: list[Inserted] = []
    for job in jobs:
        twin = twins.get(job.id)
        if twin is None:
            answers.append(stored[job.id])
        else:
            found = stored.get(twin.id, twin)
            answers.append(Inserted(twin.id, found.run_at, found.blocked, deduplicated=True))
    return answers
