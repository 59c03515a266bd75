"""What the JSON codec stores and gives back, and what it refuses with one clear sentence."""

from __future__ import annotations

import enum
import math
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from headway.errors import ConfigurationError, InvalidOption, InvalidPayload
from headway.jobs.codec import JsonCodec


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    y: float = 0.0


@dataclass
class Line:
    points: list[Point]


class Parcel(TypedDict):
    name: str
    weight: NotRequired[float]


class Customer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    name: str
    born: date
    full: str = pydantic.Field(default="", alias="fullName")


def coder(type_: Any = Any, **settings: Any):
    return JsonCodec(**settings).coder(type_, what="the value")


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (int, 2**63 - 1),
        (int, -(2**63)),
        (float, 1.5),
        (str, "Grüße, 世界 \U0001f600 \t \x7f"),
        (bytes, b"\0\xff"),
        (bool, True),
        (datetime, datetime(2024, 1, 2, 3, 4, 5, 678901, UTC)),
        (timedelta, timedelta(days=1, microseconds=1)),
        (uuid.UUID, uuid.UUID(int=7)),
        (Decimal, Decimal("1.10")),
        (Colour, Colour.RED),
        (Point, Point(1, 2.5)),
        (Line, Line([Point(1)])),
        (Parcel, {"name": "a", "weight": 1.0}),
        (set[int], {1, 2}),
        (dict[int, tuple[str, int]], {1: ("a", 2)}),
        (Literal["a", "b"], "b"),
        (int | None, None),
        (Customer, Customer(name="Ada", born=date(1815, 12, 10), fullName="Ada L.")),
        (list[Customer], [Customer(name="Ada", born=date(1815, 12, 10))]),
        (Any, {"a": [1, None, "null", "\\u0000", "12345678901234567890"]}),
    ],
    ids=str,
)
def test_values_come_back_as_they_were(type_: Any, value: Any):
    tested = coder(type_)
    assert tested.decode(tested.encode(value)) == value


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (math.nan, "the value: NaN and infinity have no place in JSON; use None or a string"),
        (
            {"a": [1, -math.inf]},
            "the value, at a[1]: NaN and infinity have no place in JSON; use None or a string",
        ),
        (
            Point(1, math.nan),
            "the value, at y: NaN and infinity have no place in JSON; use None or a string",
        ),
        (
            {"a": "b\0c"},
            "the value, at a: a NUL character cannot be stored; remove it, or pass bytes",
        ),
        (
            {"a\0": 1},
            "the value: a NUL character cannot be stored; remove it, or pass bytes",
        ),
        (2**63, "the value: an integer beyond 64 bits cannot be stored; use a string"),
        (
            [-(2**63) - 1],
            "the value, at [0]: an integer beyond 64 bits cannot be stored; use a string",
        ),
        ("\ud800", "the value holds an unpaired surrogate character, which is not valid text"),
        (
            {"\udfff": 1},
            "the value holds an unpaired surrogate character, which is not valid text",
        ),
        (..., "the value: a value of type ellipsis cannot be encoded as JSON"),
        ({"a": {1j}}, "the value: a value of type complex cannot be encoded as JSON"),
    ],
    ids=repr,
)
def test_what_some_store_cannot_keep_is_refused(value: Any, sentence: str):
    with pytest.raises(InvalidPayload) as raised:
        coder().encode(value)
    assert str(raised.value) == sentence


def test_subclasses_of_plain_types_are_stored_as_those():
    class Text(str):
        __slots__ = ()

    class Number(float):
        __slots__ = ()

    assert coder().encode([Text("a"), Number(1.5)]) == '["a",1.5]'
    with pytest.raises(InvalidPayload, match="NaN and infinity"):
        coder().encode([Number("nan")])
    with pytest.raises(InvalidPayload, match="a NUL character"):
        coder().encode([Text("\0")])


def test_a_value_in_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidPayload, match="the value is nested too deeply"):
        coder().encode(loop)


def test_size_is_counted_in_bytes():
    assert coder(limit=6).encode("üü") == '"üü"'
    with pytest.raises(InvalidPayload) as raised:
        coder(limit=5).encode("üü")
    assert str(raised.value) == (
        "the value takes 6 bytes as JSON and the limit is 5; "
        "store it elsewhere and pass a reference"
    )
    with pytest.raises(InvalidOption, match="at least 2 bytes"):
        JsonCodec(limit=0)


def test_a_mebibyte_is_the_default_limit():
    assert coder().encode("a" * (2**20 - 2))
    with pytest.raises(InvalidPayload, match="1,048,577 bytes as JSON and the limit is 1,048,576"):
        coder().encode("a" * (2**20 - 1))


@pytest.mark.parametrize(
    ("type_", "value", "sentence"),
    [
        (int, "7", "the value: expected int, got str"),
        (Point, {"x": "1"}, "the value, at x: expected int, got str"),
        (Line, Line([Point("1")]), "the value, at points[0].x: expected int, got str"),  # type: ignore[arg-type]
        (Point, {}, "the value: object missing required field x"),
        (Colour, "secret", "the value: invalid enum value"),
        (list[Literal["a"]], ["secret"], "the value, at [0]: invalid enum value"),
        (
            Customer,
            {"name": 5, "born": "1815-12-10"},
            "the value: name: Input should be a valid string",
        ),
    ],
    ids=repr,
)
def test_a_value_of_another_type_is_refused_without_being_shown(
    type_: Any, value: Any, sentence: str
):
    with pytest.raises(InvalidPayload) as raised:
        coder(type_).encode(value)
    assert str(raised.value) == sentence


def test_reading_refuses_what_does_not_fit():
    with pytest.raises(InvalidPayload, match="the value, at x: expected int, got null"):
        coder(Point).decode('{"x":null}')
    with pytest.raises(InvalidPayload, match="the value is not valid JSON"):
        coder().decode("{")


def test_fields_of_a_newer_version_are_ignored():
    assert coder(Point).decode('{"x":1,"z":2}') == Point(1)


def test_types_that_json_cannot_tell_apart_are_refused_when_declared():
    class Other(msgspec.Struct):
        x: int

    with pytest.raises(ConfigurationError, match=r"^the value cannot be stored as JSON: "):
        coder(Point | Other)
