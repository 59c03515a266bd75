"""Making job types: from functions and by declaration, their signatures, defaults and handlers."""

from __future__ import annotations

import asyncio
import functools
import math
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, IntEnum
from typing import Annotated, Any, cast
from uuid import UUID

import msgspec
import pytest

from headway import (
    Backoff,
    Continuation,
    ContinuationType,
    Every,
    Fixed,
    Headway,
    Job,
    JobType,
    declare,
)
from headway.domain.request import Options
from headway.errors import (
    ConfigurationError,
    InvalidName,
    InvalidOption,
    InvalidPayload,
    UnknownJobType,
)
from headway.jobs.handler import Handler, Mode


@dataclass
class Order:
    id: int
    note: str = ""


@dataclass
class Other:
    id: int


ORDER = Order(0)
TAGS = ["new"]


@pytest.fixture
def app() -> Headway:
    return Headway("memory://")


def handler_of(app: Headway, name: str) -> Handler:
    handler = app.registry.handler(name)
    assert handler is not None
    return handler


def test_a_function_becomes_a_job_type(app: Headway):
    @app.job
    async def charge(order_id: int, cents: int = 5) -> str:
        """Takes the money."""
        return f"{order_id} {cents}"

    assert charge.name == "charge"
    assert charge.options == Options()
    assert charge.__doc__ == "Takes the money."
    assert isinstance(charge, JobType)
    assert "charge" in app.registry
    assert asyncio.run(charge(1, cents=2)) == "1 2"
    request = charge.request(7, cents=8)
    assert (request.type, request.input) == ("charge", '{"order_id":7,"cents":8}')
    handler = handler_of(app, "charge")
    assert handler.mode is Mode.LOOP
    assert not handler.takes_job
    assert handler.decode_input(request.input) == ((7, 8), {})
    assert handler.encode_output("x") == '"x"'
    assert handler.encode_output(None) is None
    assert handler.reference == f"{__name__}:test_a_function_becomes_a_job_type.<locals>.charge"


def test_options_are_the_defaults_of_requests(app: Headway):
    @app.job(
        name="money.charge",
        queue="slow",
        priority=-3,
        max_attempts=None,
        max_losses=2,
        timeout=timedelta(minutes=1),
        retry=Fixed(3),
        atomic=True,
        retention=timedelta(days=1),
    )
    async def charge() -> None: ...

    @app.job(isolate=True)
    def crunch() -> None: ...

    expected = Options(queue="slow", priority=-3, max_attempts=None, max_losses=2, timeout=60.0)
    assert charge.options == charge.request().options == expected
    assert handler_of(app, "money.charge").retry == Fixed(3)
    assert handler_of(app, "money.charge").atomic
    assert handler_of(app, "crunch").mode is Mode.PROCESS
    assert handler_of(app, "crunch").retry == Backoff()
    assert app.registry.retentions() == {"money.charge": 86400.0}


def test_a_decorator_with_options_presets_them(app: Headway):
    job = app.job(max_attempts=5, retry=Fixed(3))

    @job
    async def charge() -> None: ...

    @job(queue="slow", max_attempts=2)
    async def ship() -> None: ...

    @job(entry=False)
    async def confirm() -> None: ...

    @app.job
    async def pack() -> None: ...

    assert [each.options.max_attempts for each in (charge, ship, confirm, pack)] == [5, 2, 5, 20]
    assert ship.options.queue == "slow"
    assert [each.retry for each in app.registry.handlers().values()] == [Fixed(3)] * 3 + [Backoff()]


