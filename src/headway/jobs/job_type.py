"""Job types: a name, typed arguments, a typed result and the options of their jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, overload

from msgspec import structs

from headway.domain.request import (
    Bs,
    ContinuationRequest,
    JobOptions,
    N,
    Options,
    Request,
    changed_options,
)
from headway.domain.retry import Backoff, RetryPolicy
from headway.domain.schedules.timetable import Timetable
from headway.domain.validation import check_name, check_seconds
from headway.errors import ConfigurationError
from headway.jobs.arguments import Arguments, NamedArguments, OneArgument
from headway.jobs.codec import JsonCodec
from headway.ports.codec import Codec

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
C = TypeVar("C")
I = TypeVar("I")  # noqa: E741 - the input, as R is the result


class TypeOptions(JobOptions, total=False):
    """Options of a job type."""

    name: str | None
    """None: the function's name."""
    retry: RetryPolicy
    isolate: bool
    """Run the handler in a process that can be killed."""
    atomic: bool
    """Run the whole handler in one transaction."""
    key: str | None
    """The name of the argument whose value is the job's key, unless a request has its own."""
    retention: float | timedelta | None
    """Retention of finished sequences that began with this type; None: the worker's setting."""


class EntryOptions(TypeOptions, total=False):
    """Options of a job type whose jobs can begin a sequence."""

    schedule: Timetable
    """Start a job at each tick, under a schedule with the name of the type."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The parts of a job type."""

    name: str
    location: str
    """The function or call that made it, for messages."""
    options: Options
    needs: int | None
    """Number of blockers that it declares; None: any number."""
    arguments: Arguments
    encode_result: Callable[[Any], str | None]
    decode_result: Callable[[str | None], Any]
    retry: RetryPolicy
    isolate: bool
    atomic: bool
    retention: float | None
    key: str | None = None
    """The argument that is the key."""


class ContinuationType(Generic[P, R, *Bs]):
    """A job type whose jobs can continue a sequence.

    `P` are the arguments of its handler, without the Job, `R` is the result of the sequence, `Bs`
    are the results of its blockers.
    """

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.name = definition.name
        self.options = definition.options

    def request(self, *args: P.args, **kwargs: P.kwargs) -> ContinuationRequest[R, *Bs]:
        """The argument of `continue_with`. Raises InvalidPayload if an argument does not fit."""
        request: ContinuationRequest[R, *Bs] = self._fill(ContinuationRequest, args, kwargs)
        return request

    def _fill(self, kind: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        definition = self.definition
        options = definition.options
        input = definition.arguments.encode(args, kwargs)
        if definition.key is not None:
            key = definition.arguments.key(definition.key, args, kwargs)
            options = structs.replace(options, key=key)
        return kind(
            definition.name,
            input,
            options,
            needs=definition.needs,
            decode=definition.decode_result,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.definition.location}>"


class JobType(ContinuationType[P, R, *Bs]):
    """A job type whose jobs can begin a sequence, or continue one."""

    def request(self, *args: P.args, **kwargs: P.kwargs) -> Request[R, *Bs]:
        """The argument of `start`. Raises InvalidPayload if an argument does not fit."""
        request: Request[R, *Bs] = self._fill(Request, args, kwargs)
        return request


class FunctionContinuationType(ContinuationType[P, R, *Bs], Generic[Q, C, P, R, *Bs]):
    """A ContinuationType made from a function, by `@app.job(entry=False)`.

    `Q` are all arguments of the function, the Job included; `C` is what the function returns.
    """

    def __init__(self, definition: Definition, function: Callable[Q, C]) -> None:
        super().__init__(definition)
        self.function = function
        update_wrapper(self, function)

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> C:
        """Call the function, as in tests."""
        return self.function(*args, **kwargs)


class FunctionJobType(
    JobType[P, R, *Bs], FunctionContinuationType[Q, C, P, R, *Bs], Generic[Q, C, P, R, *Bs]
):
    """A JobType made from a function, by `@app.job`."""


AnyType = ContinuationType[..., Any, *tuple[Any, ...]]


@overload
def declare(
    name: str,
    *,
    input: type[I],
    output: type[N] | None = None,
    codec: Codec | None = None,
    **options: Unpack[JobOptions],
) -> JobType[[I], N]: ...
@overload
def declare(
    name: str,
    *,
    input: None = None,
    output: type[N] | None = None,
    codec: Codec | None = None,
    **options: Unpack[JobOptions],
) -> JobType[[], N]: ...
def declare(
    name: str, *, input: Any = None, output: Any = None, codec: Codec | None = None, **options: Any
) -> Any:
    """A job type without a handler, for a process that starts jobs which others run.

    `@app.implement(...)` gives it a handler in the processes that run its jobs.
    """
    codec = JsonCodec() if codec is None else codec
    check_name("job type", name)
    arguments = (
        NamedArguments(name, (), codec) if input is None else OneArgument(name, input, codec)
    )
    return JobType[Any, Any](
        define(
            name,
            location=f"declare({name!r})",
            arguments=arguments,
            result=output,
            needs=0,
            codec=codec,
            options=options,
        )
    )


def define(
    name: str,
    *,
    location: str,
    arguments: Arguments,
    result: Any,
    needs: int | None,
    codec: Codec,
    options: dict[str, Any],
) -> Definition:
    """The definition of a job type; `options` are those of TypeOptions except the name."""
    retry: RetryPolicy | None = options.pop("retry", None)
    isolate: bool = options.pop("isolate", False)
    atomic: bool = options.pop("atomic", False)
    retention = options.pop("retention", None)
    key = options.pop("key", None)
    if key is not None:
        arguments.check_key(key)
    if isolate and atomic:
        raise ConfigurationError(
            f"job type {name!r} cannot be both isolated and atomic: an isolated handler runs in a "
            "process of its own and cannot share a transaction"
        )
    if retry is None:
        retry = Backoff()
    elif isinstance(retry, type) or not callable(getattr(retry, "delay", None)):
        raise ConfigurationError(
            f"the retry of job type {name!r} is not a policy: {retry!r}; use Backoff(), Fixed() or "
            "an object with a method `delay`"
        )
    encode, decode = result_coders(result, f"the output of job type {name!r}", codec)
    return Definition(
        name,
        location,
        changed_options(Options(), options),
        needs,
        arguments,
        encode,
        decode,
        retry,
        isolate,
        atomic,
        None if retention is None else check_seconds("a retention", retention),
        key,
    )


def result_coders(
    type_: Any, what: str, codec: Codec
) -> tuple[Callable[[Any], str | None], Callable[[str | None], Any]]:
    """The encoder and the decoder of a result. The result None is stored as no output."""
    coder = codec.coder(type_, what=what)

    def encode(value: Any) -> str | None:
        return None if value is None else coder.encode(value)

    def decode(text: str | None) -> Any:
        return None if text is None else coder.decode(text)

    return encode, decode
