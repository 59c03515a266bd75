"""The measurements A to H of one queue, each in processes of its own and limited in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.noise import listening
from benchmarks.peers.processes import ActionFailed, Runner

METRICS = {
    "A": "start one at a time",
    "B": "bulk start",
    "C": "drain, one worker process",
    "D": "drain, two worker processes",
    "E": "latency",
    "F": "start and wait for the result",
    "G": "drain of a large backlog",
    "H": "memory of a worker process after C",
}
MARGIN = 60.0
"""Seconds that connecting, starting and stopping may take beside what is measured."""


@dataclass(frozen=True)
class Amounts:
    jobs: int = 20_000
    large: int = 200_000
    seconds: float = 3.0
    """A is measured for."""
    limit: float = 15.0
    """Seconds after which what is too slow is cut short; its rate is of what was done."""
    load_limit: float = 60.0
    """The same for loading the backlog of G."""
    waits: int = 300
    gap: float = 0.02


Measured = dict[str, Any]


class Measurements:
    """Measures one queue once. An error is a result, and does not keep the rest from running."""

    def __init__(self, runner: Runner, amounts: Amounts, said: Callable[[str], None]) -> None:
        self._runner = runner
        self._amounts = amounts
        self._said = said
        self._loaded: int | None = None

    def measure(self, metrics: str) -> dict[str, Measured]:
        found: dict[str, Measured] = {}
        for metric in metrics:
            if metric == "H" or (metric in found):
                continue
            with listening() as noise:
                try:
                    measured = self._one(metric)
                except (ActionFailed, OSError, ValueError) as error:
                    measured: Measured = {"error": str(error)}
            measured["noise"] = noise
            found[metric] = measured
            if metric == "C" and "H" in metrics:
                found["H"] = measured.get("memory") or {"error": measured["error"]}
            self._said(f"{metric} {_in_words(measured)}")
        return found

    def _one(self, metric: str) -> Measured:
        amounts = self._amounts
        match metric:
            case "A":
                self._set_up("drain")
                return self._act("start_singly", amounts.seconds, limit=amounts.seconds)
            case "B":
                return self._load(amounts.jobs, amounts.limit)
            case "C":
                return self._drain(amounts.jobs, 1, amounts.limit)
            case "D":
                return self._drain(amounts.jobs, 2, amounts.limit)
            case "E":
                return self._wait("latency", amounts.gap, limit=amounts.waits * amounts.gap)
            case "F":
                return self._wait("results", amounts.limit, limit=amounts.limit)
            case "G":
                return self._drain(amounts.large, 1, amounts.limit, amounts.load_limit)
            case _:
                raise ValueError(f"there is no measurement {metric!r}")

    def _act(self, action: str, *numbers: float, limit: float) -> Measured:
        return self._runner.using("drain").act(action, *numbers, limit=limit + MARGIN)

    def _set_up(self, use: str) -> None:
        self._loaded = None
        self._runner.using(use).act("set_up", limit=MARGIN)

    def _load(self, count: int, limit: float) -> Measured:
        self._set_up("drain")
        loaded = self._act("start_bulk", count, limit, limit=limit)
        self._loaded = loaded["count"]
        return loaded

    def _drain(
        self, count: int, processes: int, limit: float, load_limit: float | None = None
    ) -> Measured:
        """What B has loaded is C's to drain: loading is slow for some."""
        if self._loaded is None or processes > 1 or load_limit is not None:
            self._load(count, load_limit or limit)
        loaded, self._loaded = self._loaded or 0, None
        runner = self._runner.using("drain", loaded=loaded)
        runner.act("settle", limit=MARGIN)
        with runner.workers(processes) as workers:
            drained = runner.act("watch", loaded, limit, limit=limit + MARGIN)
            drained["memory"] = workers.memory()
            drained["cpu"] = workers.cpu()
        if loaded < count:
            drained["loaded"] = loaded
        return drained

    def _wait(self, action: str, number: float, *, limit: float) -> Measured:
        use = "latency" if action == "latency" else "result"
        self._set_up(use)
        runner = self._runner.using(use, slots=self._amounts.waits)
        with runner.workers(1):
            return runner.act(action, self._amounts.waits, number, limit=limit + MARGIN)


def _in_words(measured: Measured) -> str:
    match measured:
        case {"error": error}:
            return f"failed: {error}"
        case {"rate": rate, **rest}:
            mark = " (cut short)" if rest.get("limited") else ""
            memory = rest.get("memory")
            resident = f", {memory['all']:.0f} MB" if memory else ""
            return f"{rate:,.0f}/s{mark}{resident}"
        case {"p50": p50, "p95": p95}:
            return f"p50 {p50:.1f} ms, p95 {p95:.1f} ms"
        case _:
            return ""
