"""Guessing the secret, in many connections at once and by every way to give one."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from headway.web import Password, Token, dashboard_server
from headway.web.security import throttle
from headway.web.security.auth import Auth
from tests.web.conftest import TOKEN
from tests.web.shop import Shop
from tests.web.test_access import form_token

pytestmark = pytest.mark.parametrize("store_url", ["memory"], indirect=True)

RIGHT = {"authorization": f"Bearer {TOKEN}"}
WRONG = {"authorization": "Bearer a-token-that-nobody-knows"}
LONG = 3_600.0
"""Seconds: nobody's turn comes while a test runs."""

Guess = Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]


def from_address(address: str, site: str) -> httpx.AsyncClient:
    """Speaks from this address, by a connection of its own for each request."""
    return httpx.AsyncClient(
        base_url=site,
        timeout=60,
        transport=httpx.AsyncHTTPTransport(
            local_address=address, limits=httpx.Limits(max_keepalive_connections=0)
        ),
    )


@asynccontextmanager
async def site(shop: Shop, auth: Auth) -> AsyncIterator[str]:
    async with dashboard_server(shop.app, auth=auth, port=0) as address:
        yield address


async def by_bearer(client: httpx.AsyncClient) -> httpx.Response:
    return await client.get("/api/v1/queues", headers=WRONG)


async def by_basic(client: httpx.AsyncClient) -> httpx.Response:
    encoded = base64.b64encode(b"ada:wrong horse").decode()
    return await client.get("/metrics", headers={"authorization": f"Basic {encoded}"})


async def by_form(client: httpx.AsyncClient) -> httpx.Response:
    page = await client.get("/login")
    fields = {"form_token": form_token(page.text), "user": "ada", "secret": "wrong horse"}
    return await client.post("/login", data=fields)


@pytest.mark.parametrize(
    ("auth", "guess"),
    [
        (Token(TOKEN), by_bearer),
        (Token(TOKEN), by_form),
        (Password("ada", "correct horse"), by_basic),
        (Password("ada", "correct horse"), by_form),
    ],
)
async def test_wrong_secrets_take_their_turns(shop: Shop, auth: Auth, guess: Guess) -> None:
    async with site(shop, auth) as address, from_address("127.0.0.1", address) as client:
        began = time.monotonic()
        # Forms belong to a browser: one after another, or their pages would get mixed up.
        if guess is by_form:
            answers = [await guess(client) for _ in range(4)]
        else:
            answers = await asyncio.gather(*(guess(client) for _ in range(4)))
        assert {answer.status_code for answer in answers} == {401}
        assert time.monotonic() - began >= 3 * throttle.WRONG_COSTS


async def answers_of(
    guesses: list[asyncio.Task[httpx.Response]], count: int
) -> list[httpx.Response]:
    """The first answers, once there are so many."""
    done: set[asyncio.Task[httpx.Response]] = set()
    while len(done) < count:
        done, _ = await asyncio.wait(
            guesses, timeout=0.05 if done else None, return_when=asyncio.FIRST_COMPLETED
        )
    return [guess.result() for guess in done]


@pytest.mark.long
async def test_the_right_secret_among_many_guesses_waits_its_turn_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "WRONG_COSTS", LONG)
    async with site(shop, Token(TOKEN)) as address, from_address("127.0.0.1", address) as client:
        assert (await by_bearer(client)).status_code == 401
        guesses = [
            asyncio.create_task(client.get("/api/v1/queues", headers=RIGHT)) for _ in range(60)
        ]
        refused = 60 - throttle.MAX_WAITING
        answers = await answers_of(guesses, refused)
        assert {answer.status_code for answer in answers} == {429}
        assert {int(answer.headers["retry-after"]) > 0 for answer in answers} == {True}
        assert {answer.json()["error"]["code"] for answer in answers} == {"too_many_guesses"}
        assert sum(guess.done() for guess in guesses) == refused
        for guess in guesses:
            guess.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)
        # The form is told so by a page.
        assert (await by_form(client)).status_code == 429


@pytest.mark.long
async def test_guesses_keep_nobody_out_who_has_been_let_in(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        site(shop, Token(TOKEN)) as address,
        from_address("127.0.0.1", address) as guesser,
        from_address("127.0.0.2", address) as browser,
        from_address("127.0.0.3", address) as program,
    ):
        login = await browser.get("/login")
        fields = {"form_token": form_token(login.text), "secret": TOKEN}
        assert (await browser.post("/login", data=fields)).status_code == 303
        assert (await program.get("/api/v1/queues", headers=RIGHT)).status_code == 200

        monkeypatch.setattr(throttle, "WRONG_COSTS", LONG)
        assert (await by_bearer(guesser)).status_code == 401
        guesses = [asyncio.create_task(by_bearer(guesser)) for _ in range(30)]
        refused = await answers_of(guesses, 30 - throttle.MAX_WAITING)
        assert {answer.status_code for answer in refused} == {429}
        assert (await program.get("/api/v1/queues", headers=RIGHT)).status_code == 200
        assert (await browser.get("/queues")).status_code == 200
        # A session says who is asking, wherever it comes from and whatever else it carries.
        guesser.cookies.update(browser.cookies)
        assert (await guesser.get("/queues", headers=WRONG)).status_code == 200
        # The program's own line is no way around the throttle.
        assert (await by_bearer(program)).status_code == 401
        more = [asyncio.create_task(by_bearer(program)) for _ in range(30)]
        refused = await answers_of(more, 30 - throttle.MAX_WAITING)
        assert {answer.status_code for answer in refused} == {429}
        for guess in (*guesses, *more):
            guess.cancel()
        await asyncio.gather(*guesses, *more, return_exceptions=True)


async def test_who_hangs_up_has_paid(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "WRONG_COSTS", LONG)
    line = throttle.Throttle()
    assert await line.compare("127.0.0.1", lambda: None) is None
    hung_up = asyncio.create_task(line.compare("127.0.0.1", lambda: None))
    await asyncio.sleep(0)
    hung_up.cancel()
    await asyncio.gather(hung_up, return_exceptions=True)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(line.compare("127.0.0.1", lambda: "ada"), 0.05)
