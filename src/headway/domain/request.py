"""Requests: a job type's name, encoded arguments and options of a job that is not stored yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)
from uuid import UUID

import msgspec

from headway.domain.due_time import NOW, After, At
from headway.domain.job import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_LOSSES, DEFAULT_QUEUE
from headway.domain.schedules.timetable import Cron, Every
from headway.domain.validation import (
    check_id,
    check_key,
    check_kind,
    check_name,
    check_seconds,
    check_whole,
)
from headway.errors import InvalidOption

if TYPE_CHECKING:
    # Type checkers know defaults of type variables, Python 3.11 does not.
    from typing_extensions import TypeVar as _TypeVar
    from typing_extensions import TypeVarTuple

    Bs = TypeVarTuple("Bs", default=Unpack[tuple[()]])  # `Job` alone: a job without blockers
    A = _TypeVar("A", default=Any)  # no job type given: the result can be anything
    N = _TypeVar("N", default=None)  # no output declared: the result is None
else:
    from typing import TypeVarTuple

    Bs = TypeVarTuple("Bs")
    A = TypeVar("A")
    N = TypeVar("N")

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
B1 = TypeVar("B1")
B2 = TypeVar("B2")
B3 = TypeVar("B3")
B4 = TypeVar("B4")
B5 = TypeVar("B5")
B6 = TypeVar("B6")

MAX_PRIORITY = 32_767


class Dedup(msgspec.Struct, frozen=True):
    """One key, one sequence: if a sequence of the same job type has this key, `start` returns that
    sequence and stores nothing.

    The scope `incomplete` counts sequences that have not ended, `any` counts all stored ones. With
    a `window`, sequences created longer ago do not count. `but_not` is the id of a sequence that
    does not count: a job passes its own to start its next round under the same key.
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
    """The options of one job. A job type has defaults, a request may change them."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """Higher runs first within its queue."""
    max_attempts: int | None = DEFAULT_MAX_ATTEMPTS
    """Executions in all, retries included; None is unlimited."""
    max_losses: int = DEFAULT_MAX_LOSSES
    """Expired leases in a row after which the job is dead-lettered."""
    timeout: float | None = None
    """Seconds that one execution may take."""
    schedule: At | After = NOW
    dedup: Dedup | None = None
    key: str | None = None
    """For limits by key, and for keys that take turns."""

    def __post_init__(self) -> None:
        check_name("queue", self.queue)
        check_whole("a priority", self.priority)
        if not -MAX_PRIORITY <= self.priority <= MAX_PRIORITY:
            raise InvalidOption(
                f"a priority is between -{MAX_PRIORITY} and {MAX_PRIORITY}, not {self.priority}"
            )
        if self.max_attempts is not None:
            check_whole("max_attempts", self.max_attempts)
            if self.max_attempts < 1:
                raise InvalidOption(
                    "max_attempts must be at least 1, or None for no limit, "
                    f"not {self.max_attempts}"
                )
        check_whole("max_losses", self.max_losses)
        if self.max_losses < 1:
            raise InvalidOption(f"max_losses must be at least 1, not {self.max_losses}")
        if self.timeout is not None:
            check_seconds("a timeout", self.timeout)
        if isinstance(self.schedule, Cron | Every):
            raise InvalidOption(
                f"schedule= of a start is At or After, not {type(self.schedule).__name__}; to "
                "start again and again use app.schedule or app.schedules.put"
            )
        check_kind("a schedule", self.schedule, At, After)
        if self.dedup is not None:
            check_kind("dedup", self.dedup, Dedup)
        if self.key is not None:
            check_key("key", self.key)


class JobOptions(TypedDict, total=False):
    """Options of a job that its job type may preset."""

    queue: str
    priority: int
    max_attempts: int | None
    max_losses: int
    timeout: float | timedelta | None


class RequestOptions(JobOptions, total=False):
    """Options of a single job. Only a job that begins a sequence can be deduplicated."""

    key: str | None
    """For limits by key, and for keys that take turns: a tenant, a customer, an account."""
    schedule: At | After
    id: UUID | str | None
    dedup: Dedup | None
    idempotency_key: str | None
    """Short for `dedup=Dedup(key, scope="any")`."""


class StartOptions(RequestOptions, total=False):
    """Options of `start`."""

    tx: Any
    """The caller's transaction: a connection of a driver that the store knows."""


