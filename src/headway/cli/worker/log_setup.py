"""How a worker's command logs: a line for people, or JSON for machines, with the job on each."""

from __future__ import annotations

import logging
import os
import sys

import click

from headway.observers.log_formats import JobFields, JsonFormatter, LineFormatter

FORMAT = "HEADWAY_LOG_FORMAT"
_FORMATTERS: dict[str, type[logging.Formatter]] = {"text": LineFormatter, "json": JsonFormatter}


def set_up_logs(*, verbose: bool) -> None:
    """On stderr. Handlers that the app has set up itself stay, unless a format is asked for."""
    wanted = os.environ.get(FORMAT, "")
    formatter = _FORMATTERS.get(wanted or "text")
    if formatter is None:
        raise click.UsageError(f"{FORMAT} is text or json, not {wanted!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter())
    handler.addFilter(JobFields())
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO, handlers=[handler], force=bool(wanted)
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    if not verbose:  # the worker says once that the database is away, and when it is back
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
