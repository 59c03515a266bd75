"""Runs scenarios, one after another, and says how it goes in lines of JSON.

python -m proof.simulation --first 0 --stride 2 --operations 1000000
python -m proof.simulation --replay '{"seed": 17, ...}'
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

import msgspec

from proof.simulation.run import Outcome, simulate
from proof.simulation.scenario import Scenario, decode, encode
from proof.simulation.shrink import shrink

SAY_EVERY = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m proof.simulation")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--replay", help="one scenario, as a failure printed it")
    options = parser.parse_args()
    if options.replay:
        outcome = simulate(decode(options.replay))
        say(describe(outcome))
        return int(outcome.invariant is not None)
    return run(options.first, options.stride, options.operations, options.seconds)


def run(first: int, stride: int, operations: int, seconds: float) -> int:
    began = said = time.monotonic()
    sums = {"scenarios": 0, "operations": 0, "transitions": 0, "executions": 0, "crashes": 0}
    slowest = 0.0
    seed = first
    while sums["operations"] < operations and time.monotonic() - began < seconds:
        outcome = simulate(Scenario.from_seed(seed))
        seed += stride
        if outcome.invariant is not None:
            say({"failed": describe(outcome), "shrunk": describe(shrink(outcome))})
            return 1
        sums["scenarios"] += 1
        for name in ("operations", "transitions", "executions", "crashes"):
            sums[name] += getattr(outcome, name)
        slowest = max(slowest, outcome.settled_after)
        if time.monotonic() - said > SAY_EVERY:
            said = time.monotonic()
            say({**sums})
    say({**sums, "longest to settle": round(slowest, 1), "next seed": seed, "done": True})
    return 0


def describe(outcome: Outcome) -> dict[str, Any]:
    return {
        "invariant": outcome.invariant,
        "detail": outcome.detail,
        "operations": outcome.operations,
        "replay": f"PYTHONHASHSEED=0 python -m proof.simulation --replay "
        f"'{encode(outcome.scenario)}'",
    }


def say(line: dict[str, Any]) -> None:
    print(msgspec.json.encode(line).decode(), flush=True)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of strings must have the same order again
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(
            sys.executable,
            [sys.executable, "-W", "ignore", "-m", "proof.simulation", *sys.argv[1:]],
        )
    sys.exit(main())
