"""Cookies: a signed session after a login, and what ties a form to the browser it was sent to."""

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


class Sessions:
    """Stateless: a session is the actor and the time it ends, signed.

    Cookies do not know ports, so their names carry a piece of the key: two dashboards on one
    machine do not log one another's users out.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        mark = hashlib.sha256(b"name" + key).hexdigest()[:8]
        self.cookie = f"headway_session_{mark}"
        self.visit_cookie = f"headway_visit_{mark}"

    def issue(self, actor: str, *, now: float | None = None) -> str:
        ends = int((time.time() if now is None else now) + SESSION_FOR)
        body = f"{ends}.{base64.urlsafe_b64encode(actor.encode()).decode()}"
        return f"{body}.{self._sign(body)}"

    def actor(self, cookie: str, *, now: float | None = None) -> str | None:
        """Who logged in, or None if the session has ended or was not ours."""
        body, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(body).encode()):
            return None
        ends, _, actor = body.partition(".")
        if int(ends) < (time.time() if now is None else now):
            return None
        return base64.urlsafe_b64decode(actor).decode()

    def begin(self, response: Response, request: Request, actor: str) -> None:
        _set(response, request, self.cookie, self.issue(actor), SESSION_FOR)

    def end(self, response: Response, request: Request) -> None:
        response.delete_cookie(self.cookie, path=_path(request))

    def visit(self, response: Response, request: Request, visit: str) -> None:
        """Remember the browser, so that its forms can be told from another's. Sent along when a
        link of another site is followed: a new one would make the forms in open tabs stale."""
        _set(response, request, self.visit_cookie, visit, None, samesite="lax")

    def _sign(self, body: str) -> str:
        return hmac.new(self._key, b"session\0" + body.encode(), hashlib.sha256).hexdigest()


def new_visit() -> str:
    return secrets.token_urlsafe(24)


def form_token(visit: str) -> str:
    """What every form carries. Only a page that was sent to the browser with this visit's cookie
    holds it, and no process has to remember it."""
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
        secure=request.url.scheme == "https",
        httponly=True,
        samesite=samesite,
    )


def _path(request: Request) -> str:
    return request.scope["headway.base"] or "/"