def test_requests_change_options_and_leave_the_type_alone(app: Headway):
    @app.job(queue="slow")
    async def charge() -> None: ...

    changed = charge.request().using(priority=5, timeout=timedelta(seconds=2), idempotency_key="k")
    assert (changed.options.queue, changed.options.priority) == ("slow", 5)
    assert changed.options.timeout == 2.0
    assert changed.options.dedup is not None
    assert changed.options.dedup.scope == "any"
    assert charge.request().options.priority == 0


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"queue": ""}, InvalidName, "a queue must not be empty"),
        ({"queue": "a" * 201}, InvalidName, "a queue has at most 200 characters; this one has 201"),
        ({"queue": None}, InvalidName, "a queue must be a string, not NoneType"),
        ({"queue": "a b"}, InvalidName, "queue 'a b' is not allowed: use letters, digits and"),
        ({"max_attempts": 0}, InvalidOption, "max_attempts must be at least 1, or None for no lim"),
        ({"max_attempts": "3"}, InvalidOption, "max_attempts must be a whole number, not str"),
        ({"max_attempts": True}, InvalidOption, "max_attempts must be a whole number, not bool"),
        ({"max_losses": 0}, InvalidOption, "max_losses must be at least 1, not 0"),
        ({"priority": 1.5}, InvalidOption, "a priority must be a whole number, not float"),
        ({"priority": 40_000}, InvalidOption, "a priority is between -32767 and 32767, not 40000"),
        ({"timeout": 0}, InvalidOption, "a timeout must be longer than 0 seconds, not 0"),
        ({"timeout": math.nan}, InvalidOption, "a timeout must be longer than 0 seconds, not nan"),
        ({"timeout": "1"}, InvalidOption, "a timeout is a number of seconds, not str"),
        (
            {"schedule": Every(hours=1)},
            InvalidOption,
            "schedule= of a start is At or After, not Every; to start again and again use",
        ),
        ({"schedule": 5}, InvalidOption, "a schedule must be made with At or After, not int"),
        ({"dedup": "key"}, InvalidOption, "dedup must be made with Dedup, not str"),
        ({"idempotency_key": ""}, InvalidName, "a deduplication key must not be empty"),
        ({"colour": "red"}, InvalidOption, "there is no option 'colour'; there are queue, prio"),
        ({"id": "7"}, InvalidName, "an id must be a UUID; '7' is not one"),
        ({"id": 7}, InvalidName, "an id must be a UUID or a string that holds one, not int"),
    ],
    ids=str,
)
def test_bad_options_get_one_sentence(
    app: Headway, options: dict[str, Any], error: type[Exception], sentence: str
):
    @app.job
    async def charge() -> None: ...

    with pytest.raises(error) as raised:
        charge.request().using(**options)
    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "a job type must not be empty"),
        ("-", "job type '-' is not allowed"),
        ("a" * 201, "a job type has at most 200 characters"),
        ("a\0", "is not allowed"),
    ],
)
def test_bad_names_get_one_sentence(app: Headway, name: str, sentence: str):
    async def charge() -> None: ...

    with pytest.raises(InvalidName, match=sentence):
        app.job(name=name)(charge)
    with pytest.raises(InvalidName, match=sentence):
        declare(name)
    assert list(app.registry) == []


def test_a_name_is_given_once(app: Headway):
    @app.job
    async def charge() -> None: ...

    first = charge

    with pytest.raises(ConfigurationError) as raised:

        @app.job(name="charge")
        async def other() -> None: ...

    assert str(raised.value) == (
        f"two job types are called 'charge': {first.definition.location} and "
        f"{__name__}.test_a_name_is_given_once.<locals>.other; give one of them another name"
    )


def test_unknown_names_get_a_suggestion(app: Headway):
    @app.job
    async def charge() -> None: ...

    with pytest.raises(UnknownJobType, match=r"unknown job type 'chrage'; did you mean 'charge'?"):
        app.request("chrage")
    with pytest.raises(UnknownJobType, match="unknown job type 'x'; register it before using it"):
        app.request("x")
    assert app.request("charge").type == "charge"


@pytest.mark.parametrize(
    ("args", "kwargs", "sentence"),
    [
        (("7",), {}, "the input of job type 'charge', at order_id: expected int, got str"),
        (
            (),
            {"order_id": 1, "lines": [{"id": "x"}]},
            "the input of job type 'charge', at lines[0].id: expected int, got str",
        ),
        ((), {}, "job type 'charge' is missing its argument 'order_id'"),
        (
            (1, (), 3),
            {},
            "job type 'charge' takes at most 2 positional arguments (order_id, lines), 3 were",
        ),
        (
            (1,),
            {"order_id": 1},
            "job type 'charge' was given 'order_id' twice, by position and by name",
        ),
        (
            (1,),
            {"cents": 1},
            "job type 'charge' has no parameter 'cents'; it takes order_id, lines, rush",
        ),
        (
            (2**64,),
            {},
            "the input of job type 'charge', at order_id: an integer beyond 64 bits cannot be",
        ),
        (
            (1,),
            {"rush": math.nan},
            "the input of job type 'charge', at rush: NaN and infinity have",
        ),
        ((1,), {"rush": ...}, "the input of job type 'charge': a value of type ellipsis cannot"),
    ],
    ids=repr,
)
def test_wrong_arguments_are_refused_where_the_caller_stands(
    app: Headway, args: tuple[Any, ...], kwargs: dict[str, Any], sentence: str
):
    @app.job
    async def charge(order_id: int, lines: tuple[Order, ...] = (), *, rush: float = 0) -> None: ...

    with pytest.raises(InvalidPayload) as raised:
        charge.request(*args, **kwargs)
    assert str(raised.value).startswith(sentence)


