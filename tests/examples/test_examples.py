"""The examples run, end by themselves, and show what they are there to show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.bare_environment import bare_environment, requirements

ROOT = Path(__file__).parents[2]

SAID = {
    "order": [
        "the order is blocked until it is paid and packed",
        "pack:   order 7 is packed: gears, cards",
        "charge: order 7 is paid, 19.99 EUR",
        "ship:   700 g go to 12 Analytical Row, with receipt-7",
        "tell:   ada@example.com can follow track-7",
        "done: track-7, by way of ship and tell",
    ],
    "approval": [
        "worker: Ada filed 42.00 EUR; now somebody has to approve it",
        "the expense is at 'approval', which is pending",
        "the payment is blocked",
        "web:    Grace approves: 200 thank you",
        "worker: 42.00 EUR paid to Ada, approved by Grace",
        "the payment is paid",
        "web:    Grace approves again: 409 it has been approved already",
    ],
    "llm": [
        "acme asked 30 times; ada and bob, after it, 3 times each",
        "the service says: 429, Retry-After: 1",
        "answers: 36, of ada and bob among the first 20: 6",
        "at most 4 at once: True",
        "at most 2 of one tenant: True",
        "calls begun in the pause: 0",
        "tokens within bounds: True",
        "requests within bounds: True",
    ],
    "recurring": [
        "report after 0 s: done on attempt 1",
        "report after 1 s: fails",
        "report after 1 s: done on attempt 2",
        "report after 2 s: done on attempt 1",
        "report after 3 s: done on attempt 1",
        "one job for each tick: True",
    ],
    "report": [
        "the report is blocked until all parts are there",
        "east   1 orders, 40 EUR",
        "north  3 orders, 49 EUR",
        "south  2 orders, 10 EUR",
        "west   4 orders, 10 EUR",
        "November: 109 EUR in 4 regions",
        "the east was asked 2 times, the north once",
    ],
    "images": [
        "one-small.pgm: 16 x 16, 994",
        "two-small.pgm: 16 x 16, 994",
        "hang: the execution took longer than its timeout of 0.5 s",
        "and the worker goes on: 0 jobs run",
    ],
    "encrypted": [
        "stored is a token: True - with a name: False",
        "a worker with both keys takes it",
        "Dear Ada, it is only a cold.",
        "the result was encrypted with the new key and is read with it alone",
    ],
}

LOGGED = {
    "recurring": r"report \S+ failed on attempt 1 .*: ConnectionError: the printer is on fire",
    "report": r"count \S+ failed on attempt 1 .*: ConnectionError: the east does not answer",
    "images": r"hang \S+ dead-lettered on attempt 1: TimeoutError: the execution took longer .*",
}
"""The first line on stderr, where a job is meant to fail."""

INTERLEAVED = {"order": slice(1, 3), "approval": slice(3, 5)}
"""What goes on side by side is said in either order."""


@pytest.mark.parametrize("name", SAID)
def test_an_example(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", f"examples/{name}.py"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(LOGGED.get(name, ""), done.stderr.partition("\n")[0]), done.stderr
    assert done.stderr.count(" on attempt ") == (name in LOGGED), done.stderr
    said, expected = done.stdout.splitlines(), SAID[name].copy()
    if name in INTERLEAVED:
        either = INTERLEAVED[name]
        said[either], expected[either] = sorted(said[either]), sorted(expected[either])
    assert said == expected
    assert list(tmp_path.iterdir()) == [], "it cleans up after itself"


DEMO = """
the shop's database is FILE; the queue lives in the same file
a worker runs as process N
1. a job, started and awaited
   charge returned 'receipt-N-N'
2. a job that fails twice and is tried again
   send_email: delivered to ada@example.com on attempt N
   kept in its history: attempt N failed
   kept in its history: attempt N failed
3. a job without attempts left is kept as a dead letter, and can be retried
   dead-lettered: RuntimeError: the tax office is closed
   the tax office is open, the job is retried: order N reported
4. a worker is killed with a job in its hands
   ship waits for payment and packing; it is blocked
   process N packs, and is killed with SIGKILL
   another worker starts as process N
   order N shipped (receipt-N-N, packed by process N)
   N s after the kill; the lease was N s, the job was claimed N times and completed once
5. the worker is asked to stop
   it finishes its jobs and exits with 0
   in the database: N completed
"""


@pytest.mark.slow
def test_the_demo_needs_the_core_only(tmp_path: Path) -> None:
    python = bare_environment(tmp_path / "environment", requirements())
    done = subprocess.run(
        [python, "-W", "error", "examples/demo.py"],
        cwd=ROOT,
        env={"PYTHONPATH": "src", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = re.sub(
        r"/\S+shop\.db", "FILE", re.sub(r"^ *[\d.]+ s  |^\n", "", done.stdout, flags=re.M)
    )
    assert re.sub(r"\d+(\.\d+)?", "N", said) == re.sub(r"\d+(\.\d+)?", "N", DEMO.lstrip())


def test_the_demo_installs_the_core_only() -> None:
    pinned = (ROOT / "requirements" / "core.txt").read_text()
    assert re.findall(r"^[\w-]+", pinned, re.M) == requirements()
