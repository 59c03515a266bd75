"""Every error that Headway raises.

    HeadwayError
    ├── InvalidRequest            the request cannot be accepted; nothing was written
    │   ├── InvalidName           a job type, queue, key or schema name that is not allowed
    │   ├── InvalidPayload        an input or output that cannot be stored
    │   ├── InvalidOption         a lease, attempt, timeout or priority out of range
    │   ├── UnknownJobType        the app has no job type of this name
    │   ├── DuplicateJob          the id given for a new job is taken
    │   └── AmbiguousId           several jobs have ids with this ending
    ├── ConfigurationError        the app is put together wrongly: URLs, extras, registration
    ├── JobNotFound
    ├── ScheduleNotFound
    ├── WrongState                the state of the job does not allow the action
    ├── SequencesNeeded           other sequences depend on those that are to be deleted
    ├── ResultError               waiting for a sequence gave no result
    │   ├── ResultTimeout         the sequence goes on
    │   ├── ResultFailed          carries the failure of the sequence's last job
    │   └── ResultCancelled
    ├── StoreError
    │   ├── StoreClosed
    │   ├── StoreUnreachable
    │   │   └── StoreRefused      wrong password, no such database, a file that cannot be opened
    │   ├── DataRefused           the database does not take a value
    │   ├── SchemaMissing
    │   └── SchemaOutdated
    ├── NotifierClosed
    ├── Unrecoverable             raised by handlers: do not try again
    └── JobInterrupted            why a running handler must stop

`Failure` is no error but a value: what is stored of an exception that a handler raised.

A message is one or two sentences: what is wrong, and what to do about it. No message holds a
payload or a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

E = TypeVar("E", bound=Exception)


class HeadwayError(Exception):
    """Base of all errors raised by Headway."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Python would make the copy from the message, which is no argument of most errors.
        return _copied, (type(self), self.args), self.__dict__


def _copied(kind: type[E], args: tuple[Any, ...]) -> E:
    error = kind.__new__(kind)
    error.args = args
    return error


class InvalidRequest(HeadwayError, ValueError):
    """The request cannot be accepted; nothing was written."""


class InvalidName(InvalidRequest):
    """A name is empty, too long, or holds characters that are not allowed."""


class InvalidPayload(InvalidRequest):
    """A value cannot be stored: wrong type, too large, or not representable everywhere."""


class InvalidOption(InvalidRequest):
    """An option is out of range."""


class UnknownJobType(InvalidRequest):
    """No job type of that name is registered in this app."""

    def __init__(self, name: str, suggestion: str | None = None) -> None:
        self.name = name
        self.suggestion = suggestion
        hint = f"; did you mean {suggestion!r}?" if suggestion else "; register it before using it"
        super().__init__(f"unknown job type {name!r}{hint}")


class DuplicateJob(InvalidRequest):
    """The id given for a new job is taken."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"a job with id {job_id} exists already; leave the id out to have one made, "
            "or use an idempotency key to get the existing job"
        )


class AmbiguousId(InvalidRequest):
    """Not exactly one job is known to have an id with this ending."""

    def __init__(self, ending: str, candidates: Sequence[str], *, searched: int | None) -> None:
        """`candidates` describe the jobs that were found; `searched`: the number of ids that were
        compared, if these were not all."""
        self.ending = ending
        named = ", ".join(candidates)
        if searched is None:
            why = f"the ids of several jobs end with {ending}"
        else:
            why = (
                f"only the newest {searched:,} jobs were searched for an id that ends with {ending}"
            )
        super().__init__(f"{why}; give the whole id" + (f": {named}" if named else ""))


class ConfigurationError(HeadwayError):
    """The app is put together wrongly."""


class JobNotFound(HeadwayError):
    """There is no such job or sequence."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        named = job_id if len(job_id) >= 36 else f"whose id ends with {job_id}"
        super().__init__(f"there is no job {named}; it never existed, was deleted, or was pruned")


class ScheduleNotFound(HeadwayError, LookupError):
    """There is no stored schedule of this name."""

    def __init__(self, name: str, *, declared: bool = False) -> None:
        self.name = name
        if declared:
            reason = "is declared, and not stored yet: a worker stores it when it starts"
            super().__init__(f"schedule {name!r} {reason}")
        else:
            advice = "`headway schedules list` shows them all"
            super().__init__(f"there is no schedule {name!r}; {advice}")


