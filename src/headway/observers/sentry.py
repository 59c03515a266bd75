"""Sentry: dead letters and, if asked, every failure, as events of `sentry_sdk`.

The program calls `sentry_sdk.init`. An event has the exception with its frames where the handler
ran in this process, else the frames of the stored traceback. Local variables, which hold the
arguments of the job, are left out unless asked for.

The SDK takes milliseconds to make an event of an exception, so a thread does it.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from queue import SimpleQueue
from time import monotonic
from typing import Any

try:
    import sentry_sdk
    from sentry_sdk.integrations.logging import ignore_logger
    from sentry_sdk.scope import Scope, use_isolation_scope
    from sentry_sdk.utils import event_from_exception
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "headway.observers.sentry needs Sentry's SDK: pip install 'headway[sentry]'",
        name=error.name,
    ) from error

from headway.domain import events
from headway.domain.events import Event
from headway.domain.failure import fingerprint
from headway.errors import Failure, InvalidOption
from headway.observers.rate_limit import RateLimit
from headway.ports.store import Store
from headway.runtime.forks import Forkable

PER_SECOND = 10
MOST_WAITING = 1_000
"""Reports that wait for the thread; further ones are dropped."""

_FRAME = re.compile(
    r'^ *File "(?P<file>[^"\n]*)", line (?P<line>\d+), in (?P<function>.*)(?:\n {4,}(?P<code>.*))?',
    re.M,
)
_CHAINED = "\n\nDuring handling of the above exception"
_CAUSED = "\n\nThe above exception was the direct cause"

_log = logging.getLogger("headway")


class SentryObserver(Forkable):
    """Reports to Sentry. Pass it to the app: `Headway(url, observers=[SentryObserver()])`.

    `failures`: report also failures that are tried again, as warnings.
    `local_variables`: send the local variables of the frames, with the arguments of the job.
    `per_second`: limits the reports; above it, an even sample is sent; None: no limit.
    """

    every_job = False
    exceptions = True

    def __init__(
        self,
        *,
        failures: bool = False,
        local_variables: bool = False,
        per_second: float | None = PER_SECOND,
    ) -> None:
        if per_second is not None and per_second < 1:
            raise InvalidOption(f"per_second is 1 or more, or None for no limit, not {per_second}")
        self._failures = failures
        self._local_variables = local_variables
        self._rate_limit = RateLimit(per_second)
        self.dropped = 0
        """Reports that were not made because there were too many."""
        self._scope: Scope | None = None
        """What the program has told the SDK about itself before jobs ran."""
        ignore_logger("headway")  # else the SDK reports the log line of a dead letter as well
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def observe(self, event: Event) -> None:
        match event:
            case events.JobDeadLettered():
                self._put(event, None)
            case events.AttemptFailed() if self._failures and event.retry_in is not None:
                self._put(event, event.retry_in)
            case events.WorkerStarted() if not sentry_sdk.is_initialized():
                _log.warning("nothing is reported to Sentry: sentry_sdk.init was not called")
            case _:
                pass

    def app_opened(self, store: Store) -> None:
        if self._scope is None:
            self._scope = Scope.get_isolation_scope().fork()

    def app_closing(self, seconds: float) -> None:
        deadline = monotonic() + seconds
        with self._lock:
            thread, self._thread = self._thread, None
            waiting, self._waiting = self._waiting, SimpleQueue()
        if thread is not None:
            waiting.put(None)
            thread.join(max(deadline - monotonic(), 0.0))
        sentry_sdk.flush(timeout=max(deadline - monotonic(), 0.0))
        self._scope = None
        if self.dropped:
            _log.warning("%d failures were not reported to Sentry: too many", self.dropped)
            self.dropped = 0

    def _put(
        self, event: events.JobDeadLettered | events.AttemptFailed, retry_in: float | None
    ) -> None:
        if not sentry_sdk.is_initialized():
            return
        context = copy_context()  # with the program's client of the SDK
        with self._lock:
            if self._waiting.qsize() >= MOST_WAITING or not self._rate_limit.take():
                self.dropped += 1
                return
            self._waiting.put(lambda: context.run(self._report, event, retry_in))
            if self._thread is None:
                thread = threading.Thread(
                    target=_run, args=(self._waiting,), name="headway-sentry", daemon=True
                )
                thread.start()
                self._thread = thread

    def _report(
        self, event: events.JobDeadLettered | events.AttemptFailed, retry_in: float | None
    ) -> None:
        options: Mapping[str, Any] = sentry_sdk.get_client().options
        mechanism = {"type": "headway", "handled": retry_in is not None}
        report: Any
        hint: dict[str, Any]
        if event.exception is None:
            report, hint = {"exception": {"values": [_described(event.failure, mechanism)]}}, {}
        else:
            report, hint = event_from_exception(
                event.exception,
                client_options={**options, "include_local_variables": self._local_variables},
                mechanism=mechanism,
            )
        group = fingerprint(event.type, event.failure)
        report["level"] = "error" if retry_in is None else "warning"
        report["logger"] = "headway"
        report["fingerprint"] = ["headway", group]
        report["transaction"] = event.type
        report["transaction_info"] = {"source": "task"}
        job: dict[str, Any] = {
            "job_id": event.job_id,
            "job_type": event.type,
            "queue": event.queue,
            "sequence_id": event.sequence_id,
            "attempt": event.attempt,
        }
        outcome = "dead_lettered" if retry_in is None else "failed"
        report["tags"] = {**job, "attempt": str(event.attempt), "outcome": outcome}
        report["contexts"] = {"job": {**job, "fingerprint": group, "retry_in": retry_in}}
        # Users, tags and breadcrumbs that handlers add to the shared scope belong to other jobs.
        scope = (self._scope or Scope.get_isolation_scope()).fork()
        scope.clear_breadcrumbs()
        with use_isolation_scope(scope):
            scope.capture_event(report, hint)


def _run(waiting: SimpleQueue[Callable[[], None] | None]) -> None:
    while (report := waiting.get()) is not None:
        try:
            report()
        except Exception:
            _log.exception("a failure could not be reported to Sentry")
        del report  # it holds the exception


def _described(failure: Failure, mechanism: dict[str, Any]) -> dict[str, Any]:
    """An exception of which only the text is known: of another process, or of a lost lease."""
    module, _, name = failure.type.rpartition(".")
    found: dict[str, Any] = {
        "type": name,
        "module": module or None,
        "value": failure.message,
        "mechanism": mechanism,
    }
    trace = failure.traceback
    for separator in (_CHAINED, _CAUSED):
        trace = trace.rpartition(separator)[2]
    frames = [
        {
            "filename": frame["file"].replace("\\", "/").rpartition("/")[2],
            "abs_path": frame["file"],
            "lineno": int(frame["line"]),
            "function": frame["function"],
            "context_line": frame["code"],
        }
        for frame in _FRAME.finditer(trace)
    ]
    if frames:
        found["stacktrace"] = {"frames": frames}
    return found
