"""Alerts by HTTP: a URL is told of dead letters, of missed ticks of schedules, of queues that wait
and of types nobody runs.

A thread gathers, looks at the store and sends. It holds up neither the worker nor, for long, the
end of the process.
"""

from __future__ import annotations

import hmac
import logging
import math
import random
import socket
import threading
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from http.client import HTTPException
from time import monotonic, time
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from headway.domain import events
from headway.domain.events import Event
from headway.domain.failure import first_line
from headway.domain.text import span
from headway.errors import InvalidOption
from headway.observers.alerts import (
    Alert,
    BacklogRules,
    DeadLetterGroup,
    Message,
    MissedTickGroup,
    message_text,
)
from headway.observers.store_gauges import StoreGaugeReader
from headway.ports.store import Store
from headway.runtime.forks import Forkable
from headway.runtime.process_number import process_number

GATHER = 1.0
"""Seconds that the first alert after a pause waits for others."""
TIMEOUT = 10.0
"""Seconds to connect, and again for each part of the answer."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a message is sent again; doubled."""
LAST_PAUSE = 0.25
"""The same while the app is closing."""
GIVE_UP_AFTER = 3600.0
"""Seconds after which a message is dropped."""
MOST_GROUPS = 100
"""Job types whose dead letters and missed ticks are gathered; those of further ones are dropped."""
MOST_WAITING = 1_000
"""Alerts of looks that wait to be sent; further ones are dropped."""
SIGNATURE = "Headway-Signature"

_AGAIN = frozenset({408, 425, 429})
"""Answers that are worth another try, besides 5xx."""
_log = logging.getLogger("headway")


