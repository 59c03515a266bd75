"""Log lines that say which job they belong to: readable ones, and JSON for machines.

Nothing here changes the logging module for others: `JobFields` works on the handlers that it is
added to, the formatters on those that they are set on.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import msgspec

from headway.observers.trace_context import decode_carried
from headway.ports.attempt import current_attempt

FIELDS = ("job_id", "job_type", "queue", "sequence_id", "attempt", "worker", "trace_id")
"""What is known of a line that a handler logs; all None outside of handlers."""

_USUAL = frozenset(
    {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "asctime", "message", "taskName"}
)


class JobFields(logging.Filter):
    """Lets everything pass, and puts the fields of the job that is being run here on each record.

    Add it to a handler, not to a logger, so that it sees what all loggers hand on.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        fields = record.__dict__
        attempt = current_attempt.get()
        if attempt is None:
            for name in FIELDS:
                fields.setdefault(name, None)
            return True
        claimed = attempt.claimed
        fields.setdefault("job_id", claimed.id)
        fields.setdefault("job_type", claimed.type)
        fields.setdefault("queue", claimed.queue)
        fields.setdefault("sequence_id", claimed.sequence_id)
        fields.setdefault("attempt", claimed.attempts + 1)
        fields.setdefault("worker", attempt.worker)
        if fields.get("trace_id") is None:
            carried = None if attempt.trace_id else decode_carried(claimed.trace)
            fields["trace_id"] = attempt.trace_id or (carried and carried.trace_id)
        return True


class LineFormatter(logging.Formatter):
    """One readable line; what a handler logs ends with the name of its job."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        line = super().formatMessage(record)
        fields = record.__dict__
        if fields.get("job_id") is None or "event" in fields:  # an event names its job itself
            return line
        trace = f" trace {fields['trace_id']}" if fields.get("trace_id") else ""
        job = f"{fields['job_type']} {fields['job_id']} attempt {fields['attempt']}{trace}"
        return f"{line}  [{job}]"


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and all fields that the record was
    given, by Headway or with `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in record.__dict__.items():
            if name not in _USUAL and value is not None:
                line.setdefault(name, value)
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["traceback"] = record.exc_text
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        try:
            return msgspec.json.encode(line, enc_hook=repr).decode()
        except Exception:  # a field that cannot be encoded even so
            plain = {name: repr(value) for name, value in line.items()}
            return msgspec.json.encode(plain).decode("utf-8", "replace")
