"""Checks every request, in this order: Host, Origin, who sends it, and whether it may change
anything. Also sets the security headers of every answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from urllib.parse import quote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.errors import ConfigurationError
from headway.web.problems import Refused
from headway.web.security.auth import (
    Auth,
    Open,
    Password,
    Token,
    Trust,
    actor_by_login,
    given_secret,
    trusted_actor,
)
from headway.web.security.sessions import Sessions, new_visit
from headway.web.security.throttle import Throttle

LOOPBACK = ("localhost", "127.0.0.1", "::1")
SAFE = frozenset({"GET", "HEAD"})

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # not no-referrer: forms would then name no Origin
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Authenticator:
    """Finds out who sent a request; wrong secrets are answered slowly."""

    def __init__(self, auth: Auth, sessions: Sessions) -> None:
        self.auth = auth
        self.sessions = sessions
        self._throttle = Throttle()

    async def actor(self, request: Request) -> str | None:
        """Who sent the request. The session is checked first, so that a logged-in user never
        waits behind somebody who guesses."""
        if isinstance(self.auth, (Open, Trust)):
            return trusted_actor(self.auth, request)
        cookie = request.cookies.get(self.sessions.cookie)
        actor = self.sessions.actor(cookie) if cookie else None
        if actor is None and (given := given_secret(self.auth, request)) is not None:
            actor = await self.compare(self.auth, request, *given)
        return actor

    async def compare(
        self, auth: Token | Password, request: Request, user: str, secret: str
    ) -> str | None:
        """Who has this secret. All comparisons are made here, so that all are throttled."""
        address = request.client.host if request.client else ""
        return await self._throttle.compare(address, lambda: actor_by_login(auth, user, secret))


class AccessMiddleware:
    """ASGI middleware; leaves actor, base path and visit in the scope for pages and API."""

    def __init__(
        self,
        inner: ASGIApp,
        *,
        authenticator: Authenticator,
        allow_writes: bool,
        hosts: Sequence[str],
        base_path: str,
        answer_problem: Callable[[Request, Exception], Response],
    ) -> None:
        self._inner = inner
        self._authenticator = authenticator
        self._allow_writes = allow_writes
        self._hosts = checked_hosts(hosts)
        self._base_path = base_path
        self._answer_problem = answer_problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)  # the lifespan
            return
        sessions = self._authenticator.sessions
        request = Request(scope, receive)
        visit = request.cookies.get(sessions.visit_cookie, "")
        scope["headway.base"] = self._base_path + scope.get("root_path", "").rstrip("/")
        scope["headway.path"] = scope["path"].removeprefix(scope.get("root_path", "").rstrip("/"))
        scope["headway.visit"] = visit or new_visit()
        scope["headway.actor"] = None
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
                if not visit and headers.get("content-type", "").startswith("text/html"):
                    cookies = Response()
                    sessions.visit(cookies, request, scope["headway.visit"])
                    headers.append("set-cookie", cookies.headers["set-cookie"])
            await send(message)

        try:
            answer = await self._stopped(request) or self._inner
            await answer(scope, receive, send_with_headers)
        except ClientDisconnect:
            pass  # not logged: any client can do it
        except Exception as error:
            if begun:
                raise
            await self._answer_problem(request, error)(scope, receive, send_with_headers)

    async def _stopped(self, request: Request) -> Response | None:
        """The answer if the request goes no further; raises where it is refused outright."""
        self._check_host(request)
        _check_origin(request)
        path: str = request.scope["headway.path"]
        if path.startswith("/static/"):
            return None
        actor = await self._authenticator.actor(request)
        request.scope["headway.actor"] = actor
        if path in ("/login", "/logout"):
            return None
        if actor is None:
            return self._unknown(request, path)
        if request.method not in SAFE and not self._allow_writes:
            raise Refused(403, "read_only", "This dashboard is read-only; start it with --write.")
        return None

    def _unknown(self, request: Request, path: str) -> Response:
        if isinstance(self._authenticator.auth, Trust):
            raise Refused(403, "not_authenticated", "Access refused; log in first.")
        if "hx-request" in request.headers:  # a part of a page whose session has ended
            return Response(status_code=401, headers={"HX-Refresh": "true"})
        if path.startswith(("/api/", "/metrics", "/live")) or request.method not in SAFE:
            raise Refused(401, "not_authenticated", "Send the header Authorization: Bearer TOKEN.")
        asked = path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(
            f"{request.scope['headway.base']}/login?next={quote(asked, safe='')}", 303
        )

    def _check_host(self, request: Request) -> None:
        """Against DNS rebinding: a foreign name that points to this address is refused."""
        if self._hosts is None:
            return
        if _hostname(request.headers.get("host", "")) not in self._hosts:
            raise Refused(
                421,
                "foreign_host",
                "This host name is not allowed; add it to hosts=[...], or with "
                "headway dashboard --allow-host.",
            )


def _check_origin(request: Request) -> None:
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    foreign = origin is not None and origin.partition("://")[2].lower() != host.lower()
    if request.method not in SAFE:
        site = request.headers.get("sec-fetch-site", "same-origin")
        foreign = foreign or site not in ("same-origin", "none")
    if foreign:
        raise Refused(403, "foreign_origin", "Requests from another site are not answered.")


def checked_hosts(hosts: Sequence[str]) -> frozenset[str] | None:
    """The host names without brackets, in lower case; None if every name is allowed."""
    if isinstance(hosts, str):
        raise ConfigurationError(f"hosts takes a list of host names: hosts=[{hosts!r}]")
    if "*" in hosts:
        return None
    found = frozenset(host.lower().strip("[]") for host in hosts)
    for host in found:
        if not host or _hostname(f"[{host}]" if ":" in host else host) != host:
            raise ConfigurationError(
                f"hosts takes host names without scheme, port and path, not {host!r}"
            )
    return found


def _hostname(place: str) -> str | None:
    with contextlib.suppress(ValueError):
        return urlsplit(f"//{place}").hostname
    return None