def test_arguments_are_bound_by_name_and_defaults_stay_the_handlers(app: Headway):
    @app.job
    async def charge(
        order: Order,
        tags: list[str] = TAGS,
        *,
        at: Order = ORDER,
        raw: Any = None,
    ) -> None: ...

    @app.job
    async def nothing() -> None: ...

    handler = handler_of(app, "charge")
    request = charge.request(Order(1, "x"))
    assert request.input == '{"order":{"id":1,"note":"x"}}'
    assert handler.decode_input(request.input) == (
        (Order(1, "x"), ["new"]),
        {"at": Order(0), "raw": None},
    )
    newer = '{"order":{"id":1,"colour":"red"},"raw":[1],"since":"a newer version"}'
    assert handler.decode_input(newer) == ((Order(1), ["new"]), {"at": Order(0), "raw": [1]})
    with pytest.raises(InvalidPayload, match="object missing required field order"):
        handler.decode_input("{}")
    assert nothing.request().input == "{}"
    assert handler_of(app, "nothing").decode_input("{}") == ((), {})


def test_missing_annotations_take_anything(app: Headway):
    @app.job
    def charge(order, cents=5):
        return {"order": order, "cents": cents}

    handler = handler_of(app, "charge")
    assert handler.mode is Mode.THREAD
    untyped: Any = charge
    assert handler.decode_input(untyped.request({"a": 1}).input) == (({"a": 1}, 5), {})
    assert handler.encode_output({"a": [1]}) == '{"a":[1]}'


def test_constraints_in_annotations_are_checked(app: Headway):
    @app.job
    async def charge(cents: Annotated[int, msgspec.Meta(ge=1)]) -> None: ...

    assert charge.request(1).input == '{"cents":1}'
    with pytest.raises(InvalidPayload, match="at cents: expected int >= 1"):
        charge.request(0)


def test_outputs_are_checked_too(app: Headway):
    @app.job
    async def charge() -> Order: ...

    handler = handler_of(app, "charge")
    assert handler.encode_output(Order(1)) == '{"id":1,"note":""}'
    with pytest.raises(InvalidPayload, match="the output of job type 'charge': expected object"):
        handler.encode_output(3)
    decode = charge.request().decode
    assert decode is not None
    assert decode('{"id":2}') == Order(2)


def test_a_continuation_yields_what_it_promises(app: Headway):
    @app.job
    async def place(job: Job) -> Continuation[Order]: ...

    @app.job
    async def branch(job: Job) -> Continuation[Order] | None: ...

    @app.job
    async def vague(job: Job) -> Continuation: ...

    for job_type in (place, branch):
        decode = job_type.request().decode
        assert decode is not None
        assert decode('{"id":2}') == Order(2)
    decode = vague.request().decode
    assert decode is not None
    assert decode('{"id":2}') == {"id": 2}


def test_blockers_are_read_from_the_job_parameter(app: Headway):
    @app.job
    async def none(job: Job, order_id: int) -> None: ...

    @app.job
    async def two(job: Job[str, Order]) -> None: ...

    @app.job
    async def many(job: Job[*tuple[Order, ...]]) -> None: ...

    @app.job
    async def some(job: Job[str, *tuple[Order, ...]]) -> None: ...

    assert [t.definition.needs for t in (none, two, many, some)] == [0, 2, None, None]
    assert handler_of(app, "none").takes_job
    decoders = handler_of(app, "two").blocker_decoders
    assert decoders is not None
    assert [decoders[0]('"a"'), decoders[1]('{"id":1}'), decoders[1](None)] == ["a", Order(1), None]
    assert not handler_of(app, "two").any_number
    assert handler_of(app, "many").any_number
    assert len(handler_of(app, "some").blocker_decoders or ()) == 2


