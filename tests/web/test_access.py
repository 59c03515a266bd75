"""Who is let in, from where, and to do what."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from headway.errors import ConfigurationError
from headway.web import Open, Password, Token, Trust, create_dashboard, dashboard_server, serve
from headway.web.security.auth import Auth, session_key
from headway.web.security.sessions import SESSION_FOR, Sessions
from tests.web.conftest import TOKEN
from tests.web.shop import Shop

pytestmark = pytest.mark.parametrize("store_url", ["memory"], indirect=True)

SERVING = """
import asyncio, sys
from headway import Headway
from headway.web import Open, serve

asyncio.run(serve(Headway("memory://"), auth=Open(), port=int(sys.argv[1])))
print("ended")
"""

BEARER = {"authorization": f"Bearer {TOKEN}"}


@asynccontextmanager
async def visiting(
    shop: Shop, auth: Auth, *, allow_writes: bool = True
) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        dashboard_server(shop.app, auth=auth, port=0, allow_writes=allow_writes) as address,
        httpx.AsyncClient(base_url=address, timeout=20) as client,
    ):
        yield client


def form_token(page: str) -> str:
    found = re.search(r'name="form_token" value="([0-9a-f]+)"', page)
    assert found is not None
    return found[1]


async def test_nobody_is_let_in_without_the_token(shop: Shop) -> None:
    async with visiting(shop, Token(TOKEN)) as client:
        answer = await client.get("/jobs", params={"q": "state:failed"})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/login?next=%2Fjobs%3Fq%3Dstate%253Afailed"
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic !"}):
            answer = await client.get("/api/v1/jobs", headers=headers)
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "not_authenticated"
            assert answer.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/live")).status_code == 401
        assert (await client.post("/queues/pause", data={"queue": "mail"})).status_code == 401
        assert (await client.get("/api/v1/jobs", headers=BEARER)).status_code == 200
        assert (await client.get("/static/headway.css")).status_code == 200


async def test_logging_in_and_out(shop: Shop) -> None:
    async with visiting(shop, Token(TOKEN, actor="ada")) as client:
        login = await client.get("/login?next=/queues")
        fields = {"form_token": form_token(login.text), "next": "/queues", "secret": "wrong"}
        refused = await client.post("/login", data=fields)
        assert refused.status_code == 401
        assert "Wrong " in refused.text
        answer = await client.post("/login", data={**fields, "secret": TOKEN})
        assert (answer.status_code, answer.headers["location"]) == (303, "/queues")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        page = await client.get("/queues")
        assert page.status_code == 200
        assert "ada" in page.text
        copied = dict(client.cookies)
        out = await client.post("/logout", data={"form_token": form_token(page.text)})
        assert out.status_code == 303
        assert (await client.get("/queues")).status_code == 303
        # Ended here, not only forgotten by the browser.
        client.cookies.update(copied)
        assert (await client.get("/queues")).status_code == 303
        assert (await client.get("/api/v1/queues")).status_code == 401


async def test_a_logout_ends_no_other_session(shop: Shop) -> None:
    sessions = Sessions(b"key")
    mine, other = sessions.issue("ada", now=1_000), sessions.issue("ada", now=1_000)
    sessions.forget("made.up.cookie")
    sessions.forget(mine, now=1_000)
    assert sessions.actor(mine, now=1_000) is None
    assert sessions.actor(other, now=1_000) == "ada"


async def test_more_logouts_than_are_remembered_end_all_sessions(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.web.security.sessions.MAX_ENDED", 2)
    sessions = Sessions(b"key")
    ended = [sessions.issue("ada", now=1_000) for _ in range(3)]
    other = sessions.issue("ada", now=1_000)
    for cookie in ended:
        sessions.forget(cookie, now=1_001)
    assert [sessions.actor(cookie, now=1_002) for cookie in (*ended, other)] == [None] * 4
    assert sessions.actor(sessions.issue("ada", now=1_002), now=1_002) == "ada"


async def test_cookies_are_secure_where_the_browser_came_by_tls(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    proxied = {"x-forwarded-proto": "https"}
    async with visiting(shop, Token(TOKEN)) as client:

        async def cookie_of_a_login(headers: dict[str, str]) -> str:
            token = form_token((await client.get("/login")).text)
            fields = {"form_token": token, "secret": TOKEN}
            answer = await client.post("/login", data=fields, headers=headers)
            client.cookies.delete(Sessions(session_key(Token(TOKEN))).cookie)
            return answer.headers["set-cookie"]

        assert "Secure" not in await cookie_of_a_login({})
        assert "Secure" in await cookie_of_a_login(proxied)  # by a proxy on this machine
        address = client.base_url.netloc.decode()
        assert "Secure" in await cookie_of_a_login({"origin": f"https://{address}"})
        assert "Secure" not in await cookie_of_a_login({"origin": f"http://{address}"})
        client.cookies.clear()
        assert "Secure" in (await client.get("/login", headers=proxied)).headers["set-cookie"]
        elsewhere = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
        async with httpx.AsyncClient(base_url=client.base_url, transport=elsewhere) as other:
            answer = await other.get("/login", headers=proxied)  # anybody can say that
            assert "Secure" not in answer.headers["set-cookie"]


async def test_user_and_password(shop: Shop) -> None:
    async with visiting(shop, Password("ada", "correct horse")) as client:
        for pair, status in (
            ("ada:correct horse", 200),
            ("ada:wrong", 401),
            ("bob:correct horse", 401),
        ):
            encoded = base64.b64encode(pair.encode()).decode()
            headers = {"authorization": f"Basic {encoded}"}
            assert (await client.get("/api/v1/queues", headers=headers)).status_code == status
        login = await client.get("/login")
        fields = {"form_token": form_token(login.text), "user": "ada", "secret": "correct horse"}
        assert (await client.post("/login", data=fields)).status_code == 303
        assert (await client.get("/queues")).status_code == 200


async def test_a_session_ends_and_cannot_be_made_up(shop: Shop) -> None:
    sessions = Sessions(b"key")
    cookie = sessions.issue("ada", now=1_000)
    assert sessions.actor(cookie, now=1_000) == "ada"
    assert sessions.actor(cookie, now=1_001 + SESSION_FOR) is None
    for forged in (cookie[:-1], "x" + cookie, "", "a.b.c", Sessions(b"other").issue("ada")):
        assert sessions.actor(forged, now=1_000) is None


async def test_the_app_around_knows_who_is_asking(shop: Shop) -> None:
    (id,) = await shop.fail(1)
    trust = Trust(lambda request: request.headers.get("x-user"))
    async with visiting(shop, trust) as client:
        assert (await client.get("/jobs")).status_code == 403
        body = {"action": "retry", "ids": [id]}
        answer = await client.post("/api/v1/jobs/act", json=body, headers={"x-user": "grace"})
        assert answer.json() == {"changed": 1, "passed_over": 0, "cursor": None}
    (record,) = (await shop.app.questions.audit()).records
    assert (record.actor, record.action) == ("grace", "retry")


async def test_a_foreign_host_is_refused(shop: Shop) -> None:
    async with visiting(shop, Open()) as client:
        for host in (
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:80",
            "",
            "[::",
        ):
            answer = await client.get("/api/v1/jobs", headers={"host": host})
            assert answer.status_code in (400, 421), host  # 400: not even a host
        assert (await client.get("/jobs", headers={"host": "localhost:1"})).status_code == 200


async def test_a_foreign_origin_is_refused(shop: Shop) -> None:
    async with visiting(shop, Open()) as client:
        address = str(client.base_url).rstrip("/")
        page = await client.get("/jobs")
        fields = {"form_token": form_token(page.text), "queue": "mail"}
        for origin in (
            "https://evil.example",
            "null",
            "http://127.0.0.1:1",
            f"{address}.evil.example",
        ):
            headers = {"origin": origin}
            assert (
                await client.post("/queues/pause", data=fields, headers=headers)
            ).status_code == 403
            assert (await client.get("/api/v1/jobs", headers=headers)).status_code == 403
        for site in ("cross-site", "same-site"):
            headers = {"sec-fetch-site": site}
            assert (
                await client.post("/queues/pause", data=fields, headers=headers)
            ).status_code == 403
        assert (await shop.app.questions.audit()).records == []
        answer = await client.post("/queues/pause", data=fields, headers={"origin": address})
        assert answer.status_code == 303


async def test_a_form_belongs_to_the_browser_it_was_sent_to(shop: Shop) -> None:
    async with visiting(shop, Open()) as client:
        token = form_token((await client.get("/jobs")).text)
        for given in ("", "0" * 64):
            answer = await client.post("/queues/pause", data={"queue": "mail", "form_token": given})
            assert answer.status_code == 403
        client.cookies.clear()
        answer = await client.post("/queues/pause", data={"queue": "mail", "form_token": token})
        assert answer.status_code == 403
        # The API takes no forms at all, which is what another site could send.
        answer = await client.post("/api/v1/queues/pause", data={"queue": "mail"})
        assert answer.status_code == 415
        assert (await shop.app.questions.audit()).records == []


async def test_read_only_unless_writes_are_allowed(shop: Shop) -> None:
    (id,) = await shop.fail(1)
    async with visiting(shop, Open(), allow_writes=False) as client:
        page = (await client.get(f"/jobs/{id}")).text
        assert "read-only" in page
        assert "<button name=" not in page
        for path, body in (
            ("/jobs", {"type": "charge", "input": "{}"}),
            ("/jobs/act", {"action": "retry", "ids": [id]}),
            ("/jobs/act-on-all", {"action": "retry", "q": ""}),
            ("/queues/pause", {"queue": "mail"}),
            ("/queues/resume", {"queue": "mail"}),
        ):
            answer = await client.post(f"/api/v1{path}", json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "read_only")
        fields = {"form_token": form_token((await client.get("/jobs")).text), "action": "retry"}
        for path in ("/jobs/act", "/jobs/all", "/queues/pause", "/queues/resume"):
            assert (await client.post(path, data={**fields, "id": id})).status_code == 403
    assert (await shop.app.questions.audit()).records == []


async def test_large_bodies_are_refused(shop: Shop) -> None:
    async with visiting(shop, Open()) as client:
        token = form_token((await client.get("/jobs")).text)
        fields = {"form_token": token, "queue": "x" * 300_000}
        assert (await client.post("/queues/pause", data=fields)).status_code == 413
        many = "&".join(["id=x"] * 5_000)
        answer = await client.post(
            "/jobs/act", content=many, headers={"content-type": "application/x-www-form-urlencoded"}
        )
        assert answer.status_code == 400
        body = {"type": "charge", "input": "x" * 5_000_000}
        answer = await client.post("/api/v1/jobs", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


async def test_every_answer_carries_the_policy(shop: Shop) -> None:
    async with visiting(shop, Token(TOKEN)) as client:
        for path in (
            "/",
            "/login",
            "/nowhere",
            "/api/v1/jobs",
            "/api/v1/nowhere",
            "/static/theme.js",
        ):
            answer = await client.get(path, headers=BEARER if path == "/nowhere" else {})
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'")
            assert "unsafe" not in policy
            assert "*" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["x-frame-options"] == "DENY"
        for path in ("/login", "/jobs"):
            page = (await client.get(path, headers=BEARER)).text
            assert not re.search(
                r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:", page
            )


async def test_nobody_is_sent_elsewhere_after_a_login(shop: Shop) -> None:
    async with visiting(shop, Token(TOKEN)) as client:
        token = form_token((await client.get("/login")).text)
        for wanted in (
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "evil",
            "/a\nb",
        ):
            fields = {"form_token": token, "secret": TOKEN, "next": wanted}
            answer = await client.post("/login", data=fields)
            assert answer.headers["location"] == "/"


async def test_an_address_that_others_reach_needs_authentication(shop: Shop) -> None:
    for host in ("0.0.0.0", "192.0.2.7", "::", "jobs.example"):
        with pytest.raises(ConfigurationError, match="needs authentication"):
            await serve(shop.app, auth=Open(), host=host)


async def test_settings_that_cannot_be(shop: Shop) -> None:
    for wrong in ("short", "with\nline-ends-in-it"):
        with pytest.raises(ConfigurationError, match="16 printable"):
            Token(wrong)
    with pytest.raises(ConfigurationError, match="8 characters"):
        Password("ada", "short")
    with pytest.raises(ConfigurationError, match="colon"):
        Password("a:b", "long enough")
    with pytest.raises(ConfigurationError, match="list of names"):
        create_dashboard(shop.app, auth=Token(TOKEN), redact="email")
    with pytest.raises(ConfigurationError, match="list of host names"):
        create_dashboard(shop.app, auth=Token(TOKEN), hosts="jobs.example")
    with pytest.raises(ConfigurationError, match="without scheme"):
        create_dashboard(shop.app, auth=Token(TOKEN), hosts=["https://jobs.example/"])
    with pytest.raises(ConfigurationError, match="like /jobs"):
        create_dashboard(shop.app, auth=Token(TOKEN), base_path="jobs/")
    with pytest.raises(ConfigurationError, match=r"only serve\(\) takes it, on loopback"):
        create_dashboard(shop.app, auth=Open())
    assert TOKEN not in repr(Token(TOKEN))


async def test_a_port_that_is_taken(shop: Shop) -> None:
    async with dashboard_server(shop.app, auth=Open(), port=0) as address:
        port = int(address.rpartition(":")[2])
        with pytest.raises(ConfigurationError, match="choose another port"):
            async with dashboard_server(shop.app, auth=Open(), port=port):
                pass


async def test_it_stops_at_once_while_someone_listens(shop: Shop) -> None:
    async with httpx.AsyncClient(timeout=20) as client:
        async with dashboard_server(shop.app, auth=Open(), port=0) as address:
            stream = client.stream("GET", f"{address}/live")
            answer = await stream.__aenter__()
            lines = answer.aiter_lines()
            assert await anext(lines) == "retry: 1000"
        assert [line async for line in lines if line.startswith("event")][:1] in (
            [],
            ["event: counts"],
        )
        await stream.__aexit__(None, None, None)


async def test_a_signal_ends_it_in_order(shop: Shop) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVING, str(port), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
        while True:
            with contextlib.suppress(httpx.ConnectError):
                await client.get("/login")
                break
            await asyncio.sleep(0.05)
        async with client.stream("GET", "/live") as stream:
            assert await anext(stream.aiter_lines()) == "retry: 1000"
            process.send_signal(signal.SIGTERM)
            assert await process.stdout.read() == b"ended\n"
    assert await process.wait() == 0
