# A function that takes a Job first is also a function of any parameters: the order decides.
# pyright: reportOverlappingOverload=false
# mypy: disable-error-code="overload-overlap"
"""The decorators `@app.job`, `@app.step` and `@app.implement`.

Checkers read a handler's kind from the overloads, the first that fits: what takes a Job before
what does not, what awaits before what does not, and a Continuation before any other result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload

from headway.domain.request import Bs, Continuation
from headway.domain.validation import check_name
from headway.errors import ConfigurationError
from headway.jobs.arguments import NamedArguments
from headway.jobs.handler import Handler, Mode
from headway.jobs.job import Job
from headway.jobs.job_type import (
    ContextJob,
    ContextStep,
    Definition,
    FunctionJob,
    FunctionStep,
    StepType,
    TypeOptions,
    define,
    result_coders,
)
from headway.jobs.registry import Registry
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
        self,
        given: Any,
        plain: Callable[..., StepType[..., Any]],
        contextual: Callable[..., StepType[..., Any, *tuple[Any, ...]]],
        names: Mapping[str, Any],
    ) -> Any:
        function = handler_function(given)
        options = dict(self._options)
        name = options.pop("name", None)
        name = check_name("job type", function.__name__ if name is None else name)
        signature = read_signature(function, names)
        definition = define(
            name,
            place=_place(function),
            arguments=NamedArguments(name, signature.parameters, self._codec),
            result=signature.result,
            needs=signature.needs,
            codec=self._codec,
            options=options,
        )
        made = (contextual if signature.takes_job else plain)(definition, function)
        handler = _handler(definition, function, signature, self._codec)
        self._registry.add(made, handler)
        return made


class JobDecorator(_Decorator):
    """Makes a function a job type that can be started."""

    @overload
    def __call__(
        self,
        function: Callable[Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R]]],
        /,
    ) -> ContextJob[P, R, Coroutine[Any, Any, Continuation[R]], *Given]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Coroutine[Any, Any, None]], /
    ) -> ContextJob[P, None, Coroutine[Any, Any, None], *Given]: ...
    @overload
    def __call__(
        self,
        function: Callable[
            Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R] | None]
        ],
        /,
    ) -> ContextJob[P, R | None, Coroutine[Any, Any, Continuation[R] | None], *Given]: ...
    @overload
    def __call__(
        self,
        function: Callable[Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R] | R]],
        /,
    ) -> ContextJob[P, R, Coroutine[Any, Any, Continuation[R] | R], *Given]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Continuation[R]], /
    ) -> ContextJob[P, R, Continuation[R], *Given]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], None], /
    ) -> ContextJob[P, None, None, *Given]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Continuation[R] | None], /
    ) -> ContextJob[P, R | None, Continuation[R] | None, *Given]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Continuation[R] | R], /
    ) -> ContextJob[P, R, Continuation[R] | R, *Given]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> FunctionJob[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> FunctionJob[P, R, R]: ...
    @overload
    def __call__(self, /, **options: Unpack[TypeOptions]) -> JobDecorator: ...
    def __call__(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        if function is None:
            return JobDecorator(self._registry, self._codec, options)
        return self._decorate(function, FunctionJob, ContextJob, _names_of_caller())


class StepDecorator(_Decorator):
    """Makes a function a job type that can only be reached by continuing."""

    @overload
    def __call__(
        self,
        function: Callable[Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R]]],
        /,
    ) -> ContextStep[P, R, Coroutine[Any, Any, Continuation[R]], *Given]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Coroutine[Any, Any, None]], /
    ) -> ContextStep[P, None, Coroutine[Any, Any, None], *Given]: ...
    @overload
    def __call__(
        self,
        function: Callable[
            Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R] | None]
        ],
        /,
    ) -> ContextStep[P, R | None, Coroutine[Any, Any, Continuation[R] | None], *Given]: ...
    @overload
    def __call__(
        self,
        function: Callable[Concatenate[Job[*Given], P], Coroutine[Any, Any, Continuation[R] | R]],
        /,
    ) -> ContextStep[P, R, Coroutine[Any, Any, Continuation[R] | R], *Given]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Continuation[R]], /
    ) -> ContextStep[P, R, Continuation[R], *Given]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], None], /
    ) -> ContextStep[P, None, None, *Given]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Continuation[R] | None], /
    ) -> ContextStep[P, R | None, Continuation[R] | None, *Given]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Job[*Given], P], Continuation[R] | R], /
    ) -> ContextStep[P, R, Continuation[R] | R, *Given]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> FunctionStep[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> FunctionStep[P, R, R]: ...
    @overload
    def __call__(self, /, **options: Unpack[TypeOptions]) -> StepDecorator: ...
    def __call__(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        if function is None:
            return StepDecorator(self._registry, self._codec, options)
        return self._decorate(function, FunctionStep, ContextStep, _names_of_caller())


class Implementation(Generic[P, R, *Bs]):
    """Gives a declared job type its handler; the function itself stays as it is."""

    def __init__(self, registry: Registry, codec: Codec, type: StepType[P, R, *Bs]) -> None:
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
        signature = read_signature(function, _names_of_caller())
        expected, found = definition.arguments.count, len(signature.parameters)
        if found != expected:
            raise ConfigurationError(
                f"{_place(function)} must take {expected} arguments besides the Job to implement "
                f"{definition.name!r}; it takes {found}"
            )
        for parameter in signature.parameters:
            if parameter.keyword_only:
                raise ConfigurationError(
                    f"{_place(function)} must take {parameter.name!r} by position to implement "
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
        arguments=definition.arguments.decode,
        encode_output=definition.encode_result,
        blocker_decoders=decoders if signature.takes_job else None,
        any_number=signature.any_number,
        reference=f"{function.__module__}:{function.__qualname__}",
    )


def _names_of_caller() -> Mapping[str, Any]:
    """The local names where a decorator is used, for annotations that are read as text."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    return frame.f_locals if frame else {}


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
