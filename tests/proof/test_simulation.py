"""The simulation goes the same way every time, finds what is wrong, and makes it smaller."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from proof.simulation.loop import Deadlock, Livelock, VirtualLoop

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONHASHSEED": "0"}

BUGGY = """
import json, sys
from proof.mutants import core_bugs
from proof.simulation.run import simulate
from proof.simulation.scenario import Scenario, decode, encode
from proof.simulation.shrink import shrink
core_bugs.SEEN_BY_SIMULATION[sys.argv[1]]()
outcomes = (simulate(Scenario.from_seed(seed)) for seed in range(25, 200))
outcome = next(each for each in outcomes if each.invariant)
smaller = shrink(outcome, 10)
again = simulate(decode(encode(smaller.scenario)))
sizes = [each.starts + len(each.faults) for each in (outcome.scenario, smaller.scenario)]
print(json.dumps([*sizes, smaller.detail, again.detail]))
"""


def python(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_loop_leaps_from_timer_to_timer() -> None:
    loop = VirtualLoop()
    moments: list[float] = []
    loop.call_later(3600, lambda: moments.append(loop.time()))
    with pytest.raises(Deadlock):
        loop.run_forever()
    assert moments == [pytest.approx(3600)]
    loop.close()


def test_a_loop_that_never_gets_on_is_ended() -> None:
    loop = VirtualLoop()
    loop.now = 1.0

    def again() -> None:
        loop.call_later(1e-20, again)

    loop.call_soon(again)
    with pytest.raises(Livelock):
        loop.run_forever()
    loop.close()


def test_a_timer_that_is_early_by_rounding_keeps_no_suspect_waiting() -> None:
    """In this scenario a suspect's timer fires 0.1 microseconds before its time."""
    said = python("-m", "proof.simulation", "--first", "647649539", "--operations", "1")
    assert json.loads(said.splitlines()[-1])["scenarios"] == 1


def test_scenarios_hold_and_go_the_same_way_again() -> None:
    arguments = ("-m", "proof.simulation", "--first", "1000", "--operations", "20000")
    first, second = (json.loads(python(*arguments).splitlines()[-1]) for _ in range(2))
    assert first == second
    assert first["operations"] >= 20_000


@pytest.mark.long
@pytest.mark.slow
def test_a_bug_is_found_shrunk_and_replayed() -> None:
    said = python("-c", BUGGY, "successor of a refused completion")
    found, smaller, detail, again = json.loads(said)
    assert smaller < found
    assert detail
    assert detail == again
