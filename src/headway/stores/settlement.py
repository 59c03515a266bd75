"""Rules of `settle` that the stores share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from headway.domain.job import NewJob
from headway.domain.lease import Verdict
from headway.domain.settlement import Complete, Freed, Settled, Settlement, without_repeats
from headway.ports.statement import Operation


def settle_in_batches(
    settle: Callable[[Sequence[Settlement], datetime | None], Operation[Settled]],
    settlements: Sequence[Settlement],
    now: datetime | None,
) -> Operation[Settled]:
    """Settle batches in which each job appears once."""
    verdicts: list[Verdict] = []
    freed: list[Freed] = []
    for batch in without_repeats(settlements):
        answer = yield from settle(batch, now)
        verdicts += answer.verdicts
        freed += answer.freed
    return Settled(verdicts, freed)


def successors_of(completions: Iterable[Complete]) -> dict[str, NewJob]:
    """The successors by the ids of the jobs that they follow."""
    return {done.job_id: done.successor for done in completions if done.successor is not None}


def with_schedule(successor: NewJob, name: str | None, tick: datetime | None) -> NewJob:
    """The successor of a job with this schedule and tick, which it inherits."""
    if name is None:
        return successor
    return msgspec.structs.replace(successor, schedule_name=name, scheduled_for=tick)


class CompletionEffects:
    """What follows the completion of jobs, given their ids, their sequences' ids, and whether other
    jobs wait for the sequence."""

    def __init__(
        self, completed: Iterable[tuple[str, str, bool]], successors: Mapping[str, NewJob]
    ) -> None:
        self.following: list[NewJob] = []
        self.awaited: set[str] = set()
        """Ids of successors that others wait for."""
        self.ended: list[str] = []
        """Ids of sequences that have completed and that others wait for."""
        for job_id, sequence_id, is_awaited in completed:
            successor = successors.get(job_id)
            if successor is not None:
                self.following.append(successor)
                if is_awaited:
                    self.awaited.add(successor.id)
            elif is_awaited:
                self.ended.append(sequence_id)