class SequenceReference(Generic[R_co]):
    """A stored sequence whose result is an `R`."""

    __slots__ = ("id",)

    def __init__(self, id: UUID | str) -> None:
        self.id: str = check_id(id)


class _Blockable(Protocol[T_co, *Bs]):
    """For type checkers: a request that becomes a `T` once it has blockers that yield `Bs`."""

    def _blocked(self) -> tuple[T_co, tuple[*Bs]]: ...


class ContinuationRequest(Generic[R_co, *Bs]):
    """A request for a job that continues a sequence: the argument of `continue_with`.

    `R` is the result of the sequence, `Bs` are the results of the blockers that are still missing.
    A request never changes: `using` returns a new one.
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
        """Number of blockers that the job type declares; None: any number."""
        self.blockers = blockers
        """Requests, sequences or ids of sequences."""
        self.id = id
        """The id that the caller chose."""
        self.decode = decode
        """Decodes the result of the sequence; None: as plain JSON values."""

    if TYPE_CHECKING:

        def _blocked(self) -> tuple[ContinuationRequest[R_co], tuple[*Bs]]: ...

    @overload
    def using(self, **options: Unpack[RequestOptions]) -> Self: ...
    @overload
    def using(
        self: _Blockable[T, B1], *, blockers: tuple[Source[B1]], **options: Unpack[RequestOptions]
    ) -> T: ...
    @overload
    def using(
        self: _Blockable[T, B1, B2],
        *,
        blockers: tuple[Source[B1], Source[B2]],
        **options: Unpack[RequestOptions],
    ) -> T: ...
    @overload
    def using(
        self: _Blockable[T, B1, B2, B3],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3]],
        **options: Unpack[RequestOptions],
    ) -> T: ...
    @overload
    def using(
        self: _Blockable[T, B1, B2, B3, B4],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4]],
        **options: Unpack[RequestOptions],
    ) -> T: ...
    @overload
    def using(
        self: _Blockable[T, B1, B2, B3, B4, B5],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4], Source[B5]],
        **options: Unpack[RequestOptions],
    ) -> T: ...
    @overload
    def using(
        self: _Blockable[T, B1, B2, B3, B4, B5, B6],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4], Source[B5], Source[B6]],
        **options: Unpack[RequestOptions],
    ) -> T: ...
    @overload
    def using(
        self: _Blockable[T, *tuple[S, ...]],
        *,
        blockers: list[Source[S]] | list[Request[S]],
        **options: Unpack[RequestOptions],
    ) -> T: ...
    def using(self, *, blockers: Sequence[Any] | None = None, **options: Any) -> Any:
        """The same request with its blockers, or with other options."""
        changed: Any = self.with_options(options)
        if blockers is not None:
            changed.blockers = tuple(blockers)
        return changed

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """The same request with the options given to `start` or `continue_with`."""
        changes = dict(options)
        given = changes.pop("id", None)
        return self.__class__(
            self.type,
            self.input,
            changed_options(self.options, changes),
            needs=self.needs,
            blockers=self.blockers,
            id=self.id if given is None else check_id(given),
            decode=self.decode,
        )

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {self.type}>"


class Request(ContinuationRequest[R_co, *Bs]):
    """A request for a job that begins or continues a sequence: the argument of `start`."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _blocked(self) -> tuple[Request[R_co], tuple[*Bs]]: ...


AnyRequest = ContinuationRequest[Any, *tuple[Any, ...]]
Source = Request[S] | SequenceReference[S]
"""A blocker: a request that is started together with the job, or a stored sequence."""


class Continuation(Generic[R_co]):
    """Returned by a handler: its sequence goes on with the job of this request."""

    __slots__ = ("request",)

    def __init__(self, request: ContinuationRequest[R_co]) -> None:
        self.request = request


def changed_options(options: Options, changes: dict[str, Any]) -> Options:
    """`options` with `changes`; these may hold `idempotency_key`, and `timeout` as a timedelta."""
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
