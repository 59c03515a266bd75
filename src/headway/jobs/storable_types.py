"""Which types can be stored as JSON; checked once, when a job type is made."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from msgspec import inspect

_KEYS = (
    inspect.AnyType,
    inspect.StrType,
    inspect.IntType,
    inspect.FloatType,
    inspect.BytesType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.TimeType,
    inspect.TimeDeltaType,
    inspect.UUIDType,
    inspect.DecimalType,
    inspect.EnumType,
    inspect.LiteralType,
)
_VALUES = (dict, list, str, int, float, bool, type(None))
"""The types of decoded JSON values."""


def check_storable(type_: Any) -> None:
    """Raise TypeError if the type, or a type inside it, cannot be stored as JSON."""
    for part in _parts(inspect.type_info(type_), set()):
        match part:
            case inspect.CustomType() if _holds(part.cls, _VALUES) or is_model(part.cls):
                pass
            case inspect.CustomType():
                raise TypeError(
                    f"{_name(part.cls)} has no form in JSON; use text, numbers, a dataclass, or "
                    "another of the types that the guide to payloads lists"
                )
            case inspect.ExtType():
                raise TypeError("msgspec's Ext has no form in JSON; use bytes")
            case inspect.DictType():
                if not any(map(_is_key, _members(part.key_type))):
                    raise TypeError(
                        "the keys of a dict in JSON are text; use str, int, an Enum or another "
                        "type that is written as text"
                    )
            case _:
                pass


def is_model(type_: Any) -> bool:
    """Whether the type is a pydantic model. Pydantic itself is not imported here."""
    pydantic = sys.modules.get("pydantic")
    return (
        pydantic is not None and isinstance(type_, type) and issubclass(type_, pydantic.BaseModel)
    )


def _parts(info: inspect.Type, seen: set[int]) -> Iterator[inspect.Type]:
    """The type and the types inside it, each once."""
    if id(info) in seen:
        return
    seen.add(id(info))
    yield info
    for name in info.__struct_fields__:
        value: Any = getattr(info, name)
        several: list[Any] = [*value] if isinstance(value, tuple) else [value]
        for each in several:
            inner: Any = each.type if isinstance(each, inspect.Field) else each
            if isinstance(inner, inspect.Type):
                yield from _parts(inner, seen)


def _is_key(info: inspect.Type) -> bool:
    return isinstance(info, _KEYS) or (
        isinstance(info, inspect.CustomType) and _holds(info.cls, (str,))
    )


def _holds(cls: Any, kinds: tuple[type, ...]) -> bool:
    """Whether one of these kinds is a subclass of `cls`, as for `object` and `Hashable`."""
    if hasattr(cls, "__class_getitem__"):  # generic: `Iterable[int]` arrives here as `Iterable`
        return False
    try:
        return any(issubclass(kind, cls) for kind in kinds)
    except TypeError:  # not a class, or a protocol without `issubclass`
        return False


def _members(info: inspect.Type) -> tuple[inspect.Type, ...]:
    match info:
        case inspect.UnionType():
            return tuple(member for each in info.types for member in _members(each))
        case inspect.Metadata():
            return _members(info.type)
        case _:
            return (info,)


def _name(cls: Any) -> str:
    module = cls.__module__
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"
