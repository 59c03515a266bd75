"""The rows, how they are found, and how changes to them are journaled, kept or undone.

Everything here happens while `Table.drive` holds the mutex. Verbs check before they change, so a
verb that runs by itself needs no journal; there is one as soon as a transaction is open, several
verbs are composed into one operation, or a verb asks for one with `_journaled`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

from headway.domain.job import JobState
from headway.errors import StoreClosed, StoreError
from headway.ports.statement import Operation
from headway.runtime.forks import Forkable
from headway.stores.memory.pending import Lanes
from headway.stores.memory.row import Row, restore, root_id
from headway.stores.memory.transaction import Journal, Locked, MemoryTransaction

T = TypeVar("T")


class Table(Forkable):
    name = "memory"

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        """What transactions have kept in their `data` and committed."""
        self._mutex = threading.RLock()
        self._is_open = False
        self._transactions: set[MemoryTransaction] = set()
        self._tx: MemoryTransaction | None = None
        """The transaction in which the operation at hand runs."""
        self._journal: Journal | None = None
        """What the operation at hand has changed."""
        self._rows: dict[str, Row] = {}
        self._running: dict[str, Row] = {}
        self._lanes = Lanes()
        self._keys: dict[tuple[str, str], dict[Row, None]] = {}
        """First jobs by type and deduplication key, oldest first."""
        self._families: dict[str, dict[Row, None]] = {}
        """Jobs by root, roots themselves left out."""
        self._is_copy = False
        self.watch_forks()

    def in_child(self) -> None:
        self._mutex = threading.RLock()
        self._is_copy, self._is_open = self._is_open, False

    def _drive(self, tx: MemoryTransaction | None, start: Callable[[], Operation[T]]) -> T:
        """Run an operation to its end; nothing of it is left if it raises."""
        with self._mutex:
            if not self._is_open:
                raise StoreClosed(self.name)
            if tx is not None and tx not in self._transactions:
                raise StoreError(
                    "the transaction has ended, or belongs to another store; begin another one"
                )
            outer = self._tx, self._journal
            self._tx, self._journal = tx, None
            try:
                with self._journaled():
                    return _result(start())
            finally:
                self._tx, self._journal = outer

    def _drive_verb(self, start: Callable[[], Operation[T]]) -> T:
        """The same for a single verb of our own outside of transactions, without a journal if
        nobody could be in its way."""
        with self._mutex:
            if self._transactions or self._journal is not None or not self._is_open:
                return self._drive(None, start)
            return _result(start())

    @contextmanager
    def _journaled(self) -> Generator[Journal]:
        """What is changed inside is undone if an exception leaves it."""
        if self._journal is not None:
            yield self._journal
            return
        self._journal = journal = Journal()
        try:
            yield journal
        except BaseException:
            self._journal = None
            self._roll_back(journal)
            raise
        self._journal = None
        if self._tx is not None:
            self._tx.journal.absorb(journal)
        else:
            self._conclude(journal)

    def _begin_transaction(self, tx: MemoryTransaction) -> None:
        with self._mutex:
            if not self._is_open:
                raise StoreClosed(self.name)
            self._transactions.add(tx)

    def _end_transaction(self, tx: MemoryTransaction, commit: bool) -> None:
        with self._mutex:
            if commit:
                self._conclude(tx.journal)
                tx.data.apply()
            else:
                self._roll_back(tx.journal)
            self._transactions.discard(tx)
        tx.ended.set_result(None)
        if commit:
            for callback in tx.callbacks:
                callback()

    def _conclude(self, journal: Journal) -> None:
        for row in journal.images:
            row.owner = None
            if row.dead:
                self._forget(row)
            else:
                self._place(row)

    def _roll_back(self, journal: Journal) -> None:
        """Undo what the journal holds; rows that the transaction at hand had changed before stay
        its own."""
        for undo in reversed(journal.undo):
            undo()
        earlier = self._tx.journal.images if self._tx is not None else {}
        for row, image in journal.images.items():
            row.owner = self._tx if row in earlier else None
            if image is None:
                self._forget(row)
            else:
                restore(row, image)
                self._place(row)

    def _place(self, row: Row) -> None:
        """See to it that the row is found where one in its state is looked for."""
        if row.state is JobState.PENDING:
            if row.entry is None or row.entry[1] != row.run_at:
                self._lanes.push(row)
        else:
            row.entry = None
        if row.state is JobState.RUNNING:
            self._running[row.id] = row
        else:
            self._running.pop(row.id, None)

    def _seen(self, row: Row) -> Row | None:
        """The row as the operation at hand may see it: not what others have not committed."""
        owner = row.owner
        if owner is None or owner is self._tx:
            return None if row.dead else row
        return owner.journal.images[row]

    def _look(self, job_id: str) -> Row | None:
        """The row with this id, to be read only."""
        row = self._rows.get(job_id)
        return None if row is None else self._seen(row)

    def _look_last(self, sequence_id: str) -> Row | None:
        """The last job of a sequence, to be read only."""
        first = self._look(sequence_id)
        if first is None or first.first is not None:
            return None
        return first if first.last is None else self._seen(first.last)

    def _grasp(self, job_id: str) -> Row | None:
        """The row with this id, to be changed: the transaction at hand owns it from now on."""
        row = self._rows.get(job_id)
        if row is None or self._journal is None:
            return row
        if row.owner is not None and row.owner is not self._tx:
            if row.owner.journal.images[row] is None:
                return None
            raise Locked(row.owner)
        if row.dead:
            return None
        self._journal.note(row)
        row.owner = self._tx
        return row

    def _grasp_last(self, sequence_id: str) -> Row | None:
        """The last job of a sequence, to be changed."""
        last = self._look_last(sequence_id)
        if last is None or self._grasp(last.id) is None:
            return None
        # Had an open transaction continued the sequence, it would own the last job we know of.
        return self._rows[last.id]

    def _add(self, row: Row) -> None:
        """Keep a new row; its place among the pending is not given here."""
        spec = row.spec
        self._rows[row.id] = row
        if row.first is None and spec.dedup_key is not None:
            self._keys.setdefault((spec.type, spec.dedup_key), {})[row] = None
        if (root := root_id(row)) != row.id:
            self._families.setdefault(root, {})[row] = None
        for blocker in row.blockers:
            first = self._rows[blocker]
            if first.waiters is None:
                first.waiters = {}
            first.waiters[row] = None
        if self._journal is not None:
            self._journal.images[row] = None
            row.owner = self._tx

    def _drop(self, row: Row) -> None:
        """Delete a row that has been grasped."""
        row.dead = True
        if self._journal is None:
            self._forget(row)

    def _forget(self, row: Row) -> None:
        """Leave nothing of a row: it was deleted, or its insertion is undone."""
        spec = row.spec
        row.dead = True
        row.entry = None
        self._rows.pop(row.id, None)
        self._running.pop(row.id, None)
        if row.first is None and spec.dedup_key is not None:
            _discard(self._keys, (spec.type, spec.dedup_key), row)
        if (root := root_id(row)) != row.id:
            _discard(self._families, root, row)
        for blocker in row.blockers:
            first = self._rows.get(blocker)
            if first is not None and first.waiters is not None:
                first.waiters.pop(row, None)


def moment(now: datetime | None) -> datetime:
    """The time that an operation goes by: the one given, or our own clock's."""
    if now is None:
        return datetime.now(UTC)
    return now if now.tzinfo is UTC else now.astimezone(UTC)


def _discard(index: dict[Any, dict[Row, None]], key: object, row: Row) -> None:
    members = index.get(key)
    if members is not None:
        members.pop(row, None)
        if not members:
            del index[key]


def _result(operation: Operation[T]) -> T:
    try:
        wanted = next(operation)
    except StopIteration as stop:
        result: T = stop.value
        return result
    operation.close()
    raise TypeError(f"the memory store cannot execute {wanted!r}; run operations of its own")
