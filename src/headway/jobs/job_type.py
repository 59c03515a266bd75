"""Job types: a name, typed arguments, a typed result, and how its jobs are to be treated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, overload

from headway.domain.request import (
    Bs,
    JobOptions,
    Options,
    Request,
    Step,
    changed_options,
)
from headway.domain.retry import Backoff, RetryPolicy
from headway.domain.validation import check_name, check_seconds
from headway.errors import ConfigurationError
from headway.jobs.arguments import Arguments, NamedArguments, OneArgument
from headway.jobs.codec import JsonCodec
from headway.jobs.job import Job
from headway.ports.codec import Codec

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
I = TypeVar("I")  # noqa: E741 - the input, as R is the result


class TypeOptions(JobOptions, total=False):
    """What may be said of a job type."""

    name: str | None
    """None: the function's name."""
    retry: RetryPolicy
    isolate: bool
    """Run it in a process that can be killed."""
    atomic: bool
    """Run the whole handler in one transaction."""
    retention: float | timedelta | None
    """How long finished sequences that began with it are kept; None: as the worker says."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What a job type is made of."""

    name: str
    place: str
    """Where it was defined, for messages."""
    options: Options
    needs: int | None
    """How many blockers it declares; None: any number."""
    arguments: Arguments
    encode_result: Callable[[Any], str | None]
    decode_result: Callable[[str | None], Any]
    retry: RetryPolicy
    isolate: bool
    atomic: bool
    retention: float | None


class StepType(Generic[P, R, *Bs]):
    """A job type that can only be reached by continuing a sequence.

    `P` is what its handler takes besides the Job, `R` what the sequence yields from there on, `Bs`
    what its blockers yield.
    """

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.name = definition.name
        self.options = definition.options

    def request(self, *args: P.args, **kwargs: P.kwargs) -> Step[R, *Bs]:
        """What `continue_with` takes. Raises InvalidPayload if an argument does not fit."""
        step: Step[R, *Bs] = self._fill(Step, args, kwargs)
        return step

    def _fill(self, kind: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        definition = self.definition
        return kind(
            definition.name,
            definition.arguments.encode(args, kwargs),
            definition.options,
            needs=definition.needs,
            decode=definition.decode_result,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.definition.place}>"


class JobType(StepType[P, R, *Bs]):
    """A job type that can begin a sequence, or continue one."""

    def request(self, *args: P.args, **kwargs: P.kwargs) -> Request[R, *Bs]:
        """What `start` takes. Raises InvalidPayload if an argument does not fit."""
        request: Request[R, *Bs] = self._fill(Request, args, kwargs)
        return request


class FunctionJob(JobType[P, R], Generic[P, R, C]):
    """A job type made from a function. Calling it calls the function, as tests like to do."""

    def __init__(self, definition: Definition, function: Callable[P, C]) -> None:
        super().__init__(definition)
        self.function = function
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        return self.function(*args, **kwargs)


class ContextJob(JobType[P, R, *Bs], Generic[P, R, C, *Bs]):
    """A job type made from a function that takes the Job first."""

    def __init__(self, definition: Definition, function: Callable[..., C]) -> None:
        super().__init__(definition)
        self.function = function
        update_wrapper(self, function)

    def __call__(self, job: Job[*Bs], /, *args: P.args, **kwargs: P.kwargs) -> C:
        return self.function(job, *args, **kwargs)


class FunctionStep(StepType[P, R], Generic[P, R, C]):
    """As FunctionJob, for a type that can only continue."""

    def __init__(self, definition: Definition, function: Callable[P, C]) -> None:
        super().__init__(definition)
        self.function = function
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        return self.function(*args, **kwargs)


class ContextStep(StepType[P, R, *Bs], Generic[P, R, C, *Bs]):
    """As ContextJob, for a type that can only continue."""

    def __init__(self, definition: Definition, function: Callable[..., C]) -> None:
        super().__init__(definition)
        self.function = function
        update_wrapper(self, function)

    def __call__(self, job: Job[*Bs], /, *args: P.args, **kwargs: P.kwargs) -> C:
        return self.function(job, *args, **kwargs)


@overload
def declare(
    name: str,
    *,
    input: type[I],
    output: type[R],
    codec: Codec | None = None,
    **options: Unpack[JobOptions],
) -> JobType[[I], R]: ...
@overload
def declare(
    name: str,
    *,
    input: type[I],
    output: None = None,
    codec: Codec | None = None,
    **options: Unpack[JobOptions],
) -> JobType[[I], None]: ...
@overload
def declare(
    name: str,
    *,
    input: None = None,
    output: type[R],
    codec: Codec | None = None,
    **options: Unpack[JobOptions],
) -> JobType[[], R]: ...
@overload
def declare(
    name: str,
    *,
    input: None = None,
    output: None = None,
    codec: Codec | None = None,
    **options: Unpack[JobOptions],
) -> JobType[[], None]: ...
def declare(
    name: str, *, input: Any = None, output: Any = None, codec: Codec | None = None, **options: Any
) -> Any:
    """A job type without its handler, so that a process can start jobs that it cannot run.

    `@app.implement(it)` gives it a handler where it is to run.
    """
    codec = JsonCodec() if codec is None else codec
    check_name("job type", name)
    arguments = (
        NamedArguments(name, (), codec) if input is None else OneArgument(name, input, codec)
    )
    return JobType[Any, Any](
        define(
            name,
            place=f"declare({name!r})",
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
    place: str,
    arguments: Arguments,
    result: Any,
    needs: int | None,
    codec: Codec,
    options: dict[str, Any],
) -> Definition:
    """Put a job type together; `options` are those of TypeOptions except the name."""
    retry: RetryPolicy | None = options.pop("retry", None)
    isolate: bool = options.pop("isolate", False)
    atomic: bool = options.pop("atomic", False)
    retention = options.pop("retention", None)
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
        place,
        changed_options(Options(), options),
        needs,
        arguments,
        encode,
        decode,
        retry,
        isolate,
        atomic,
        None if retention is None else check_seconds("a retention", retention),
    )


def result_coders(
    type_: Any, what: str, codec: Codec
) -> tuple[Callable[[Any], str | None], Callable[[str | None], Any]]:
    """How a result is stored and read; None is stored as no output at all."""
    coder = codec.coder(type_, what=what)

    def encode(value: Any) -> str | None:
        return None if value is None else coder.encode(value)

    def decode(text: str | None) -> Any:
        return None if text is None else coder.decode(text)

    return encode, decode