def test_a_type_that_is_no_entry_only_continues(app: Headway):
    @app.job(entry=False)
    async def confirm(job: Job, order_id: int) -> str:
        return str(order_id)

    @app.job(entry=False, queue="later")
    def archive(order_id: int) -> int:
        return order_id

    assert type(confirm) is not JobType
    assert not isinstance(confirm, JobType)
    assert isinstance(archive, ContinuationType)
    assert archive(3) == 3
    assert archive.request(3).options.queue == "later"


class Plan(Enum):
    GOLD = "gold"


class Level(IntEnum):
    TOP = 9


@pytest.mark.parametrize(
    ("of", "value", "key"),
    [
        (str, "acme", "acme"),
        (int, 7, "7"),
        (UUID, UUID(int=7), str(UUID(int=7))),
        (Plan, Plan.GOLD, "gold"),
        (Level, Level.TOP, "9"),
        (Plan | int | None, None, None),
    ],
)
def test_the_value_of_an_argument_is_the_key(app: Headway, of: Any, value: Any, key: str | None):
    async def load(tenant: Any) -> None: ...

    load.__annotations__["tenant"] = of
    keyed = cast("JobType[..., Any]", app.job(key="tenant")(load))
    assert keyed.request(value).options.key == key


@pytest.mark.parametrize("of", [float, bytes, list[str], dict[str, int], str | float])
def test_an_argument_without_a_text_cannot_be_the_key(app: Headway, of: Any):
    async def load(tenant: Any) -> None: ...

    load.__annotations__["tenant"] = of
    with pytest.raises(ConfigurationError, match="a key is a str, an int, a UUID, an enum of"):
        app.job(key="tenant")(load)


