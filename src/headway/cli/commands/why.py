"""`headway why`: why one job is not running."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.job_text import print_reasons
from headway.cli.output import json_option, print_json, tell
from headway.cli.session import in_session
from headway.cli.target import DashboardUrl, target_option


@click.command()
@click.argument("id")
@target_option
@json_option
def why(id: str, target: Headway | DashboardUrl, as_json: bool) -> None:
    """Say in one sentence why a job is not running, or what it does."""
    explanation = in_session(target, lambda session: session.questions.why(id))
    if as_json:
        print_json(explanation)
        return
    tell(explanation.sentence)
    print_reasons(explanation)
