"""Callbacks after the commit of a SQLAlchemy session, unless their savepoint was rolled back."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

_KEY = "headway.commits"


class _CommitCallbacks:
    """Callbacks of a session, by the transaction or savepoint that must not be rolled back."""

    def __init__(self, session: Session) -> None:
        self._waiting: dict[SessionTransaction, list[Callable[[], None]]] = {}
        event.listen(session, "after_commit", self._after_commit)
        event.listen(session, "after_transaction_end", self._after_end)

    def add(self, session: Session, callback: Callable[[], None]) -> None:
        current = _current(session)
        if current is not None:
            self._waiting.setdefault(current, []).append(callback)

    def _after_commit(self, session: Session) -> None:
        """Called for the outermost transaction, and for a savepoint when it is released."""
        ended = _current(session)
        callbacks = [] if ended is None else self._waiting.pop(ended, [])
        if not callbacks or ended is None:
            return
        outer = ended.parent
        while outer is not None and outer.parent is not None and not outer.nested:
            outer = outer.parent  # the session's own, around a flush
        if outer is None:
            for callback in callbacks:
                callback()
        else:
            self._waiting.setdefault(outer, []).extend(callbacks)

    def _after_end(self, session: Session, transaction: SessionTransaction) -> None:
        """Callbacks that still wait for an ended transaction were rolled back with it."""
        self._waiting.pop(transaction, None)


def call_after_commit(session: Session, callback: Callable[[], None]) -> None:
    """Call it when the session's outermost transaction has committed, unless that or the savepoint
    that is open now is rolled back."""
    commits = cast("_CommitCallbacks | None", session.info.get(_KEY))
    if commits is None:
        commits = session.info[_KEY] = _CommitCallbacks(session)
    commits.add(session, callback)


def _current(session: Session) -> SessionTransaction | None:
    return session.get_nested_transaction() or session.get_transaction()
