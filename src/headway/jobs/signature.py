"""The signature of a handler: its parameters, blockers and result, read when it is registered."""

from __future__ import annotations

import contextlib
import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin

from headway.domain.request import Continuation
from headway.errors import ConfigurationError
from headway.jobs.job import Job

_REFUSED = {
    inspect.Parameter.VAR_POSITIONAL: "takes *{}; arguments are stored by name, so list them",
    inspect.Parameter.VAR_KEYWORD: "takes **{}; name every argument, or take one dict",
    inspect.Parameter.POSITIONAL_ONLY: "has the positional-only parameter {!r}; arguments are "
    "stored by name, so remove the `/`",
}

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: Any
    default: Any
    """`inspect.Parameter.empty`: the parameter has no default."""
    keyword_only: bool

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Signature:
    parameters: tuple[Parameter, ...]
    """All but the Job."""
    takes_job: bool
    blockers: tuple[Any, ...]
    """The types of the blockers' results."""
    any_number: bool
    """The last type in `blockers` stands for any number of blockers."""
    result: Any
    """The type of the result of a sequence that begins with this function."""
    asynchronous: bool

    @property
    def needs(self) -> int | None:
        """How many blockers must be given; None: any number."""
        return None if self.any_number else len(self.blockers)


def handler_function(given: Any) -> Callable[..., Any]:
    """The function that a worker calls. Raises ConfigurationError for anything else but a function
    or a static method."""
    if isinstance(given, staticmethod):
        given = given.__func__
    if isinstance(given, classmethod) or _is_method(given):
        raise ConfigurationError(
            f"the handler {given.__qualname__} is a method, and a worker has no object to call it "
            "on; use a function or a static method"
        )
    if not inspect.isroutine(given):
        raise ConfigurationError(
            f"a job type is made from a function, not from {given!r}; options are given by name"
        )
    return given


def read_signature(function: Callable[..., Any]) -> Signature:
    where = f"the handler {function.__qualname__}"
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise ConfigurationError(f"{where} is a generator; a handler returns its one result")
    hints = _hints(function, where)
    given = list(inspect.signature(function).parameters.values())
    blockers: tuple[Any, ...] = ()
    takes_job = any_number = False
    if given and _is_job(hints.get(given[0].name)):
        takes_job = True
        if given[0].kind not in _BY_PLACE:
            raise ConfigurationError(
                f"{where} takes its Job as {given[0].name!r}, which cannot be given by position; "
                "write `job: Job` first"
            )
        blockers, any_number = _blockers(hints[given[0].name], where)
        del given[0]
    parameters: list[Parameter] = []
    for parameter in given:
        if parameter.kind in _REFUSED:
            raise ConfigurationError(f"{where} {_REFUSED[parameter.kind].format(parameter.name)}")
        hint = hints.get(parameter.name, Any)
        if _is_job(hint):
            raise ConfigurationError(f"{where} must take its Job first, not as {parameter.name!r}")
        keyword_only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        parameters.append(Parameter(parameter.name, hint, parameter.default, keyword_only))
    return Signature(
        tuple(parameters),
        takes_job,
        blockers,
        any_number,
        _result(hints.get("return", Any)),
        inspect.iscoroutinefunction(function),
    )


def _hints(function: Callable[..., Any], where: str) -> dict[str, Any]:
    """The annotations as types. Names in text are looked up in the module of the function and
    among the variables around it that its body uses."""
    try:
        return typing.get_type_hints(function, localns=_closure(function), include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"the annotations of {where} cannot be read: {error}; define the name at the top level "
            f"of {function.__module__}, or import it there, not only under TYPE_CHECKING"
        ) from error
    except Exception as error:
        raise ConfigurationError(
            f"the annotations of {where} cannot be read: {type(error).__name__}: {error}"
        ) from error


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    """The variables around a function that its body uses, by name."""
    inner: Any = inspect.unwrap(function)
    inner = getattr(inner, "__func__", inner)
    found: dict[str, Any] = {}
    if inspect.isfunction(inner):
        for name, cell in zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # empty, as for the name of the function itself
                found[name] = cell.cell_contents
    return found


def _is_method(given: Any) -> bool:
    """Whether the function is defined in the body of a class and takes `self` or `cls`."""
    if not inspect.isfunction(given):
        return False
    around = given.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(given).parameters), None)
    return bool(around) and not around.endswith("<locals>") and first in ("self", "cls")


def _is_job(hint: Any) -> bool:
    return hint is Job or get_origin(hint) is Job


def _blockers(hint: Any, where: str) -> tuple[tuple[Any, ...], bool]:
    """The types in `Job[A, B]`, and whether the last was written as `*tuple[B, ...]`."""
    found: list[Any] = []
    any_number = False
    for argument in get_args(hint):
        if any_number:
            raise ConfigurationError(f"{where}: `*tuple[T, ...]` must be the last type of its Job")
        inner = _unpacked(argument)
        if inner is None:
            found.append(argument)
        elif len(inner) == 2 and inner[1] is Ellipsis:
            found.append(inner[0])
            any_number = True
        else:
            found.extend(inner)
    return tuple(found), any_number


def _unpacked(argument: Any) -> tuple[Any, ...] | None:
    """The arguments of `*tuple[…]` or `Unpack[tuple[…]]`; None if it is neither."""
    if getattr(argument, "__unpacked__", False):
        return get_args(argument)
    if get_origin(argument) is typing.Unpack:
        return get_args(get_args(argument)[0])
    return None


def _result(hint: Any) -> Any:
    """`Continuation[A] | B` yields `A | B`; a bare Continuation can yield anything."""
    if hint is Continuation:
        return Any
    if get_origin(hint) is Continuation:
        return get_args(hint)[0]
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    parts = [_result(part) for part in get_args(hint)]
    if any(part is Any for part in parts):
        return Any
    return Union[tuple(parts)]  # noqa: UP007 - the members are only known at run time
