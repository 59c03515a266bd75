"""Ways to log in, and the names under which actions are audited.

Token      one secret for all users; `Token.generate()` makes one
Password   a user and a password
Trust      the app around the dashboard says who sends a request
Open       no login; only `serve` and `dashboard_server` accept it, on loopback
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from starlette.requests import HTTPConnection

from headway.errors import ConfigurationError

MIN_TOKEN = 16
MIN_PASSWORD = 8
MAX_ACTOR = 200


@dataclass(frozen=True)
class Token:
    """`Authorization: Bearer TOKEN`, or the login form."""

    token: str = field(repr=False)
    actor: str = "token"

    def __post_init__(self) -> None:
        if len(self.token) < MIN_TOKEN or not (self.token.isascii() and self.token.isprintable()):
            raise ConfigurationError(
                f"a token needs {MIN_TOKEN} printable ASCII characters or more; "
                "make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )

    @classmethod
    def generate(cls) -> Token:
        return cls(secrets.token_urlsafe(32))


@dataclass(frozen=True)
class Password:
    """HTTP basic authentication, or the login form."""

    user: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.user or ":" in self.user or len(self.user) > MAX_ACTOR:
            raise ConfigurationError(
                f"a user needs a name of at most {MAX_ACTOR} characters without a colon"
            )
        if len(self.password) < MIN_PASSWORD:
            raise ConfigurationError(f"a password needs {MIN_PASSWORD} characters or more")


@dataclass(frozen=True)
class Trust:
    """`who` gives the name of the user who sent the request; None refuses access."""

    who: Callable[[HTTPConnection], str | None]


@dataclass(frozen=True)
class Open:
    """Everyone who can reach the address has access, under this name. Not for mounting: to give
    everyone access there, use `Trust(lambda request: "anyone")`."""

    actor: str = "local"


Auth = Token | Password | Trust | Open


def trusted_actor(auth: Trust | Open, connection: HTTPConnection) -> str | None:
    """The actor where no secret is needed."""
    if isinstance(auth, Open):
        return auth.actor
    actor = auth.who(connection)
    return actor[:MAX_ACTOR] if actor else None


def given_secret(auth: Token | Password, connection: HTTPConnection) -> tuple[str, str] | None:
    """The user and the secret that a request carries in its header, not compared yet."""
    scheme, _, given = connection.headers.get("authorization", "").partition(" ")
    if isinstance(auth, Token):
        return ("", given) if scheme.lower() == "bearer" else None
    if scheme.lower() != "basic":
        return None
    try:
        user, _, password = base64.b64decode(given, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return user, password


def actor_by_login(auth: Token | Password, user: str, secret: str) -> str | None:
    """The actor with this user and secret, compared in constant time; None if they are wrong."""
    if isinstance(auth, Token):
        return auth.actor if _same(secret, auth.token) else None
    right = [_same(user, auth.user), _same(secret, auth.password)]
    return auth.user if all(right) else None


def session_key(auth: Auth) -> bytes:
    """The key that signs sessions: the same in all processes with the same secret; changing the
    secret ends all sessions."""
    match auth:
        case Token():
            secret = f"token\0{auth.token}"
        case Password():
            secret = f"password\0{auth.user}\0{auth.password}"
        case Trust() | Open():
            return secrets.token_bytes(32)  # nobody logs in
        case _:
            assert_never(auth)
    return hashlib.scrypt(secret.encode(), salt=b"headway session", n=2**14, r=8, p=1, dklen=32)


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(
        hashlib.sha256(given.encode("utf-8", "replace")).digest(),
        hashlib.sha256(right.encode("utf-8", "replace")).digest(),
    )
