"""`headway stats`: how many jobs there are, and how fast they run."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.output import json_option, print_fields, print_json
from headway.cli.session import in_session
from headway.cli.target import DashboardUrl, target_argument
from headway.domain.queries import MAX_MINUTES
from headway.domain.text import number, span
from headway.domain.views import Percentiles


@click.command()
@target_argument
@click.option(
    "--minutes",
    type=click.IntRange(min=1, max=MAX_MINUTES),
    default=60,
    show_default=True,
    help="Minutes of throughput to show.",
)
@json_option
def stats(target: Headway | DashboardUrl, minutes: int, as_json: bool) -> None:
    """Show numbers of jobs, throughput and times."""
    found = in_session(target, lambda session: session.questions.overview(minutes=minutes))
    if as_json:
        print_json(found)
        return
    completed = sum(bucket.completed for bucket in found.throughput)
    failed = sum(bucket.failed for bucket in found.throughput)
    print_fields(
        [
            ("store", found.store),
            *((state.value, number(count)) for state, count in found.states.items()),
            ("workers", found.workers),
            ("per second", f"{found.per_second:,.1f}"),
            (f"last {minutes} m", f"{completed:,} completed, {failed:,} failed"),
            ("waited", _percentiles(found.waited)),
            ("ran", _percentiles(found.ran)),
            (
                "oldest waits",
                None if found.oldest_waiting is None else span(found.oldest_waiting),
            ),
            ("empty in", None if found.time_to_drain is None else span(found.time_to_drain)),
        ]
    )


def _percentiles(found: Percentiles | None) -> str | None:
    if found is None:
        return None
    return (
        f"p50 {span(found.p50)}, p95 {span(found.p95)}, p99 {span(found.p99)}"
        f" (the last {found.samples:,})"
    )
