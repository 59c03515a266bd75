"""A conformance case, the groups in which cases are declared, and the check for an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, ParamSpec, Self, TypeVar

import msgspec

S = TypeVar("S")
D = ParamSpec("D")
X = TypeVar("X")
R = TypeVar("R")


class Case(msgspec.Struct, Generic[S, D], frozen=True):
    """One promise. `function` is given a subject, and raises if the subject breaks the promise."""

    name: str
    """The group, the promise, and the variant if there are several."""
    function: Callable[[S], Any]
    fits: Callable[D, bool]
    """Whether a subject that declares these properties has to keep the promise."""


class Cases(Generic[S, D]):
    """The cases of one group, in the order of their declaration: `@case` declares one."""

    def __init__(self, group: str = "", fits: Callable[D, bool] | None = None) -> None:
        """`fits` limits all cases of the group."""
        self.group = group
        self.found: list[Case[S, D]] = []
        self._fits = fits

    def __call__(self, function: Callable[[S], R]) -> Callable[[S], R]:
        self._add(_name(function), function, None)
        return function

    def only(self, fits: Callable[D, bool]) -> Callable[[Callable[[S], R]], Callable[[S], R]]:
        """Declare a case for some subjects only."""

        def declare(function: Callable[[S], R]) -> Callable[[S], R]:
            self._add(_name(function), function, fits)
            return function

        return declare

    def each(
        self, variants: Mapping[str, X]
    ) -> Callable[[Callable[[S, X], R]], Callable[[S, X], R]]:
        """Declare a case for each variant; the function is given it after the subject."""

        def declare(function: Callable[[S, X], R]) -> Callable[[S, X], R]:
            for name, variant in variants.items():
                self._add(f"{_name(function)}[{name}]", partial(_call, function, variant), None)
            return function

        return declare

    def _add(self, name: str, function: Callable[[S], Any], fits: Callable[D, bool] | None) -> None:
        conditions = [each for each in (self._fits, fits) if each is not None]

        def fits_all(*args: D.args, **kwargs: D.kwargs) -> bool:
            return all(fits(*args, **kwargs) for fits in conditions)

        self.found.append(Case(f"{self.group}/{name}".lstrip("/"), function, fits_all))


class raises:  # noqa: N801 - it reads like the statement it stands for
    """Insist that one of these errors is raised in the block; `error` is the one that was."""

    error: Exception

    def __init__(self, *kinds: type[Exception]) -> None:
        self.kinds = kinds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, traceback: object) -> bool:
        if error is None:
            names = " or ".join(kind.__name__ for kind in self.kinds)
            raise AssertionError(f"{names} was not raised")
        if isinstance(error, self.kinds):
            self.error = error
            return True
        return False


def _call(function: Callable[[S, X], R], variant: X, subject: S) -> R:
    return function(subject, variant)


def _name(function: Callable[..., object]) -> str:
    return getattr(function, "__name__", repr(function))
