"""The part `mutants` takes out every comparison of a token or an expiry in the SQL stores."""

from __future__ import annotations

import re

import pytest

from headway.stores.sql.sql_files import whole_statements
from proof.mutants.sql_bugs import FENCE, FIRED, FIRING, seen_by_conformance

LEASE = r"\b(?:\w+\.)?lease_(?:token|until)\b"
COMPARISON = re.compile(rf"\b(?:where|on|and|or|when)\b.*(?:{LEASE}\s*[=<>]|[=<>]\s*{LEASE})")
NO_FENCE = {"postgres": {"where j.lease_until > coalesce($1::timestamptz, statement_timestamp())"}}
"""How far back the look for expired leases goes, by the beginning of the line."""


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_no_comparison_is_left_out(store: str) -> None:
    names = seen_by_conformance(store)
    missed: list[str] = []
    for statement, text in whole_statements(f"headway.stores.{store}").items():
        for line in text.splitlines():
            if not COMPARISON.search(line):
                continue
            if line.startswith(tuple(NO_FENCE.get(store, ()))):
                continue
            condition = line.strip().removeprefix("and ")
            if f"{store}: {statement}.sql without `{condition}`" not in names:
                missed.append(f"{statement}.sql: {line}")
    assert missed == []


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_no_condition_of_a_schedule_that_fires_is_left_out(store: str) -> None:
    names = seen_by_conformance(store)
    whole = whole_statements(f"headway.stores.{store}")
    for statement, text in whole.items():
        selects = "from /*headway*/schedule\n" in text and "order by next_at" in text
        assert selects == (statement in FIRING), statement
        if selects:
            conditions = [match[1] for match in FIRED.finditer(text)]
            assert len(conditions) == len(re.findall(r"\b(?:where|and)\b", _code(text)))
            for condition in conditions:
                assert f"{store}: {statement}.sql without `{condition}`" in names


def _code(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def test_a_comparison_is_told_from_an_assignment() -> None:
    assert COMPARISON.search("where j.lease_until > $1")
    assert COMPARISON.search("join job j on j.id = said.id and said.token = j.lease_token")
    assert not COMPARISON.search("    lease_until = null")
    assert not COMPARISON.search("where state = 'running' order by lease_until limit $2")
    assert FENCE.search("where j.state = 'running'\n    and j.lease_token = said.token\n")