class WrongState(HeadwayError):
    """The state of the job does not allow the action."""

    def __init__(self, job_id: str, state: str, wanted: str) -> None:
        self.job_id = job_id
        self.state = state
        super().__init__(f"job {job_id} is {state}; {wanted}")


class SequencesNeeded(HeadwayError):
    """Sequences cannot be deleted because they are blockers of others that would stay."""

    def __init__(self, dependents: Sequence[str]) -> None:
        self.dependents = tuple(dependents)
        """The roots of the sequences that depend on them."""
        some = ", ".join(self.dependents[:3]) + (", …" if len(self.dependents) > 3 else "")
        super().__init__(
            f"other sequences depend on these and would wait forever; delete their roots too "
            f"({some}), or pass cascade=True"
        )


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is stored of an exception that a handler raised."""

    type: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


class ResultError(HeadwayError):
    """Waiting for a sequence gave no result."""

    sequence_id: str


class ResultTimeout(ResultError, TimeoutError):
    """The sequence did not end in time; it goes on, and you can wait again."""

    def __init__(self, sequence_id: str, timeout: float, state: str) -> None:
        self.sequence_id = sequence_id
        self.state = state
        super().__init__(f"sequence {sequence_id} is still {state} after {timeout:g} seconds")


class ResultFailed(ResultError):
    """The last job of the sequence is a dead letter. After a retry the sequence goes on."""

    def __init__(self, sequence_id: str, job_id: str, type: str, failure: Failure) -> None:
        self.sequence_id = sequence_id
        self.job_id = job_id
        self.type = type
        self.failure = failure
        super().__init__(f"sequence {sequence_id} failed in job {job_id} ({type}): {failure}")


class ResultCancelled(ResultError):
    """The sequence was cancelled."""

    def __init__(self, sequence_id: str) -> None:
        self.sequence_id = sequence_id
        super().__init__(f"sequence {sequence_id} was cancelled")


class StoreError(HeadwayError):
    """The store could not carry out an operation."""


class StoreClosed(StoreError):
    def __init__(self, store: str) -> None:
        super().__init__(
            f"the store ({store}) is closed; open it before use, and again in a process that was "
            "forked: `async with app:`, or without an event loop `app.sync`"
        )


class StoreUnreachable(StoreError):
    """The database did not answer; `where` names it without its secrets."""

    def __init__(self, where: str, cause: str) -> None:
        self.where, self.cause = where, cause
        super().__init__(f"cannot reach {where}: {cause}; is it running and is the DSN right?")


class StoreRefused(StoreUnreachable):
    """The server refuses the connection, or the file cannot be opened; `advice` says what to do."""

    def __init__(self, where: str, cause: str, advice: str) -> None:
        self.where, self.cause = where, cause
        StoreError.__init__(self, f"cannot use {where}: {cause}; {advice}")


class DataRefused(StoreError):
    """The database can never take a value: text that it cannot hold, or too much of it. Nothing was
    written. All other store errors may be temporary."""

    def __init__(self, where: str, cause: str) -> None:
        super().__init__(f"{where} does not take this: {cause}")


class SchemaMissing(StoreError):
    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where} has no Headway schema; create it with `headway migrate up` "
            "or Headway(..., migrate=True)"
        )


class SchemaOutdated(StoreError):
    def __init__(self, where: str, found: int, needed: int) -> None:
        self.found = found
        self.needed = needed
        super().__init__(
            f"the Headway schema in {where} is at version {found}, this release needs {needed}; "
            "run `headway migrate up`"
        )


class NotifierClosed(HeadwayError):
    def __init__(self, notifier: str) -> None:
        super().__init__(
            f"the {notifier} is closed; open it before use, and again in a process that was "
            "forked: `async with app:`, or without an event loop `app.sync`"
        )


class Unrecoverable(HeadwayError):
    """Raise it in a handler to dead-letter the job at once, whatever attempts are left."""


class JobInterrupted(HeadwayError):
    """Why a running handler must stop; found in `job.interruption` and in the cancellation."""

    def __init__(self, job_id: str, reason: str) -> None:
        self.job_id = job_id
        self.reason = reason
        super().__init__(f"job {job_id} must stop: {reason.replace('_', ' ')}")
