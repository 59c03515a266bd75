"""Transactions of the memory store, with the journal of their changes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterator, MutableMapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import Any, Generic, Self, TypeVar

from headway.errors import StoreError
from headway.stores.memory.row import JobRow

T = TypeVar("T")


class Journal:
    """The rows and records that were changed, as they were before."""

    __slots__ = ("images", "release", "undo")

    def __init__(self) -> None:
        self.images: dict[JobRow, JobRow | None] = {}
        """The content of rows before their first change; None for rows that are new."""
        self.undo: list[Callable[[], None]] = []
        """Undoes changes of records that are not rows."""
        self.release: list[Callable[[], None]] = []
        """Called at the commit, for records that the transaction has locked."""

    def save(self, row: JobRow) -> None:
        if row not in self.images:
            self.images[row] = copy.copy(row)

    def absorb(self, later: Journal) -> None:
        for row, image in later.images.items():
            self.images.setdefault(row, image)
        self.undo += later.undo
        self.release += later.release


class Record(Generic[T]):
    """What is no job, and is locked by the transaction that changes it."""

    __slots__ = ("before", "content", "owner")

    def __init__(self, content: T) -> None:
        self.content = content
        self.owner: MemoryTransaction | None = None
        """The open transaction that has locked it."""
        self.before = content
        """The content that others see meanwhile."""


class Locked(Exception):
    """An open transaction has changed the row: wait for its end and try again."""

    def __init__(self, owner: MemoryTransaction) -> None:
        self.owner = owner


class MemoryTransaction(
    AbstractAsyncContextManager["MemoryTransaction"], AbstractContextManager["MemoryTransaction"]
):
    """A transaction of the memory store: commits when left, rolls back when left by an exception.

    Others see its changes when it commits. A row that it has changed is its own until it ends:
    others that change the row wait, claims pass over it, and only its lease can be extended.
    `data` holds values that the user wants to commit together with jobs; the commit adds them to
    the store's `data`.
    """

    def __init__(
        self,
        begin: Callable[[MemoryTransaction], None],
        end: Callable[[MemoryTransaction, bool], None],
        data: MutableMapping[str, Any],
    ) -> None:
        self._begin = begin
        self._end = end
        self.data = TransactionData(data)
        self.journal = Journal()
        self.callbacks: list[Callable[[], None]] = []
        self.ended: Future[None] = Future()
        self.waits_for: MemoryTransaction | None = None

    def __enter__(self) -> Self:
        self._begin(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(self, kind is None)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.__exit__(kind)

    @contextmanager
    def waiting_for(self, other: MemoryTransaction) -> Generator[None]:
        """Meanwhile this transaction waits for the other. Raises StoreError for a deadlock."""
        ahead: MemoryTransaction | None = other
        while ahead is not None:
            if ahead is self:
                raise StoreError(
                    "two transactions wait for jobs that the other has changed; "
                    "roll one of them back and try it again"
                )
            ahead = ahead.waits_for
        self.waits_for = other
        try:
            yield
        finally:
            self.waits_for = None


_DELETED: Any = object()


class TransactionData(MutableMapping[str, Any]):
    """The store's `data` as one transaction sees it, with its own changes."""

    __slots__ = ("_base", "_changes")

    def __init__(self, base: MutableMapping[str, Any]) -> None:
        self._base = base
        self._changes: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        value = self._changes[key] if key in self._changes else self._base[key]
        if value is _DELETED:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        self._changes[key] = value

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._changes[key] = _DELETED

    def __iter__(self) -> Iterator[str]:
        keys = dict.fromkeys([*self._base, *self._changes])
        return (key for key in keys if self._changes.get(key) is not _DELETED)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def apply(self) -> None:
        """Make the changes part of the store's data."""
        for key, value in self._changes.items():
            if value is _DELETED:
                self._base.pop(key, None)
            else:
                self._base[key] = value
