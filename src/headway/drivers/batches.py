"""How the items of a batch, and lists, become parameters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headway.ports.statement import Statement


def with_columns(statement: Statement) -> tuple[Any, ...]:
    """For SQL that takes arrays: the columns of the items, then the other parameters."""
    if statement.rows is None:
        return statement.params
    return (*map(list, zip(*statement.rows, strict=True)), *statement.params)


def with_literals(statement: Statement) -> tuple[Any, ...]:
    """The same for psycopg, with arrays as the text that PostgreSQL reads: psycopg writes them
    element by element in Python, which takes thirty times as long."""
    return tuple(
        [
            array_literal(value) if value.__class__ is list else value
            for value in with_columns(statement)
        ]
    )


def array_literal(values: Sequence[Any]) -> Any:
    """`{"a","b"}`; what has no such text is left to the driver, and to its complaint."""
    try:
        joined = "\0".join(values)  # no text that PostgreSQL takes holds a NUL
    except TypeError:
        elements = [_element(value) for value in values]
        return values if None in elements else f"{{{','.join(map(str, elements))}}}"
    if joined.count("\0") >= len(values):
        return values if values else "{}"
    return '{"' + _escaped(joined).replace("\0", '","') + '"}'


def _element(value: object) -> str | None:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return None if "\0" in value else f'"{_escaped(value)}"'
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime):
        return f'"{value.isoformat()}"'
    return None


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