def refused(app: Headway, function: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        app.job(function)
    assert list(app.registry) == []
    return str(raised.value)


def test_signatures_that_cannot_be_stored_by_name_are_refused(app: Headway):
    async def starred(*orders: int) -> None: ...
    async def keywords(**orders: int) -> None: ...
    async def positional(order: int, /) -> None: ...
    async def generator():
        yield 1

    async def late(order: int, job: Job) -> None: ...
    async def by_name(*, job: Job) -> None: ...
    async def jobs(*jobs: Job) -> None: ...
    async def any_jobs(**jobs: Job) -> None: ...
    async def unknown(order: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    async def unions(order: Order | Other) -> None: ...
    async def order_of_blockers(job: Job[*tuple[int, ...], str]) -> None: ...

    assert refused(app, starred).endswith(
        "takes *orders; arguments are stored by name, so list them"
    )
    assert refused(app, keywords).endswith("takes **orders; name every argument, or take one dict")
    assert refused(app, positional).endswith(
        "has the positional-only parameter 'order'; arguments are stored by name, so remove the `/`"
    )
    assert "is a generator; a handler returns its one result" in refused(app, generator)
    assert refused(app, late).endswith("must take its Job first, not as 'job'")
    for function, name in ((by_name, "job"), (jobs, "jobs"), (any_jobs, "jobs")):
        assert refused(app, function).endswith(
            f"takes its Job as {name!r}, which cannot be given by position; write `job: Job` first"
        )
    assert "name 'Missing' is not defined; define the name at the top level" in refused(
        app, unknown
    )
    assert "parameter 'order' of job type 'unions' cannot be stored as JSON" in refused(app, unions)
    assert "must be the last type of its Job" in refused(app, order_of_blockers)
    assert "a job type is made from a function, not from 3" in refused(app, 3)
    assert "not from functools.partial" in refused(app, functools.partial(starred))


def test_local_types_are_read_from_the_closure(app: Headway):
    @dataclass
    class Parcel:
        grams: int

    @app.job
    async def weigh(parcel: Parcel) -> int:
        return Parcel(parcel.grams).grams  # the body uses the type, so Python keeps it

    @app.job
    async def again(job: Job, left: int) -> Continuation[int] | int:
        return job.continue_with(again.request(left - 1)) if left else 0

    assert weigh.request(Parcel(3)).input == '{"parcel":{"grams":3}}'
    assert again.request(3).input == '{"left":3}'

    async def lift(parcel: Parcel) -> None: ...

    with pytest.raises(ConfigurationError) as raised:
        app.job(lift)
    assert str(raised.value) == (
        "the annotations of the handler test_local_types_are_read_from_the_closure.<locals>.lift "
        f"cannot be read: name 'Parcel' is not defined; define the name at the top level of "
        f"{__name__}, or import it there, not only under TYPE_CHECKING"
    )


class Shop:
    def charge(self, order_id: int) -> None: ...

    @classmethod
    def refund(cls, order_id: int) -> None: ...

    @staticmethod
    async def ship(order_id: int) -> str:
        return f"shipped {order_id}"


def test_methods_have_no_object_to_be_called_on(app: Headway):
    advice = "and a worker has no object to call it on; use a function or a static method"
    assert refused(app, Shop.charge) == f"the handler Shop.charge is a method, {advice}"
    for method in (vars(Shop)["refund"], vars(Shop)["refund"].__func__):
        assert refused(app, method) == f"the handler Shop.refund is a method, {advice}"
    implement: Any = app.implement(declare("charge", input=int))
    for method in (Shop.charge, vars(Shop)["refund"]):
        with pytest.raises(ConfigurationError, match=advice):
            implement(method)


def test_a_static_method_is_a_function(app: Headway):
    class Depot:
        @app.job
        @staticmethod
        async def load(order_id: int) -> str:
            return f"loaded {order_id}"

        @staticmethod
        @app.job
        async def send(order_id: int) -> str:
            return f"sent {order_id}"

    ship: Any = app.job(vars(Shop)["ship"])
    for made, name in ((ship, "ship"), (Depot.load, "load"), (Depot.send, "send")):
        assert made.request(7).input == '{"order_id":7}'
        handler = handler_of(app, name)
        assert handler.mode is Mode.LOOP
        assert asyncio.run(handler.function(7)) == asyncio.run(made(7))
    refund = declare("refund", input=int, output=str)
    app.implement(refund)(vars(Shop)["ship"])
    assert asyncio.run(handler_of(app, "refund").function(7)) == "shipped 7"


def test_a_method_of_an_object_is_called_on_it(app: Headway):
    class Till:
        def __init__(self, name: str) -> None:
            self.name = name

        def charge(self, cents: int) -> str:
            return f"{self.name} {cents}"

    charge: Any = app.job(Till("east").charge)
    assert charge.request(5).input == '{"cents":5}'
    assert handler_of(app, "charge").function(5) == "east 5"


def test_what_implements_a_declared_type_takes_its_input_by_place(app: Headway):
    refund = declare("refund", input=Order)

    async def by_name(*, order: Order) -> None: ...

    implement: Any = app.implement(refund)
    with pytest.raises(ConfigurationError, match="must take 'order' by position to implement"):
        implement(by_name)


def test_a_retry_policy_is_one(app: Headway):
    async def charge() -> None: ...

    for policy in (3, 0, Fixed):
        with pytest.raises(ConfigurationError, match=r"use Backoff\(\), Fixed\(\) or an object"):
            app.job(retry=cast("Any", policy))(charge)


def test_isolated_and_atomic_exclude_each_other(app: Headway):
    with pytest.raises(ConfigurationError, match="cannot be both isolated and atomic"):

        @app.job(isolate=True, atomic=True)
        def charge() -> None: ...


def test_a_declared_type_is_started_without_a_handler_and_implemented_elsewhere(app: Headway):
    refund = declare("refund", input=Order, output=str, queue="money")
    tick = declare("tick")
    assert refund.request(Order(1, "x")).input == '{"id":1,"note":"x"}'
    assert refund.request(Order(1)).options.queue == "money"
    assert tick.request().input == "{}"
    with pytest.raises(InvalidPayload, match="at id: expected int, got str"):
        refund.request(Order("1"))  # type: ignore[arg-type]
    with pytest.raises(InvalidPayload, match="takes its input as the one argument"):
        refund.request(Order(1), 2)  # type: ignore[call-arg]

    app.register(refund)
    assert app.registry.handler("refund") is None

    @app.implement(refund)
    async def do_refund(job: Job, order: Order) -> str:
        return order.note

    @app.implement(tick)
    def do_tick() -> None: ...

    handler = handler_of(app, "refund")
    assert handler.takes_job
    assert handler.decode_input('{"id":1}') == ((Order(1),), {})
    assert set(app.registry.handlers()) == {"refund", "tick"}
    with pytest.raises(ConfigurationError, match="job type 'refund' has two handlers: "):
        app.implement(refund)(do_refund)
    with pytest.raises(ConfigurationError, match="must take 1 arguments besides the Job"):
        Headway("memory://").implement(refund)(do_tick)  # type: ignore[arg-type]
