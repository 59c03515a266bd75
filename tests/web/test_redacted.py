"""A visitor of the dashboard tries to find out what is redacted, by every way there is: whether a
guess is right must make no difference to any answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import httpx
import msgspec
import pytest

from headway.domain.filters import parse_filter
from headway.domain.views import JobAction
from headway.web.security.redaction import Redaction
from tests.web.shop import Shop

SECRET = "QxZ7Jwk2Vb"
WRONG = "QxZ7Jwk2V_"
MANY = 2_100
"""Jobs that hold the secret: more than a store looks at in one go."""


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


GUESSES: list[Callable[[str], str]] = [
    lambda guess: f"args.card.password:{guess}",
    lambda guess: "args.card:" + quoted(f'{{"password":"{guess}","user":"ada"}}'),
    lambda guess: "args.cards:" + quoted(f'[{{"password":"{guess}"}}]'),
    lambda guess: "args.cards.0:" + quoted(f'{{"password":"{guess}"}}'),
    lambda guess: "args.card:" + quoted(f'{{"pass\\u0077ord":"{guess}","user":"ada"}}'),
    lambda guess: f"args.note:{guess}",
    lambda guess: f"args.user:{guess}",
    lambda guess: f"error:{guess}",
    lambda guess: f"key:{guess}",
    lambda guess: f"dedup:{guess}",
    lambda guess: guess,
    quoted,
]
QUESTIONS = (
    "/api/v1/jobs?limit=1",
    "/api/v1/jobs?limit=1000",
    "/api/v1/jobs/count?at_most=1",
    "/api/v1/jobs/count?at_most=1500",
    "/api/v1/sequences?limit=1",
    "/api/v1/failures?limit=1",
    "/jobs?",
    "/jobs/all?action=cancel",
    "/sequences?",
    "/failures?",
)


async def pay(shop: Shop, count: int) -> None:
    @shop.app.job
    async def pay(card: dict[str, Any], cards: list[dict[str, Any]], note: str) -> None:
        pass

    request = pay.request(
        {"password": SECRET, "user": "ada"}, [{"password": SECRET}], "nothing of note"
    )
    await shop.app.start_many([request] * count)


def without(guess: str, answer: httpx.Response) -> tuple[int, str]:
    """What an answer says, but for the guess itself and what differs between any two pages."""
    text = re.sub(
        r'name="form_token" value="\w+"|\d+(\.\d+)? m?s\b|\d\d:\d\d:\d\d', "", answer.text
    )
    return answer.status_code, text.replace(guess, "")


@pytest.mark.parametrize("count", [2, MANY])
async def test_a_guess_makes_no_difference(
    shop: Shop, client: httpx.AsyncClient, count: int
) -> None:
    await pay(shop, count)
    for question in QUESTIONS:
        for guess in GUESSES:
            for length in (3,) if count == MANY else (3, len(SECRET)):
                # The last character is right, or wrong.
                right, wrong = SECRET[:length], SECRET[: length - 1] + "_"
                answers = [
                    without(each, await client.get(f"{question}&{urlencode({'q': guess(each)})}"))
                    for each in (right, wrong)
                ]
                assert answers[0] == answers[1], (question, guess(right))


async def test_acting_on_a_guess_is_refused(shop: Shop, client: httpx.AsyncClient) -> None:
    await pay(shop, 1)
    for guess in GUESSES[:5]:
        for each in (SECRET, WRONG):
            body = {"action": "cancel", "q": guess(each)}
            answer = await client.post("/api/v1/jobs/act-on-all", json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "redacted")
    assert (await shop.app.questions.count(parse_filter("state:pending"))).value == 1


async def test_what_is_shown_is_found(shop: Shop, client: httpx.AsyncClient) -> None:
    await pay(shop, 1)
    shown = ("args.card.user:ada", 'args.note:"nothing of note"', "ada", '"nothing of note"')
    for which in shown:
        answer = await client.get("/api/v1/jobs/count", params={"q": which})
        assert answer.json() == {"value": 1, "exact": True}


async def test_filters_of_others_are_shown_without_it(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    await pay(shop, 3)
    operator = shop.app.actions("grace")
    long = " ".join(f"args.note:{n:040}" for n in range(30))
    for text in (
        f"type:pay args.card.password:{SECRET}",
        GUESSES[1](SECRET),
        f"args.note:{quoted('nothing of note')} args.card.password:{SECRET} {long}",
    ):
        batch = await operator.act_on_all(JobAction.TRIGGER, parse_filter(text))
        if "note" not in text:
            assert batch.changed == 3
        for path in ("/api/v1/audit", "/audit"):
            answer = await client.get(path)
            assert answer.status_code == 200
            assert SECRET not in answer.text
    assert "type:pay args.card.password:[redacted]" in (await client.get("/api/v1/audit")).text


class Login(msgspec.Struct):
    user: str
    token: str


class CheckedLogin(Login):
    def __post_init__(self) -> None:
        for value in (self.user, self.token):
            if value != "a":
                raise ValueError(f"{value} is not known")


async def test_problems_of_jobs_quote_nothing_that_is_redacted(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    @shop.app.job
    async def enter(login: CheckedLogin) -> None:
        pass

    for user, token in (("a", SECRET), ("carol", "a")):
        request = enter.request(msgspec.convert({"user": "a", "token": "a"}, CheckedLogin))
        request.input = request.input.replace('"user":"a"', f'"user":"{user}"')
        request.input = request.input.replace('"token":"a"', f'"token":"{token}"')
        await shop.app.start(request)
    unfit = shop.charge.request(7)
    unfit.input = '{"order_id":"seven"}'
    await shop.app.start(unfit)
    answer = await client.get("/api/v1/check")
    plain, carol, secret = (each["problem"] for each in answer.json()["incompatible"])
    assert "may quote a redacted field" in secret
    assert "may quote a redacted field" in carol
    assert "order_id" in plain
    assert SECRET[1:] not in answer.text


def test_what_a_text_reveals() -> None:
    redaction = Redaction(["iban"])
    for text in ('{"password":1}', '[{"a":{"IBAN":null}}]', '[["x",{"apiKey":{}}]]'):
        assert redaction.reveals(text), text
    for text in ("", "password", '"password"', '{"user":"password"}', "7", "{", "[1,2]", "\ud800"):
        assert not redaction.reveals(text), text
    assert redaction.filter("state:failed args.iban:DE1") == "state:failed args.iban:[redacted]"
    assert redaction.filter('args.iban:"DE1…') == "[redacted]"
    assert redaction.filter("all jobs") == "all jobs"
