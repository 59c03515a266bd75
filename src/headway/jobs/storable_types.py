"""Which types JSON can hold: found out once, when a job type is declared."""

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
"""What is read from JSON."""


def check_storable(type_: Any) -> None:
    """Raise TypeError for a type that holds another one which has no form in JSON."""
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
    """Whether it is a pydantic model. Pydantic is asked only if someone has imported it."""
    pydantic = sys.modules.get("pydantic")
    return (
        pydantic is not None and isinstance(type_, type) and issubclass(type_, pydantic.BaseModel)
    )


def _parts(info: inspect.Type, seen: set[int]) -> Iterator[inspect.Type]:
    """The type and all that it is made of; one that holds itself once."""
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
    """Whether it stands for one of these kinds as well, as `object` and `Hashable` do."""
    if hasattr(cls, "__class_getitem__"):  # `Iterable[int]`, of which only `Iterable` is left here
        return False
    try:
        return any(issubclass(kind, cls) for kind in kinds)
    except TypeError:  # not a class, or a protocol that says nothing about classes
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
