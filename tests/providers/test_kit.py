"""The test kit finds what is wrong with a provider."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.drivers.sqlite import execute
from headway.ports.statement import Row, Statement
from headway.providers.sqlite3 import Sqlite3
from headway.testing.conformance.provider import ProviderFixture, Subject, cases_for
from tests.providers.connections import sqlite3_connection


class Good(Sqlite3):
    pass


class Committing(Sqlite3):
    def execute(self, tx: sqlite3.Connection, statement: Statement) -> Sequence[Row]:
        rows = super().execute(tx, statement)
        tx.commit()
        return rows


class Hasty(Sqlite3):
    def after_commit(self, tx: sqlite3.Connection, callback: Callable[[], None]) -> bool:
        callback()
        return True


class Untidy(Sqlite3):
    def execute(self, tx: sqlite3.Connection, statement: Statement) -> Sequence[Row]:
        tx.row_factory = None
        return super().execute(tx, statement)


class Careless(Sqlite3):
    def execute(self, tx: sqlite3.Connection, statement: Statement) -> Sequence[Row]:
        if not tx.in_transaction and tx.isolation_level is not None:
            tx.execute("begin")
        return execute(tx, statement)


FAULTS = {
    Good: None,
    Committing: "a_commit_makes_the_job_visible_and_wakes",
    Hasty: "a_commit_makes_the_job_visible_and_wakes",
    Untidy: "the_connection_is_left_as_it_was_found",
    Careless: "a_connection_that_cannot_be_rolled_back_is_refused",
}


def test_the_kit_makes_one_context_manager_that_it_does_not_enter(tmp_path: Path) -> None:
    """A manager may hold a connection from its beginning, which only leaving it closes."""
    path = tmp_path / "shop.db"
    sound = sqlite3_connection(f"sqlite:///{path}", path)
    made: list[str] = []
    entered: list[str] = []

    @contextmanager
    def noted(manager: Any) -> Iterator[Any]:
        with manager as tx:
            entered.append("entered")
            yield tx

    def transaction() -> Any:
        made.append("made")
        return noted(sound.transaction())

    subject = replace(sound, transaction=transaction)
    with ProviderFixture(subject) as fixture:
        assert _first_broken(fixture, subject) is None
    assert len(made) == len(entered) + 1


@pytest.mark.parametrize("provider", FAULTS)
def test_a_fault_is_found(provider: type[Sqlite3], tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    sound = sqlite3_connection(f"sqlite:///{path}", path)
    subject = Subject(
        sound.url,
        sound.transaction,
        sound.execute,
        look=sound.look,
        unsafe=sound.unsafe,
        providers=[provider()],
    )
    with ProviderFixture(subject) as fixture:
        assert _first_broken(fixture, subject) == FAULTS[provider]


def _first_broken(fixture: ProviderFixture, subject: Subject) -> str | None:
    for case in cases_for(subject):
        try:
            case.function(fixture)
        except (AssertionError, sqlite3.Error):
            return case.name
    return None
