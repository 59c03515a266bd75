"""A request: a job type, its encoded arguments and its options; nothing is stored yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)
from uuid import UUID

import msgspec

from headway.domain.job import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_LOSSES, DEFAULT_QUEUE
from headway.domain.schedule import NOW, After, At
from headway.domain.validation import check_id, check_key, check_name, check_seconds
from headway.errors import InvalidOption

if TYPE_CHECKING:
    # So that `Job` alone means a job without blockers. Checkers know defaults before Python does.
    from typing_extensions import TypeVarTuple

    Bs = TypeVarTuple("Bs", default=Unpack[tuple[()]])
else:
    from typing import TypeVarTuple

    Bs = TypeVarTuple("Bs")

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
B1 = TypeVar("B1")
B2 = TypeVar("B2")
B3 = TypeVar("B3")
B4 = TypeVar("B4")
B5 = TypeVar("B5")
B6 = TypeVar("B6")

MAX_PRIORITY = 32_767


class Dedup(msgspec.Struct, frozen=True):
    """Start nothing if a sequence of the same job type with this key exists; hand out that one.

    `incomplete` looks only at sequences that have not ended yet, `any` at all that are kept.
    With a `window`, sequences created longer ago do not count. `but_not` names a sequence that
    does not count either: a job passes its own to schedule its successor under its own key.
    """

    key: str
    scope: Literal["incomplete", "any"] = "incomplete"
    window: timedelta | None = None
    but_not: str | None = None

    def __post_init__(self) -> None:
        check_key("deduplication key", self.key)
        if self.scope not in ("incomplete", "any"):
            raise InvalidOption(
                f"a deduplication scope is 'incomplete' or 'any', not {self.scope!r}"
            )
        if self.window is not None:
            if not isinstance(self.window, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
                raise InvalidOption("a deduplication window must be a timedelta")
            check_seconds("a deduplication window", self.window)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is to be treated. A job type has defaults, a request may change them."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """Higher runs first within its queue."""
    max_attempts: int | None = DEFAULT_MAX_ATTEMPTS
    """Executions in all, retries included; None is unlimited."""
    max_losses: int = DEFAULT_MAX_LOSSES
    """Leases in a row that may run out before the job is dead-lettered."""
    timeout: float | None = None
    """Seconds that one execution may take."""
    schedule: At | After = NOW
    dedup: Dedup | None = None

    def __post_init__(self) -> None:
        check_name("queue", self.queue)
        _check_whole("a priority", self.priority)
        if not -MAX_PRIORITY <= self.priority <= MAX_PRIORITY:
            raise InvalidOption(
                f"a priority is between -{MAX_PRIORITY} and {MAX_PRIORITY}, not {self.priority}"
            )
        if self.max_attempts is not None:
            _check_whole("max_attempts", self.max_attempts)
            if self.max_attempts < 1:
                raise InvalidOption(
                    "max_attempts must be at least 1, or None for no limit, "
                    f"not {self.max_attempts}"
                )
        _check_whole("max_losses", self.max_losses)
        if self.max_losses < 1:
            raise InvalidOption(f"max_losses must be at least 1, not {self.max_losses}")
        if self.timeout is not None:
            check_seconds("a timeout", self.timeout)
        _check_kind("a schedule", self.schedule, At, After)
        if self.dedup is not None:
            _check_kind("dedup", self.dedup, Dedup)


class JobOptions(TypedDict, total=False):
    """What a job type may preset for its jobs."""

    queue: str
    priority: int
    max_attempts: int | None
    max_losses: int
    timeout: float | timedelta | None


class RequestOptions(JobOptions, total=False):
    """What may be said of a single job. Only one that begins a sequence can be deduplicated."""

    schedule: At | After
    id: UUID | str | None
    dedup: Dedup | None
    idempotency_key: str | None
    """Short for `dedup=Dedup(key, scope="any")`."""


class StartOptions(RequestOptions, total=False):
    tx: Any
    """The caller's transaction: a connection of a driver that the store knows."""


class SequenceReference(Generic[R_co]):
    """A sequence that is stored and will yield an `R`."""

    __slots__ = ("id",)

    def __init__(self, id: UUID | str) -> None:
        self.id: str = check_id(id)


