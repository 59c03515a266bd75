"""Log records of isolated handlers, which the child sends and the worker logs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from headway.worker.isolation.messages import Logged, Message, encodable, encode


class LogForwarder(logging.Handler):
    """In the child: sends records instead of writing them, unless the user's code set up logging of
    its own there. Never raises."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        super().__init__()
        self._send = send

    def install(self, level: int) -> None:
        """Send records of at least this level."""
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


def _packed(record: logging.LogRecord) -> Logged:
    """With plain values only; other values become text."""
    fields = {**record.__dict__, "msg": record.getMessage(), "args": None, "exc_info": None}
    if record.exc_info and not record.exc_text:
        fields["exc_text"] = logging.Formatter().formatException(record.exc_info)
    try:
        return Logged(_plain(fields))
    except Exception:
        return Logged({name: _plain_or_text(value) for name, value in fields.items()})


def _plain(value: Any) -> Any:
    plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_described)
    encode(plain)
    return plain


def _plain_or_text(value: Any) -> Any:
    try:
        return _plain(value)
    except Exception:
        return encodable(value if isinstance(value, str) else repr(value))


def _described(value: Any) -> Any:
    if isinstance(value, str):  # of a subclass
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else repr(value)


def log_here(logged: Logged) -> None:
    """In the worker."""
    record = logging.makeLogRecord(logged.fields)
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
