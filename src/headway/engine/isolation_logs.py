"""What isolated handlers log is handed to the worker, which logs it as it logs everything else."""

from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Callable

import msgspec


class Logged(msgspec.Struct, frozen=True):
    record: logging.LogRecord


class Forwarding(logging.Handler):
    """In the child: sends records instead of writing them, unless the user's code set up logging of
    its own there. Never raises."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        super().__init__()
        self._send = send

    def install(self, level: int) -> None:
        """Begin, or go on, with what the worker wants to hear now."""
        root = logging.getLogger()
        if not root.handlers:
            root.addHandler(self)
        if root.handlers == [self]:
            root.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        if logging.getLogger().handlers != [self]:
            return
        try:
            self._send(_packed(record))
        except Exception:
            self.handleError(record)


def _packed(record: logging.LogRecord) -> bytes:
    """With everything made into text that might not survive the journey."""
    record = copy.copy(record)
    record.msg = record.getMessage()
    record.args = None
    if record.exc_info and not record.exc_text:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    record.exc_info = None
    try:
        return pickle.dumps(Logged(record))
    except Exception:
        plain = logging.makeLogRecord(
            {
                name: value
                for name, value in record.__dict__.items()
                if value is None or isinstance(value, str | int | float)
            }
        )
        return pickle.dumps(Logged(plain))


def log_here(logged: Logged) -> None:
    """In the worker."""
    record = logged.record
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
