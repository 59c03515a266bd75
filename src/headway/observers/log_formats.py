"""Log lines that name their job: as readable text, and as JSON.

`JobFields` and the formatters only affect the log handlers that they are set on.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import msgspec

from headway.observers.trace_context import decode_trace
from headway.ports.current_attempt import current_attempt

FIELDS = ("job_id", "job_type", "queue", "sequence_id", "attempt", "worker", "trace_id")
"""Fields of a line logged while a job runs; None elsewhere."""

_USUAL = frozenset(
    {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "asctime", "message", "taskName"}
)


class JobFields(logging.Filter):
    """Adds the fields of the running job to each log record; filters nothing out.

    Add it to a log handler, not to a logger: then it sees the records of all loggers.
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
            context = None if attempt.trace_id else decode_trace(claimed.trace)
            fields["trace_id"] = attempt.trace_id or (context and context.trace_id)
        return True


class LineFormatter(logging.Formatter):
    """One readable line; lines logged while a job runs end with the job."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        line = super().formatMessage(record)
        fields = record.__dict__
        if fields.get("job_id") is None or "event" in fields:  # events name their job
            return line
        trace = f" trace {fields['trace_id']}" if fields.get("trace_id") else ""
        job = f"{fields['job_type']} {fields['job_id']} attempt {fields['attempt']}{trace}"
        return f"{line}  [{job}]"


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and all fields of the record that
    Headway or `extra` added."""

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
        except Exception:  # a field that `repr` does not make encodable
            plain = {name: repr(value) for name, value in line.items()}
            return msgspec.json.encode(plain).decode("utf-8", "replace")
