"""`headway why`: why one job is not running."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.job_text import print_explanation
from headway.cli.output import printed_by
from headway.cli.session import in_session
from headway.cli.target import DashboardUrl, target_option
from headway.domain.views import Explanation


@click.command()
@click.argument("id")
@target_option
@printed_by(print_explanation)
def why(id: str, target: Headway | DashboardUrl) -> Explanation:
    """Say in one sentence why a job is not running, or what it does."""
    return in_session(target, lambda session: session.questions.why(id))
