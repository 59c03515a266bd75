"""How the items of a batch become parameters."""

from __future__ import annotations

from typing import Any

from headway.ports.statement import Statement


def with_columns(statement: Statement) -> tuple[Any, ...]:
    """For SQL that takes arrays: the columns of the items, then the other parameters."""
    if statement.rows is None:
        return statement.params
    return (*map(list, zip(*statement.rows, strict=True)), *statement.params)
