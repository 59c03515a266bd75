"""Parameters of statements for PostgreSQL, whose batches and lists are arrays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headway.ports.statement import Statement


def array_parameters(statement: Statement) -> tuple[Any, ...]:
    """Parameters with lists as arrays: one for each column of a batch, then the others."""
    if statement.rows is None:
        return statement.params
    return (*map(list, zip(*statement.rows, strict=True)), *statement.params)


def text_parameters(statement: Statement) -> tuple[Any, ...]:
    """The same for psycopg, with arrays as text in PostgreSQL's notation: psycopg itself writes
    arrays element by element in Python, which takes thirty times as long."""
    return tuple(
        [
            array_literal(value) if value.__class__ is list else value
            for value in array_parameters(statement)
        ]
    )


def array_literal(values: Sequence[Any]) -> Any:
    """`{"a","b"}`; values without such a text are left to the driver, which refuses them."""
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
