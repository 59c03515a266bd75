"""Lists as the text of PostgreSQL's arrays: what goes in comes out again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import RawCursor

from headway.drivers.postgres_statement_parameters import array_literal, text_parameters
from headway.ports.statement import Statement
from tests.support.servers.postgres import PostgresServer

STORABLE = st.characters(exclude_characters="\0", exclude_categories=("Cs",))


@pytest.fixture(scope="module")
def cursor(postgres_server: PostgresServer) -> Any:
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        yield RawCursor(connection)


@given(st.lists(st.none() | st.text(STORABLE)))
def test_texts_survive(cursor: RawCursor[Any], texts: list[str | None]) -> None:
    cursor.execute("select $1::text[]", (array_literal(texts),))
    assert cursor.fetchone() == (texts,)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int[]", [1, None, -(2**31)]),
        ("float8[]", [0.1, None, 1e300, float("inf")]),
        ("bool[]", [True, None, False]),
        (
            "timestamptz[]",
            [datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), None, datetime(1, 1, 2, tzinfo=UTC)],
        ),
    ],
)
def test_other_values_survive(cursor: RawCursor[Any], kind: str, values: list[Any]) -> None:
    cursor.execute(f"select $1::{kind}".encode(), (array_literal(values),))
    assert cursor.fetchone() == (values,)


def test_what_cannot_be_written_is_left_to_the_driver(cursor: RawCursor[Any]) -> None:
    for values in (["\0"], [None, "a\0b"], ["a", b"b"], [object()]):
        assert array_literal(values) is values
    with pytest.raises(psycopg.DataError, match="NUL"):
        cursor.execute("select $1::text[]", (array_literal(["a\0b"]),))


def test_columns_come_before_other_parameters() -> None:
    statement = Statement("", (7, ["x"], None), [("a", 1), ("b", 2)])
    assert text_parameters(statement) == ('{"a","b"}', "{1,2}", 7, '{"x"}', None)
