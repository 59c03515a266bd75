"""Arguments of jobs: encoded and checked when a request is made, decoded for the handler."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Protocol, Union, get_args, get_origin
from uuid import UUID

import msgspec

from headway.errors import ConfigurationError, InvalidPayload
from headway.jobs.signature import Parameter
from headway.ports.codec import Codec

Bound = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""

_PLAIN_DEFAULTS = (type(None), bool, int, float, str, bytes)


class Arguments(Protocol):
    """Encodes the arguments of one job type and decodes them. Safe to use from any thread."""

    count: int
    """Number of arguments."""
    names: tuple[str, ...] | None
    """Names of the arguments; None: one argument without a name."""

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str: ...

    def decode(self, text: str) -> Bound: ...

    def check_key(self, name: object) -> None:
        """Refuse a name that is not that of an argument whose value can be a key."""
        ...

    def key(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """The value of that argument as a key; None: no key."""
        ...


class NamedArguments:
    """The arguments of a function, stored as an object with a field for each given argument.

    Decoding ignores unknown fields and fills missing ones with the function's defaults, so that
    producers and workers can have different versions.
    """

    def __init__(self, type: str, parameters: Iterable[Parameter], codec: Codec) -> None:
        self._type = type
        ordered = sorted(parameters, key=lambda parameter: parameter.keyword_only)
        self._names = tuple(parameter.name for parameter in ordered)
        self._positional = tuple(p.name for p in ordered if not p.keyword_only)
        self._keywords = self._names[len(self._positional) :]
        self._required = tuple(parameter.name for parameter in ordered if parameter.required)
        self._known = frozenset(self._names)
        self._types = {parameter.name: parameter.type for parameter in ordered}
        self._defaults = {p.name: p.default for p in ordered if not p.required}
        self.count = len(self._names)
        self.names: tuple[str, ...] | None = self._names
        try:
            struct = msgspec.defstruct("Arguments", map(_field, ordered), kw_only=True)
            self._coder = codec.coder(struct, what=f"the input of job type {type!r}")
        except (TypeError, ConfigurationError):
            for parameter in ordered:  # to name the unsupported one
                codec.coder(
                    parameter.type, what=f"parameter {parameter.name!r} of job type {type!r}"
                )
            raise

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        given = dict(zip(self._positional, args, strict=False))
        if len(args) > len(self._positional):
            raise InvalidPayload(
                f"job type {self._type!r} takes at most {len(self._positional)} positional "
                f"arguments ({', '.join(self._positional) or 'none'}), {len(args)} were given"
            )
        if kwargs:
            for name in kwargs:
                if name not in self._known:
                    raise InvalidPayload(
                        f"job type {self._type!r} has no parameter {name!r}; "
                        f"it takes {', '.join(self._names) or 'no arguments'}"
                    )
                if name in given:
                    raise InvalidPayload(
                        f"job type {self._type!r} was given {name!r} twice, by position and by name"
                    )
            given |= kwargs
        for name in self._required:
            if name not in given:
                raise InvalidPayload(f"job type {self._type!r} is missing its argument {name!r}")
        return self._coder.encode(given)

    def check_key(self, name: object) -> None:
        if not isinstance(name, str) or name not in self._known:
            known = ", ".join(self._names) or "none"
            raise ConfigurationError(
                f"key= of job type {self._type!r} is the name of one of its arguments ({known}), "
                f"not {name!r}"
            )
        if not _may_be_key(self._types[name]):
            raise ConfigurationError(
                f"argument {name!r} of job type {self._type!r} cannot be its key: a key is a str, "
                "an int, a UUID, an enum of str or int, or None"
            )

    def key(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        given = {**dict(zip(self._positional, args, strict=False)), **kwargs}
        value = given.get(name, self._defaults.get(name))
        if isinstance(value, Enum):
            value = value.value
        return None if value is None else str(value)

    def decode(self, text: str) -> Bound:
        values = msgspec.structs.astuple(self._coder.decode(text))
        if not self._keywords:
            return values, {}
        split = len(self._positional)
        return values[:split], dict(zip(self._keywords, values[split:], strict=True))


class OneArgument:
    """The one argument of a declared job type, stored as it is."""

    def __init__(self, type: str, input: Any, codec: Codec) -> None:
        self._type = type
        self.count = 1
        self.names: tuple[str, ...] | None = None
        self._coder = codec.coder(input, what=f"the input of job type {type!r}")

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        if kwargs or len(args) != 1:
            raise InvalidPayload(f"job type {self._type!r} takes its input as the one argument")
        return self._coder.encode(args[0])

    def decode(self, text: str) -> Bound:
        return (self._coder.decode(text),), {}

    def check_key(self, name: object) -> None:
        raise ConfigurationError(
            f"job type {self._type!r} has one argument without a name, so that key= cannot name "
            "one: give the key to its requests"
        )

    def key(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        return None


def _may_be_key(given: Any) -> bool:
    """Whether values of this type can be made the text of a key."""
    if get_origin(given) in (Union, UnionType):
        return all(map(_may_be_key, get_args(given)))
    if not isinstance(given, type):
        return False
    if issubclass(given, Enum):
        return all(isinstance(each.value, str | int) for each in given)
    return issubclass(given, str | int | UUID | NoneType)


def _field(parameter: Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.required:
        return parameter.name, parameter.type
    default = parameter.default
    if isinstance(default, _PLAIN_DEFAULTS):
        return parameter.name, parameter.type, default
    return parameter.name, parameter.type, msgspec.field(default_factory=lambda: default)
