"""Statements and parameters for drivers that do not take a store's own placeholders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

_NUMBERED = re.compile(r"\$(\d+)")


@cache
def pyformat(sql: str) -> str:
    """`$1` as `%(1)s`, for psycopg's ordinary cursors and for drivers that wrap them."""
    return _NUMBERED.sub(r"%(\1)s", percent_doubled(sql))


@cache
def percent_doubled(sql: str) -> str:
    """For drivers to which a percent sign begins a placeholder."""
    return sql.replace("%", "%%")


def by_number(params: Sequence[Any]) -> dict[str, Any]:
    """Parameters by the names that `pyformat` gave them."""
    return {str(number): value for number, value in enumerate(params, 1)}
