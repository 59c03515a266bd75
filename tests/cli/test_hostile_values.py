"""Nothing that is stored reaches a terminal as more than plain text."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from headway import Dedup, Every, Headway, Job, Unrecoverable
from tests.cli.command import command, printed

EVIL = (
    "<img src=x onerror=alert(1)>\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08\t\n"
    "\u202egnp.exe\u2066\u200f\u061c\u2028\ufeff'\"\\"
)
LONG = "A" * 2**20


@dataclass(frozen=True)
class Hostile:
    dsn: str
    completed: str
    failed: str


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    path: Path = tmp_path_factory.mktemp("hostile") / "shop.db"
    return asyncio.run(_make(f"sqlite:///{path}"))


async def _make(dsn: str) -> Hostile:
    app = Headway(dsn)

    @app.job
    async def echo(job: Job, text: str) -> str:
        job.progress(0.5, EVIL)
        return text

    @app.job
    async def fail(text: str) -> None:
        raise type(f"Bad{EVIL}Error", (Unrecoverable,), {})(text)

    async with app:
        done = await app.start(echo.request(EVIL), dedup=Dedup(f"key {EVIL}".replace("\0", "")))
        broken = await app.start(fail.request(EVIL + LONG[:1000]))
        await app.start(echo.request(LONG[:-1000]))
        await app.schedules.put("hourly", Every(hours=1), echo.request(EVIL + LONG[:-1000]))
        await app.worker().run(drain=True)
    return Hostile(dsn, done.id, broken.id)


COMMANDS = [
    ("jobs", "list"),
    ("jobs", "list", "state:failed"),
    ("jobs", "show", "COMPLETED"),
    ("jobs", "show", "FAILED"),
    ("sequences", "list"),
    ("sequences", "show", "FAILED"),
    ("sequences", "tree", "FAILED"),
    ("queues", "list"),
    ("workers", "list"),
    ("stats",),
    ("why", "FAILED"),
    ("why", "COMPLETED"),
    ("schedules", "list"),
    ("schedules", "show", "hourly"),
    ("why", "hourly"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_text_is_plain_and_short(hostile: Hostile, words: tuple[str, ...]) -> None:
    given = {"COMPLETED": hostile.completed, "FAILED": hostile.failed}
    arguments = [given.get(word, word) for word in words]
    result = command(*arguments, "-a", hostile.dsn)
    assert result.exit_code == 0, result.stderr
    assert_plain(result.stdout)
    assert_plain(result.stderr)
    assert len(result.stdout) < 50_000


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_json_is_plain_and_whole(hostile: Hostile, words: tuple[str, ...]) -> None:
    given = {"COMPLETED": hostile.completed, "FAILED": hostile.failed}
    arguments = [given.get(word, word) for word in words]
    result = command(*arguments, "--json", "-a", hostile.dsn)
    assert result.exit_code == 0, result.stderr
    json.loads(result.stdout)
    assert_plain(result.stdout)


def test_json_loses_nothing(hostile: Hostile) -> None:
    job = printed("jobs", "show", hostile.completed, "-a", hostile.dsn)["job"]
    assert job["input"] == {"text": EVIL}
    assert job["output"] == EVIL
    largest = printed("jobs", "list", "-n", "1", "-a", hostile.dsn)["jobs"][0]
    assert len(largest["output"]) == len(LONG) - 1000


def test_what_was_typed_is_plain_too(hostile: Hostile) -> None:
    for arguments in (
        ("jobs", "list", f"state:{EVIL}"),
        ("jobs", "list", f"{EVIL}:x"),
        ("jobs", "show", EVIL),
        ("queues", "pause", EVIL),
        ("start", EVIL),
        ("jobs", "list", "--cursor", EVIL),
    ):
        result = command(*arguments, "-a", hostile.dsn)
        assert result.exit_code == 2, result.output
        assert_plain(result.stderr)


def assert_plain(text: str) -> None:
    odd = {character for character in text if not (character.isprintable() or character == "\n")}
    assert odd == set()
