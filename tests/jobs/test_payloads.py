"""Payloads of every kind, through a real store and a worker; and what becomes of them when the
code changes while jobs wait."""

from __future__ import annotations

import enum
import uuid
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    TypedDict,
    TypeVar,
)

import attrs
import msgspec
import pydantic
import pytest

from headway import Headway, Job, declare
from headway.errors import ConfigurationError, InvalidPayload
from tests.support.stores import store_urls

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclass
class Item:
    name: str
    sizes: list[Size] = field(default_factory=list)


class Point(msgspec.Struct):
    x: int
    y: float = 0.0


class Parcel(TypedDict):
    weight: float
    note: NotRequired[str]


class Pair(NamedTuple):
    left: int
    right: str = "right"


class Customer(pydantic.BaseModel):
    name: str
    born: date
    items: list[Item] = []


@attrs.define
class Address:
    street: str
    town: str = "London"


@attrs.frozen
class Shipment:
    to: Address
    at: datetime


KINDS: dict[str, tuple[Any, Any]] = {
    "dataclass": (Item, Item("gear", [Size.SMALL])),
    "struct": (Point, Point(1, 2.5)),
    "typed_dict": (Parcel, {"weight": 1.5, "note": "fragile"}),
    "named_tuple": (Pair, Pair(1, "r")),
    "pydantic": (Customer, Customer(name="Ada", born=date(1815, 12, 10), items=[Item("card")])),
    "attrs": (Shipment, Shipment(Address("Row 12"), datetime(2030, 1, 1, 12, tzinfo=UTC))),
    "enum": (dict[str, Colour], {"a": Colour.GREEN}),
    "int_enum": (Size, Size.LARGE),
    "datetime": (datetime, datetime(2030, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)),
    "date_and_time": (tuple[date, time], (date(2030, 1, 1), time(12, 30))),
    "timedelta": (timedelta, timedelta(days=1, microseconds=5)),
    "decimal": (Decimal, Decimal("19.90")),
    "uuid": (uuid.UUID, uuid.UUID(int=7)),
    "bytes": (bytes, b"\0\xff and more"),
    "nested": (
        dict[str, list[Item | None]],
        {"a": [Item("b"), None], "żółć": []},
    ),
    "optional": (Point | None, None),
}


store_url = store_urls("memory", "sqlite", "postgres")


@pytest.fixture
async def app(store_url: str) -> AsyncIterator[Headway]:
    async with Headway(store_url, migrate=True) as app:
        yield app


async def test_every_kind_comes_back_as_it_was(app: Headway) -> None:
    seen: dict[str, Any] = {}
    for name, (type_, _) in KINDS.items():

        async def echo(value: Any, *, also: Any, name: str = name) -> Any:
            seen[name] = value
            return also

        echo.__annotations__ = {"value": type_, "also": type_, "return": type_}
        app.job(name=name)(echo)
    started = {
        name: await app.start(app.request(name, value=value, also=value))
        for name, (_, value) in KINDS.items()
    }
    await app.worker().run(drain=True)
    for name, (_, value) in KINDS.items():
        result = await app.sequence(started[name], app.registry.type(name)).result(timeout=60)
        assert (name, result) == (name, value)
        assert type(result) is type(value)
        assert seen[name] == value


OLD: dict[str, tuple[Any, Any]] = {
    "dataclass": (dataclass(type("Old", (), {"__annotations__": {"name": str}})), ("gear",)),
    "struct": (msgspec.defstruct("Old", [("x", int)]), (1,)),
    "named_tuple": (NamedTuple("Old", [("left", int)]), (1,)),
    "attrs": (attrs.make_class("Old", {"street": attrs.field(type=str)}), ("Row 12",)),
}
NEW: dict[str, tuple[Any, Any]] = {
    "dataclass": (Item, Item("gear", [])),
    "struct": (Point, Point(1, 0.0)),
    "named_tuple": (Pair, Pair(1, "right")),
    "attrs": (Address, Address("Row 12", "London")),
}


def version(url: str, name: str, type_: Any, seen: list[Any]) -> tuple[Headway, Any]:
    app = Headway(url)

    async def take(value: Any) -> None:
        seen.append(value)

    take.__annotations__ = {"value": type_, "return": None}
    return app, app.job(name=name)(take)


@pytest.mark.parametrize("kind", OLD)
async def test_a_field_that_was_added_takes_its_default(kind: str, sqlite_path: Path) -> None:
    url, seen = f"sqlite:///{sqlite_path}", list[Any]()
    old, values = OLD[kind]
    producer, take = version(url, kind, old, seen)
    async with producer:
        await producer.start(take.request(old(*values)))
    new, expected = NEW[kind]
    worker, _ = version(url, kind, new, seen)
    async with worker:
        await worker.worker().run(drain=True)
    assert seen == [expected]


@pytest.mark.parametrize("kind", ["dataclass", "struct", "attrs"])
async def test_a_field_that_was_removed_is_ignored(kind: str, sqlite_path: Path) -> None:
    """A new producer, and workers that are not deployed yet."""
    url, seen = f"sqlite:///{sqlite_path}", list[Any]()
    new, value = NEW[kind]
    producer, take = version(url, kind, new, seen)
    async with producer:
        await producer.start(take.request(value))
    old, values = OLD[kind]
    worker, _ = version(url, kind, old, seen)
    async with worker:
        await worker.worker().run(drain=True)
    assert seen == [old(*values)]


