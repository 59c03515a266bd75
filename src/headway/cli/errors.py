"""Exit codes, and errors as one line on stderr instead of a traceback."""

from __future__ import annotations

import enum

import click

from headway.cli.safe_text import harmless
from headway.errors import (
    HeadwayError,
    InvalidRequest,
    JobNotFound,
    ResultTimeout,
    ScheduleNotFound,
    SchemaMissing,
    SchemaOutdated,
    StoreUnreachable,
)

LONGEST_MESSAGE = 20_000
"""Characters: a traceback fits."""


class Exit(enum.IntEnum):
    """Exit codes of all commands; docs/command.md lists them."""

    OK = 0
    PROBLEM = 1
    """A problem was found, or an error happened."""
    USAGE = 2
    """The command line, a filter or an argument is wrong; nothing was done."""
    NOT_FOUND = 3
    UNREACHABLE = 4
    """The database or dashboard does not answer, or its schema does not fit."""
    REFUSED = 5
    """Not confirmed, or not allowed."""
    TIMEOUT = 6
    """The job did not end in time."""
    INTERRUPTED = 130


class Failed(click.ClickException):
    """`Error: …` on stderr, and this exit code."""

    def __init__(self, message: str, code: Exit = Exit.PROBLEM) -> None:
        super().__init__(harmless(message, longest=LONGEST_MESSAGE, keep_lines=True))
        setattr(self, "exit_code", code)  # noqa: B010 - click declares it for the class alone


def code_of(error: HeadwayError) -> Exit:
    match error:
        case JobNotFound() | ScheduleNotFound():
            return Exit.NOT_FOUND
        case StoreUnreachable() | SchemaMissing() | SchemaOutdated():
            return Exit.UNREACHABLE
        case ResultTimeout():
            return Exit.TIMEOUT
        case InvalidRequest():
            return Exit.USAGE
        case _:
            return Exit.PROBLEM
