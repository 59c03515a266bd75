"""Logs of `headway worker`: lines or JSON, each with its job."""

from __future__ import annotations

import logging
import os
import sys

import click

from headway.observers.log_formats import JobFields, JsonFormatter, LineFormatter

FORMAT = "HEADWAY_LOG_FORMAT"
_FORMATTERS: dict[str, type[logging.Formatter]] = {"text": LineFormatter, "json": JsonFormatter}


def set_up_logs(*, verbose: bool) -> None:
    """On stderr. The app's own handlers stay, unless HEADWAY_LOG_FORMAT is set."""
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
