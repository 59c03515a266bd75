"""Makes a failing scenario smaller while it still fails: fewer faults, fewer jobs, less of all."""

from __future__ import annotations

import time
from collections.abc import Iterator

from msgspec import structs

from proof.simulation.run import Outcome, simulate
from proof.simulation.scenario import Scenario

RATES = ("slow", "failing", "unknown", "lost_notifications", "doubled_notifications")


def shrink(outcome: Outcome, seconds: float = 20.0) -> Outcome:
    """The smallest failing outcome that was found in this time; whatever invariant it breaks."""
    deadline = time.monotonic() + seconds
    smallest = outcome
    again = True
    while again:
        again = False
        for candidate in _smaller(smallest.scenario):
            if time.monotonic() > deadline:
                return smallest
            tried = simulate(candidate)
            if tried.invariant is not None:
                smallest, again = tried, True
                break
    return smallest


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    count = len(scenario.faults)
    size = count
    while size:
        for start in range(0, count, size):
            left = scenario.faults[:start] + scenario.faults[start + size :]
            yield structs.replace(scenario, faults=left)
        size //= 2
    for feature in scenario.features:
        left_over = tuple(each for each in scenario.features if each != feature)
        yield structs.replace(scenario, features=left_over)
    for rate in RATES:
        if getattr(scenario, rate):
            yield structs.replace(scenario, **{rate: 0.0})
    for starts in (scenario.starts // 4, scenario.starts // 2, scenario.starts - 2):
        if 2 <= starts < scenario.starts:
            yield structs.replace(scenario, starts=starts)
    if scenario.workers > 1:
        yield structs.replace(scenario, workers=scenario.workers - 1)
    if scenario.horizon > 5:
        yield structs.replace(scenario, horizon=scenario.horizon / 2)
