"""What a conformance case is, and how the files of this suite declare theirs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

import msgspec

from headway.ports.store import Capabilities, Store

X = TypeVar("X")

Check = Callable[[Store], Awaitable[None]]


class Case(msgspec.Struct, frozen=True):
    """One promise. `function` is given an open, migrated, empty store and raises if it breaks it.

    The function may close the store, but leaves opening and emptying to whoever calls it.
    """

    name: str
    """The file, what is promised, and the variant where there are several."""
    function: Check
    requires: frozenset[str] = frozenset()
    """Names of capabilities without which the case makes no sense."""

    def fits(self, capabilities: Capabilities) -> bool:
        return all(getattr(capabilities, name) for name in self.requires)


class Cases:
    """The cases of one file, in the order in which they are written."""

    def __init__(self, verb: str, *, requires: tuple[str, ...] = ()) -> None:
        self.verb = verb
        self.requires = frozenset(requires)
        self.found: list[Case] = []

    def __call__(self, function: Check) -> Check:
        """Declare a case."""
        return self.requiring()(function)

    def requiring(self, *capabilities: str) -> Callable[[Check], Check]:
        """Declare a case for stores with these capabilities only."""

        def declare(function: Check) -> Check:
            self._add(_name(function), function, capabilities)
            return function

        return declare

    def each(
        self, variants: Mapping[str, X]
    ) -> Callable[[Callable[[Store, X], Awaitable[None]]], Callable[[Store, X], Awaitable[None]]]:
        """Declare a case for each variant; the function is given it after the store."""

        def declare(
            function: Callable[[Store, X], Awaitable[None]],
        ) -> Callable[[Store, X], Awaitable[None]]:
            for name, variant in variants.items():
                self._add(f"{_name(function)}[{name}]", partial(_call, function, variant), ())
            return function

        return declare

    def _add(self, name: str, function: Check, capabilities: tuple[str, ...]) -> None:
        self.found.append(
            Case(f"{self.verb}/{name}", function, self.requires | frozenset(capabilities))
        )


def _call(
    function: Callable[[Store, X], Awaitable[None]], variant: X, store: Store
) -> Awaitable[None]:
    return function(store, variant)


def _name(function: Callable[..., object]) -> str:
    return getattr(function, "__name__", repr(function))