async def test_a_field_without_a_default_is_a_dead_letter_that_says_so(sqlite_path: Path) -> None:
    url, seen = f"sqlite:///{sqlite_path}", list[Any]()
    old, values = OLD["struct"]
    producer, take = version(url, "move", old, seen)
    async with producer:
        started = await producer.start(take.request(old(*values)))
    worker, _ = version(url, "move", msgspec.defstruct("New", [("x", int), ("z", int)]), seen)
    async with worker:
        await worker.worker().run(drain=True)
        job = await worker.get(started)
    assert seen == []
    assert job.state == "failed"
    assert job.attempts == 1, "it would not be readable the next time either"
    assert job.failure is not None
    assert "the input of job type 'move', at value: object missing required field z" in str(
        job.failure
    )


class Connection:
    """Something that cannot be stored."""


@dataclass
class Node:
    name: str
    parts: list[Node] = field(default_factory=list["Node"])


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Unfinished:
    part: NotDefinedAnywhere  # type: ignore[name-defined]  # noqa: F821


class Route(TypedDict):
    file: Path


class Stop(NamedTuple):
    arrived: Callable[[], None]


class Label(str):
    """Text that would come back as plain text."""


REFUSED: dict[str, tuple[Any, str]] = {
    "a class": (Connection, r"test_payloads\.Connection has no form in JSON; use text, numbers"),
    "complex": (complex, "complex has no form in JSON"),
    "Path": (Path, r"pathlib\.(_local\.)?Path has no form"),
    "Callable": (Callable, "Callable has no form"),
    "Callable with types": (Callable[[int], str], "Callable has no form"),
    "Iterable": (Iterable[int], "Iterable has no form"),
    "a subclass of str": (Label, "Label has no form"),
    "a list": (list[complex], "complex has no form"),
    "a tuple": (tuple[int, complex], "complex has no form"),
    "a set": (set[complex], "complex has no form"),
    "values of a dict": (dict[str, Path], "Path has no form"),
    "keys of a dict": (dict[tuple[int, int], str], "the keys of a dict in JSON are text; use str"),
    "optional": (complex | None, "complex has no form"),
    "a union": (frozenset[Connection | Point], "unions"),
    "annotated": (Annotated[complex, "a number"], "complex has no form"),
    "a new type": (NewType("Point", complex), "complex has no form"),
    "in a typed dict": (Route, "Path has no form"),
    "in a named tuple": (list[Stop], "Callable has no form"),
    "in a generic dataclass": (Box[Path], "Path has no form"),
    "in an attrs class": (attrs.make_class("C", {"file": attrs.field(type=Path)}), "Path has no"),
    "in a struct": (msgspec.defstruct("S", [("file", Path)]), "Path has no form"),
    "a name nobody knows": (Unfinished, "name 'NotDefinedAnywhere' is not defined"),
    "Ext": (msgspec.msgpack.Ext, "use bytes"),
}
ACCEPTED: dict[str, Any] = {
    "anything": Any,
    "object": object,
    "a type variable": T,
    "itself": Node,
    "generic": Box[int],
    "generic, of anything": Box,
    "optional model": Customer | None,
    "models": dict[str, list[Customer]],
    "union": int | str | list[int] | None,
    "literal": Literal["a", "b"],
    "new type": NewType("Cents", int),
    "constrained": Annotated[int, msgspec.Meta(ge=1)],
    "sequence": Sequence[int],
    "mapping": Mapping[uuid.UUID, int],
    "keys by enum": dict[Colour, float],
    "keys of two kinds": dict[str | None, int],
    "keys of any kind": dict[object, Any],
    "keys by what they can do": dict[Hashable, int],
    "by what it can do": Sized,
    "raw": msgspec.Raw,
}


def function_of(input: Any, output: Any, job: Any = Job) -> Any:
    async def send(job: Any, to: Any) -> Any: ...

    send.__annotations__ = {"job": job, "to": input, "return": output}
    return send


@pytest.mark.parametrize("kind", REFUSED)
def test_a_type_that_cannot_be_stored_is_refused_where_it_is_declared(kind: str) -> None:
    app, (type_, problem) = Headway("memory://"), REFUSED[kind]
    for function, what in (
        (function_of(type_, None), "parameter 'to' of job type 'send'"),
        (function_of(int, type_), "the output of job type 'send'"),
        (function_of(int, None, Job[type_]), "the result of a blocker of 'send'"),
    ):
        with pytest.raises(ConfigurationError, match=f"{what} cannot be stored as JSON.*{problem}"):
            app.job(function)
    for given in ({"input": type_}, {"output": type_}):
        with pytest.raises(ConfigurationError, match=f"put of job type 'send' cannot.*{problem}"):
            declare("send", **given)
    assert list(app.registry) == []


@pytest.mark.parametrize("kind", ACCEPTED)
def test_a_type_that_can_be_stored_is_not_refused(kind: str) -> None:
    app, type_ = Headway("memory://"), ACCEPTED[kind]
    app.job(function_of(type_, type_, Job[type_]))
    declare("other", input=type_, output=type_)


async def test_a_value_of_another_type_is_refused_where_it_is_started() -> None:
    app = Headway("memory://")

    @app.job
    async def pack(item: Item, colour: Colour) -> None: ...

    for item, colour, problem in (
        (Item(7), Colour.RED, r"at item\.name: expected str, got int"),  # type: ignore[arg-type]
        (Item("a"), "red-ish", "at colour: invalid enum value"),
        (Connection(), Colour.RED, "a value of type Connection cannot be encoded"),
    ):
        with pytest.raises(InvalidPayload, match=problem):
            pack.request(item, colour)  # type: ignore[arg-type]
