# The overloads overlap, and their order decides: a handler with a Job also fits those without.
# pyright: reportOverlappingOverload=false
# mypy: disable-error-code="overload-overlap"
"""The decorators `@app.job` and `@app.implement`.

Type checkers take the first overload that fits a handler. So handlers with a Job come before those
without, `async def` before `def`, and the result Continuation before other results.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    TypeVarTuple,
    Unpack,
    overload,
)

from headway.domain.request import Bs, Continuation, N
from headway.domain.validation import check_name
from headway.errors import ConfigurationError
from headway.jobs.arguments import NamedArguments
from headway.jobs.handler import Handler, Mode
from headway.jobs.job import Job
from headway.jobs.job_type import (
    AnyType,
    ContinuationType,
    Definition,
    EntryOptions,
    FunctionContinuationType,
    FunctionJobType,
    TypeOptions,
    define,
    result_coders,
)
from headway.jobs.registry import Registry
from headway.jobs.schedule_definition import refuse_schedule_options, schedule_of_type
from headway.jobs.signature import Signature, handler_function, read_signature
from headway.ports.codec import Codec

P = ParamSpec("P")
R = TypeVar("R")
Given = TypeVarTuple("Given")


class _Decorator:
    def __init__(
        self, registry: Registry, codec: Codec, options: Mapping[str, Any] | None = None
    ) -> None:
        self._registry = registry
        self._codec = codec
        self._options = options or {}

    def _decorate(
        self, given: Any, kind: Callable[[Definition, Callable[..., Any]], AnyType]
    ) -> Any:
        function = handler_function(given)
        options = dict(self._options)
        name = options.pop("name", None)
        timetable = options.pop("schedule", None)
        name = check_name("job type", function.__name__ if name is None else name)
        refuse_schedule_options(name, options)
        signature = read_signature(function)
        definition = define(
            name,
            location=_location(function),
            arguments=NamedArguments(name, signature.parameters, self._codec),
            result=signature.result,
            needs=signature.needs,
            codec=self._codec,
            options=options,
        )
        made = kind(definition, function)
        schedule = None if timetable is None else schedule_of_type(made, timetable)
        self._registry.add(made, _handler(definition, function, signature, self._codec))
        if schedule is not None:
            self._registry.add_schedule(name, schedule)
        return made


class ContinuationDecorator(_Decorator):
    """`@app.job(entry=False)`: makes a function a job type that can only continue a sequence."""

    @overload
    def __call__(
        self,
        function: Callable[Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R]]],
        /,
    ) -> FunctionContinuationType[
        Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R]], P, R, *Given
    ]: ...
    @overload
    def __call__(
        self,
        function: Callable[
            Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[N] | None]
        ],
        /,
    ) -> FunctionContinuationType[
        Concatenate[Job[*Given], P],
        Coroutine[Any, Any, Continuation[N] | None],
        P,
        N | None,
        *Given,
    ]: ...
    @overload
    def __call__(
        self,
        function: Callable[Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R] | R]],
        /,
    ) -> FunctionContinuationType[
        Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R] | R], P, R, *Given
    ]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Continuation[R]], /
    ) -> FunctionContinuationType[Concatenate[Job[*Given], P], Continuation[R], P, R, *Given]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Continuation[N] | None], /
    ) -> FunctionContinuationType[
        Concatenate[Job[*Given], P], Continuation[N] | None, P, N | None, *Given
    ]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Continuation[R] | R], /
    ) -> FunctionContinuationType[
        Concatenate[Job[*Given], P], Continuation[R] | R, P, R, *Given
    ]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> FunctionContinuationType[P, Coroutine[Any, Any, R], P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> FunctionContinuationType[P, R, P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return self._decorate(function, FunctionContinuationType)


class JobDecorator(_Decorator):
    """`@app.job`: makes a function a job type that can begin or continue a sequence.

    With options it gives a decorator that presets them: `job = app.job(max_attempts=5)`, `@job`,
    `@job(queue="mail")`.
    """

    @overload
    def __call__(
        self,
        function: Callable[Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R]]],
        /,
    ) -> FunctionJobType[
        Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R]], P, R, *Given
    ]: ...
    @overload
    def __call__(
        self,
        function: Callable[
            Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[N] | None]
        ],
        /,
    ) -> FunctionJobType[
        Concatenate[Job[*Given], P],
        Coroutine[Any, Any, Continuation[N] | None],
        P,
        N | None,
        *Given,
    ]: ...
    @overload
    def __call__(
        self,
        function: Callable[Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R] | R]],
        /,
    ) -> FunctionJobType[
        Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R] | R], P, R, *Given
    ]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Continuation[R]], /
    ) -> FunctionJobType[Concatenate[Job[*Given], P], Continuation[R], P, R, *Given]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Continuation[N] | None], /
    ) -> FunctionJobType[
        Concatenate[Job[*Given], P], Continuation[N] | None, P, N | None, *Given
    ]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Continuation[R] | R], /
    ) -> FunctionJobType[Concatenate[Job[*Given], P], Continuation[R] | R, P, R, *Given]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> FunctionJobType[P, Coroutine[Any, Any, R], P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> FunctionJobType[P, R, P, R]: ...
    @overload
    def __call__(
        self, /, *, entry: Literal[True] = True, **options: Unpack[EntryOptions]
    ) -> JobDecorator: ...
    @overload
    def __call__(
        self, /, *, entry: Literal[False], **options: Unpack[TypeOptions]
    ) -> ContinuationDecorator: ...
    def __call__(
        self, function: Callable[..., Any] | None = None, /, *, entry: bool = True, **options: Any
    ) -> Any:
        if function is not None:
            return self._decorate(function, FunctionJobType)
        kind = JobDecorator if entry else ContinuationDecorator
        return kind(self._registry, self._codec, {**self._options, **options})


class ImplementationDecorator(Generic[P, R, *Bs]):
    """`@app.implement(...)`: gives a declared job type its handler. Returns the function itself."""

    def __init__(self, registry: Registry, codec: Codec, type: ContinuationType[P, R, *Bs]) -> None:
        self._registry = registry
        self._codec = codec
        self._type = type

    @overload
    def __call__(
        self,
        function: Callable[Concatenate[Job[*Bs], P], Coroutine[Any, Any, R | Continuation[R]]],
        /,
    ) -> Callable[Concatenate[Job[*Bs], P], Coroutine[Any, Any, R | Continuation[R]]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Bs], P], R | Continuation[R]], /
    ) -> Callable[Concatenate[Job[*Bs], P], R | Continuation[R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...
    def __call__(self, given: Any, /) -> Any:
        definition = self._type.definition
        function = handler_function(given)
        signature = read_signature(function)
        expected, found = definition.arguments.count, len(signature.parameters)
        if found != expected:
            raise ConfigurationError(
                f"{_location(function)} must take {expected} arguments besides the Job to "
                f"implement {definition.name!r}; it takes {found}"
            )
        for parameter in signature.parameters:
            if parameter.keyword_only:
                raise ConfigurationError(
                    f"{_location(function)} must take {parameter.name!r} by position to implement "
                    f"{definition.name!r}; remove the `*` before it"
                )
        handler = _handler(definition, function, signature, self._codec)
        self._registry.add(self._type, handler)
        return given


def _handler(
    definition: Definition,
    function: Callable[..., Any],
    signature: Signature,
    codec: Codec,
) -> Handler:
    if definition.isolate:
        mode = Mode.PROCESS
    else:
        mode = Mode.LOOP if signature.asynchronous else Mode.THREAD
    decoders = tuple(
        result_coders(blocker, f"the result of a blocker of {definition.name!r}", codec)[1]
        for blocker in signature.blockers
    )
    return Handler(
        type=definition.name,
        function=function,
        mode=mode,
        takes_job=signature.takes_job,
        atomic=definition.atomic,
        retry=definition.retry,
        decode_input=definition.arguments.decode,
        encode_output=definition.encode_result,
        blocker_decoders=decoders if signature.takes_job else None,
        any_number=signature.any_number,
        reference=f"{function.__module__}:{function.__qualname__}",
    )


def _location(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
