"""Cookies: the signed session of a login, and the visit that ties forms to a browser."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

SESSION_FOR = 12 * 3600
"""Seconds that a login lasts."""


MAX_ENDED = 10_000
"""Logouts that are remembered; one more ends all sessions that began before it."""


class Sessions:
    """A session is the time it ends, an id and the actor, signed: every process with the same key
    knows it. A logout is known to the process that it reached, for as long as that process lives.

    Cookies do not know ports, so their names carry a piece of the key: two dashboards on one
    machine do not log one another's users out.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._ended: dict[str, int] = {}
        """The ids of sessions that a logout ended, and when they would have ended without."""
        self._all_ended_until = 0
        """Sessions that would end by then are over."""
        mark = hashlib.sha256(b"name" + key).hexdigest()[:8]
        self.cookie = f"headway_session_{mark}"
        self.visit_cookie = f"headway_visit_{mark}"

    def issue(self, actor: str, *, now: float | None = None) -> str:
        ends = int((time.time() if now is None else now) + SESSION_FOR)
        id = secrets.token_urlsafe(16)
        body = f"{ends}.{id}.{base64.urlsafe_b64encode(actor.encode()).decode()}"
        return f"{body}.{self._sign(body)}"

    def actor(self, cookie: str, *, now: float | None = None) -> str | None:
        """Who logged in; None if the session has ended or its signature is wrong."""
        session = self._read(cookie)
        if session is None:
            return None
        ends, id, actor = session
        if ends < (time.time() if now is None else now):
            return None
        if ends <= self._all_ended_until or id in self._ended:
            return None
        return base64.urlsafe_b64decode(actor).decode()

    def begin(self, response: Response, request: Request, actor: str) -> None:
        _set(response, request, self.cookie, self.issue(actor), SESSION_FOR)

    def end(self, response: Response, request: Request) -> None:
        """End the session on the server too, so that a copy of the cookie is useless."""
        response.delete_cookie(self.cookie, path=_path(request))
        self.forget(request.cookies.get(self.cookie, ""))

    def forget(self, cookie: str, *, now: float | None = None) -> None:
        """End the session of this cookie, if its signature is right."""
        session = self._read(cookie)
        if session is None:
            return
        moment = time.time() if now is None else now
        self._ended = {id: ends for id, ends in self._ended.items() if ends >= moment}
        ends, id, _ = session
        self._ended[id] = ends
        if len(self._ended) > MAX_ENDED:
            self._all_ended_until = int(moment) + SESSION_FOR
            self._ended.clear()

    def visit(self, response: Response, request: Request, visit: str) -> None:
        """Mark the browser, so that its forms can be told from another's. SameSite is lax: a
        link from another site must not make the forms in open tabs stale."""
        _set(response, request, self.visit_cookie, visit, None, samesite="lax")

    def _read(self, cookie: str) -> tuple[int, str, str] | None:
        body, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(body).encode()):
            return None
        ends, id, actor = body.split(".")
        return int(ends), id, actor

    def _sign(self, body: str) -> str:
        return hmac.new(self._key, b"session\0" + body.encode(), hashlib.sha256).hexdigest()


def new_visit() -> str:
    return secrets.token_urlsafe(24)


def form_token(visit: str) -> str:
    """The hidden field of every form. Only pages that were sent with this visit's cookie hold it,
    and no process has to remember it."""
    return hmac.new(visit.encode(), b"headway form", hashlib.sha256).hexdigest()


def form_token_fits(visit: str, token: str) -> bool:
    return hmac.compare_digest(form_token(visit).encode(), token.encode())


def _set(
    response: Response,
    request: Request,
    name: str,
    value: str,
    age: int | None,
    samesite: Literal["lax", "strict"] = "strict",
) -> None:
    response.set_cookie(
        name,
        value,
        max_age=age,
        path=_path(request),
        secure=_is_secure(request),
        httponly=True,
        samesite=samesite,
    )


def _is_secure(request: Request) -> bool:
    """Whether the browser uses HTTPS: by the server's scheme, or by the Origin that browsers send
    with every form."""
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")


def _path(request: Request) -> str:
    return request.scope["headway.base"] or "/"
