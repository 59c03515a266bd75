"""The jobs under one root as a graph: continuations, blockers, started jobs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from headway.domain.job import JobRecord
from headway.domain.lifecycle import shown_state
from headway.domain.views import EdgeKind, GraphEdge, GraphNode, SequenceGraph


def draw(
    root_id: str, jobs: Iterable[JobRecord], now: datetime, *, complete: bool
) -> SequenceGraph:
    """`complete` says whether these are all jobs. Edges connect only given jobs."""
    ordered = sorted(jobs, key=lambda job: (job.created_at, job.position, job.id))
    by_id = {job.id: job for job in ordered}
    positions: dict[str, dict[int, str]] = {}
    for job in ordered:
        positions.setdefault(job.sequence_id, {})[job.position] = job.id
    edges: list[GraphEdge] = []
    for job in ordered:
        before = positions[job.sequence_id].get(job.position - 1)
        if before is not None:
            edges.append(GraphEdge(source=before, target=job.id, link=EdgeKind.CONTINUES))
        for blocker in dict.fromkeys(job.blockers):
            if blocker in positions:
                last = positions[blocker][max(positions[blocker])]
                edges.append(GraphEdge(source=last, target=job.id, link=EdgeKind.BLOCKS))
        origin = by_id.get(job.origin_id or "")
        if origin is not None and origin.sequence_id != job.sequence_id:
            edges.append(GraphEdge(source=origin.id, target=job.id, link=EdgeKind.STARTED))
    return SequenceGraph(
        root_id=root_id,
        nodes=[
            GraphNode(
                job_id=job.id,
                type=job.type,
                state=shown_state(job, now),
                sequence_id=job.sequence_id,
                position=job.position,
                attempts=job.attempts,
            )
            for job in ordered
        ],
        edges=edges,
        complete=complete,
    )