class WebhookAlerts(Forkable):
    """Pass it to the app: `Headway(url, observers=[WebhookAlerts("https://…")])`.

    `secret`: signs each request, in the header `Headway-Signature`.
    `oldest_wait`: seconds that the oldest due job of a queue may wait; None: any time.
    `oldest_wait_by_queue`: the same for single queues.
    `unattended_wait`: seconds that jobs may wait for a worker that runs their type; None: any time.
    `every`: seconds between two looks at the store, and the least between two messages.
    """

    every_job = False

    def __init__(
        self,
        url: str,
        *,
        secret: str | None = None,
        oldest_wait: float | None = 300.0,
        oldest_wait_by_queue: Mapping[str, float] | None = None,
        unattended_wait: float | None = 60.0,
        every: float = 60.0,
    ) -> None:
        self._url = url
        self._where = _host_of(url)
        self._secret = secret
        by_queue = oldest_wait_by_queue or {}
        for seconds in (oldest_wait, *by_queue.values(), unattended_wait, every):
            if seconds is not None and not seconds > 0:
                raise InvalidOption(f"alerts wait for a number of seconds above 0, not {seconds}")
        self._rules = (oldest_wait, by_queue, unattended_wait)
        self._looks = bool(by_queue) or oldest_wait is not None or unattended_wait is not None
        self._every = every
        self._open = build_opener(_NoRedirects).open
        self.dropped = 0
        """Alerts that could not be delivered."""
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._reader: StoreGaugeReader | None = None
        self._backlog = BacklogRules(*self._rules)
        self._next_look = math.inf
        self._groups: dict[tuple[str, str, str], DeadLetterGroup | MissedTickGroup] = {}
        self._waiting: list[Alert] = []
        self._oldest = math.inf
        """When the first of the gathered alerts arrived."""
        self._sent = -math.inf
        self._delivery: _Delivery | None = None
        self._close_by: float | None = None
        """Set while the app is closing."""

    def __repr__(self) -> str:
        return f"<WebhookAlerts to {self._where}>"

    def observe(self, event: Event) -> None:
        match event:
            case events.JobDeadLettered():
                self._gather(DeadLetterGroup, event)
            case events.ScheduleSkipped(reason="missed", replaced=False):
                self._gather(MissedTickGroup, event)
            case _:
                pass

    def app_opened(self, store: Store) -> None:
        """From now on the store is looked at: in one of several processes of a worker."""
        if not self._looks or process_number() != 1:
            return
        with self._changed:
            if self._reader is None:
                self._reader = StoreGaugeReader(store, fresh_for=0.0)
                self._next_look = monotonic() + self._pause()
                self._wake()

    def app_closing(self, seconds: float) -> None:
        """Send what is gathered."""
        with self._changed:
            self._close_by = monotonic() + seconds
            self._reader = None
            self._backlog = BacklogRules(*self._rules)
            self._next_look = math.inf
            if self._delivery is not None:
                self._delivery.at = monotonic()
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(seconds)
        with self._changed:
            self._close_by = None
            if self._thread is not None:
                _log.warning("the last alerts may not have reached %s", self._where)

    def _gather(self, kind: type[DeadLetterGroup | MissedTickGroup], event: Any) -> None:
        with self._changed:
            key = (kind.__name__, event.queue, event.type)
            group = self._groups.get(key)
            if group is None:
                if len(self._groups) >= MOST_GROUPS:
                    self.dropped += 1
                    return
                group = self._groups[key] = kind(event.type, event.queue, datetime.now(UTC))
            group.add(event)
            self._gathered()

    def _gathered(self) -> None:
        self._oldest = min(self._oldest, monotonic())
        self._wake()

    def _wake(self) -> None:
        """Let the thread look at what there is to do; it ends when there is nothing."""
        if self._thread is not None:
            self._changed.notify()
            return
        self._thread = threading.Thread(target=self._run, name="headway-alerts", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the interpreter is ending
            self._thread = None

    def _run(self) -> None:
        while True:
            with self._changed:
                while (pause := self._due() - monotonic()) > 0:
                    if pause == math.inf:
                        self._thread = None
                        return
                    self._changed.wait(pause)
                reader = self._reader if self._next_look <= monotonic() else None
                if reader is not None:
                    self._next_look = monotonic() + self._pause()
            try:
                if reader is not None:
                    self._look(reader)
                self._send()
            except Exception:  # without the thread there would be no further alerts
                _log.exception("alerts for %s were lost", self._where)

    def _due(self) -> float:
        """When there is something to do."""
        if self._delivery is not None:
            return min(self._next_look, self._delivery.at)
        if self._oldest == math.inf:
            return self._next_look
        if self._close_by is not None:
            return self._oldest
        ready = max(self._oldest + min(GATHER, self._every), self._sent + self._every)
        return min(self._next_look, ready)

    def _pause(self) -> float:
        return self._every * (0.75 + random.random() / 4)

    def _look(self, reader: StoreGaugeReader) -> None:
        gauges = reader.read()
        if gauges is None:  # the store does not answer, so nothing is known
            return
        with self._changed:
            if reader is not self._reader:  # the app was closed meanwhile
                return
            alerts = self._backlog.compare(gauges)
            room = MOST_WAITING - len(self._waiting)
            self._waiting += alerts[:room]
            self.dropped += len(alerts[room:])
            self._backlog.forget(alerts[room:])
            if alerts:
                self._gathered()

    def _send(self) -> None:
        """Deliver the message that is due, if one is."""
        with self._changed:
            now = monotonic()
            if self._delivery is None and self._oldest < math.inf and self._due() <= now:
                alerts = [*(group.alert() for group in self._groups.values()), *self._waiting]
                self._groups, self._waiting, self._oldest = {}, [], math.inf
                self._delivery = _Delivery(alerts, now)
            delivery, close_by = self._delivery, self._close_by
            if delivery is None or delivery.at > now:
                return
        left = TIMEOUT if close_by is None else min(TIMEOUT, max(close_by - now, 0.1))
        trouble, pause = self._post(delivery.body, left)
        with self._changed:
            self._sent = monotonic()
            if trouble is None:
                self._delivery = None
                if delivery.tries:
                    _log.info("alerts reach %s again", self._where)
                return
            delivery.tries += 1
            if pause is None or self._is_late(delivery, pause):
                self._give_up(delivery, trouble)
            elif delivery.tries == 1:
                _log.warning("alerts do not reach %s, trying again: %s", self._where, trouble)

    def _is_late(self, delivery: _Delivery, asked: float) -> bool:
        """Whether there is no time for another try; else its time is set."""
        now = monotonic()
        pause = min(FIRST_PAUSE * 2 ** (delivery.tries - 1), LONGEST_PAUSE)
        end = delivery.began + GIVE_UP_AFTER
        if self._close_by is not None:
            pause, end = LAST_PAUSE, self._close_by
        delivery.at = now + max(pause * (0.75 + random.random() / 2), asked)
        return delivery.at > end

    def _give_up(self, delivery: _Delivery, trouble: str) -> None:
        self._delivery = None
        count = len(delivery.alerts)
        self.dropped += count
        self._backlog.forget(delivery.alerts)
        _log.error(
            "%d %s dropped, because %s did not take %s within %s: %s",
            count,
            "alert was" if count == 1 else "alerts were",
            self._where,
            "it" if count == 1 else "them",
            span(monotonic() - delivery.began),
            trouble,
        )

    def _post(self, body: bytes, timeout: float) -> tuple[str | None, float | None]:
        """What went wrong, if anything, and the least pause before the next try; None: no try can
        help."""
        headers = {"Content-Type": "application/json", "User-Agent": "headway"}
        if self._secret is not None:
            headers[SIGNATURE] = signature(self._secret, body, int(time()))
        request = Request(self._url, body, headers, method="POST")
        try:
            with self._open(request, timeout=timeout):
                return None, 0.0
        except HTTPError as error:
            with error:
                again = error.code in _AGAIN or error.code >= 500
                return f"HTTP {error.code}", _retry_after(error) if again else None
        except HTTPException as error:  # its text may be anything, as the secret part of the URL
            return type(error).__name__, 0.0
        except Exception as error:  # no answer of a server may end the thread
            return first_line(error), 0.0


class _Delivery:
    """A message on its way."""

    def __init__(self, alerts: list[Alert], now: float) -> None:
        self.alerts = alerts
        self.body = Message(
            id=str(uuid.uuid4()),
            host=socket.gethostname(),
            text=message_text(alerts),
            alerts=alerts,
        ).encode()
        self.began = self.at = now
        """`at`: when it is to be sent."""
        self.tries = 0
        """That failed."""


class _NoRedirects(HTTPRedirectHandler):
    """A redirected POST would become a GET without its body."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def signature(secret: str, body: bytes, at: int) -> str:
    """The header's value: `t=` the time of sending, `v1=` HMAC-SHA256 of time, dot and body."""
    signed = hmac.digest(secret.encode(), f"{at}.".encode() + body, "sha256").hex()
    return f"t={at},v1={signed}"


def _retry_after(error: HTTPError) -> float:
    asked = error.headers.get("Retry-After", "")
    return min(float(asked), LONGEST_PAUSE) if asked.isdecimal() else 0.0


def _host_of(url: str) -> str:
    """Scheme and host: the rest of a webhook's URL is a secret, and not shown."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError
    except ValueError:
        raise InvalidOption(
            "a webhook's URL begins with https:// or http:// and names a host"
        ) from None
    rest = f"{parts.path}{parts.query}"
    if any(each <= " " or each == "\x7f" for each in url.strip()) or not rest.isascii():
        raise InvalidOption("a webhook's URL has only printable ASCII; percent-encode the others")
    if "@" in parts.netloc:
        raise InvalidOption("a webhook's URL holds no user and password; put a token into its path")
    return f"{parts.scheme}://{parts.netloc}"