class Step(Generic[R_co, *Bs]):
    """What `continue_with` takes: a request for a job that goes on where another one ends.

    `R` is what the sequence yields in the end, `Bs` what the blockers yield that must still be
    given. A step is never changed; `using` gives another one.
    """

    __slots__ = ("blockers", "decode", "id", "input", "needs", "options", "type")

    def __init__(
        self,
        type: str,
        input: str,
        options: Options,
        *,
        needs: int | None = None,
        blockers: tuple[Any, ...] = (),
        id: str | None = None,
        decode: Callable[[str | None], Any] | None = None,
    ) -> None:
        self.type = type
        self.input = input
        self.options = options
        self.needs = needs
        """How many blockers the job type declares; None: any number."""
        self.blockers = blockers
        """Requests, sequences or sequence ids."""
        self.id = id
        """The id that the caller chose."""
        self.decode = decode
        """Reads what the sequence yielded; None: plain JSON values."""

    @overload
    def using(self, **options: Unpack[RequestOptions]) -> Self: ...
    @overload
    def using(
        self: Step[R, B1], *, blockers: tuple[Source[B1]], **options: Unpack[RequestOptions]
    ) -> Step[R]: ...
    @overload
    def using(
        self: Step[R, B1, B2],
        *,
        blockers: tuple[Source[B1], Source[B2]],
        **options: Unpack[RequestOptions],
    ) -> Step[R]: ...
    @overload
    def using(
        self: Step[R, B1, B2, B3],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3]],
        **options: Unpack[RequestOptions],
    ) -> Step[R]: ...
    @overload
    def using(
        self: Step[R, B1, B2, B3, B4],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4]],
        **options: Unpack[RequestOptions],
    ) -> Step[R]: ...
    @overload
    def using(
        self: Step[R, B1, B2, B3, B4, B5],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4], Source[B5]],
        **options: Unpack[RequestOptions],
    ) -> Step[R]: ...
    @overload
    def using(
        self: Step[R, B1, B2, B3, B4, B5, B6],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4], Source[B5], Source[B6]],
        **options: Unpack[RequestOptions],
    ) -> Step[R]: ...
    @overload
    def using(
        self: Step[R, *tuple[S, ...]],
        *,
        blockers: list[Source[S]],
        **options: Unpack[RequestOptions],
    ) -> Step[R]: ...
    def using(self, *, blockers: Sequence[Any] | None = None, **options: Any) -> Any:
        """The same request with other options, or with its blockers."""
        return self._using(blockers, options)

    def _using(self, blockers: Sequence[Any] | None, changes: dict[str, Any]) -> Any:
        given = changes.pop("id", None)
        return self.__class__(
            self.type,
            self.input,
            changed_options(self.options, changes),
            needs=self.needs,
            blockers=self.blockers if blockers is None else tuple(blockers),
            id=self.id if given is None else check_id(given),
            decode=self.decode,
        )

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {self.type}>"


class Request(Step[R_co, *Bs]):
    """What `start` takes: a request for a job that may begin a sequence."""

    __slots__ = ()

    @overload
    def using(self, **options: Unpack[RequestOptions]) -> Self: ...
    @overload
    def using(
        self: Request[R, B1], *, blockers: tuple[Source[B1]], **options: Unpack[RequestOptions]
    ) -> Request[R]: ...
    @overload
    def using(
        self: Request[R, B1, B2],
        *,
        blockers: tuple[Source[B1], Source[B2]],
        **options: Unpack[RequestOptions],
    ) -> Request[R]: ...
    @overload
    def using(
        self: Request[R, B1, B2, B3],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3]],
        **options: Unpack[RequestOptions],
    ) -> Request[R]: ...
    @overload
    def using(
        self: Request[R, B1, B2, B3, B4],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4]],
        **options: Unpack[RequestOptions],
    ) -> Request[R]: ...
    @overload
    def using(
        self: Request[R, B1, B2, B3, B4, B5],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4], Source[B5]],
        **options: Unpack[RequestOptions],
    ) -> Request[R]: ...
    @overload
    def using(
        self: Request[R, B1, B2, B3, B4, B5, B6],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4], Source[B5], Source[B6]],
        **options: Unpack[RequestOptions],
    ) -> Request[R]: ...
    @overload
    def using(
        self: Request[R, *tuple[S, ...]],
        *,
        blockers: list[Source[S]],
        **options: Unpack[RequestOptions],
    ) -> Request[R]: ...
    def using(self, *, blockers: Sequence[Any] | None = None, **options: Any) -> Any:
        """The same request with other options, or with its blockers."""
        return self._using(blockers, options)


Source = Request[S] | SequenceReference[S]
"""What may block a job: a request, started with it, or a sequence that exists."""


class Continuation(Generic[R_co]):
    """Returned by a handler to say that its sequence goes on with another job."""

    __slots__ = ("step",)

    def __init__(self, step: Step[R_co]) -> None:
        self.step = step


def changed_options(options: Options, changes: dict[str, Any]) -> Options:
    """`options` with `changes`, which may use the short forms that callers may use."""
    if not changes:
        return options
    key = changes.pop("idempotency_key", None)
    if key is not None:
        if changes.get("dedup") is not None:
            raise InvalidOption("give either dedup or idempotency_key, not both")
        changes["dedup"] = Dedup(key, scope="any")
    timeout = changes.get("timeout")
    if isinstance(timeout, timedelta):
        changes["timeout"] = timeout.total_seconds()
    unknown = changes.keys() - set(Options.__struct_fields__)
    if unknown:
        known = ", ".join(Options.__struct_fields__)
        raise InvalidOption(f"there is no option {min(unknown)!r}; there are {known}")
    return msgspec.structs.replace(options, **changes)


def _check_whole(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(f"{what} must be a whole number, not {_kind(value)}")


def _check_kind(what: str, value: object, *kinds: type) -> None:
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidOption(f"{what} must be made with {names}, not {_kind(value)}")


def _kind(value: object) -> str:
    return cast("type[Any]", type(value)).__name__
