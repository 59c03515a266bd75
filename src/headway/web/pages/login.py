"""Logging in and out."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.web.context import context_of
from headway.web.html import own_path, page, read_own_form, redirect
from headway.web.security.auth import Password, Token


async def show_login(request: Request) -> Response:
    auth = context_of(request).authenticator.auth
    wanted = own_path(request.query_params.get("next", ""))
    if request.scope["headway.actor"] is not None or not isinstance(auth, (Token, Password)):
        return redirect(request, wanted)
    return page(
        request, "login.html", by_password=isinstance(auth, Password), wanted=wanted, wrong=False
    )


async def log_in(request: Request) -> Response:
    authenticator = context_of(request).authenticator
    auth = authenticator.auth
    if not isinstance(auth, (Token, Password)):
        return redirect(request, "/")
    form = await read_own_form(request)
    wanted = own_path(form.one("next"))
    actor = await authenticator.compare(auth, request, form.one("user"), form.one("secret"))
    if actor is None:
        return page(
            request,
            "login.html",
            status=401,
            by_password=isinstance(auth, Password),
            wanted=wanted,
            wrong=True,
        )
    answer = redirect(request, wanted)
    authenticator.sessions.begin(answer, request, actor)
    return answer


async def log_out(request: Request) -> Response:
    await read_own_form(request)
    answer = redirect(request, "/login")
    context_of(request).authenticator.sessions.end(answer, request)
    return answer


ROUTES = [
    Route("/login", show_login),
    Route("/login", log_in, methods=["POST"]),
    Route("/logout", log_out, methods=["POST"]),
]
