"""The figures of a run as a markdown page and as a plot: medians, spread, errors, settings."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks.plots import Bar, BarRow, Column, bars

RATES = "ABCDG"
MARKS = {
    "limited": "¹",
    "loaded": "²",
}
OURS = ("headway-postgres", "headway-sqlite")
CEILINGS = ("raw-postgres", "raw-sqlite")


class Figures:
    """What was measured of one queue, over all rounds."""

    def __init__(self, name: str, described: dict[str, Any], rounds: list[dict[str, Any]]) -> None:
        self.name = name
        self.described = described
        self._rounds = rounds

    def all(self, metric: str) -> list[dict[str, Any]]:
        return [each[metric] for each in self._rounds if metric in each]

    def values(self, metric: str, key: str) -> list[float]:
        return [each[key] for each in self.all(metric) if key in each]

    def median(self, metric: str, key: str = "rate") -> float | None:
        values = self.values(metric, key)
        return statistics.median(values) if values else None

    def error(self, metric: str) -> str | None:
        """The first one, if there is no figure at all."""
        errors = [each["error"] for each in self.all(metric) if "error" in each]
        return errors[0] if errors and not self.values(metric, _key(metric)) else None

    def cell(self, metric: str) -> str:
        if "error" in self.described:
            return "failed"
        if metric not in self.described["metrics"]:
            return "n/a"
        if self.error(metric) is not None:
            return "failed"
        middle = self.median(metric, _key(metric))
        if middle is None:
            return ""
        if metric == "E":
            rest = [self.median("E", key) for key in ("p95", "p99")]
            return " / ".join(f"{value:.1f}" for value in (middle, *rest) if value is not None)
        if metric == "F":
            return f"{middle:.1f}"
        if metric == "H":
            return f"{middle:.0f}"
        marks = "".join(
            mark for key, mark in MARKS.items() if any(each.get(key) for each in self.all(metric))
        )
        return f"{middle:,.0f}{marks}{self._spread(metric)}"

    def _spread(self, metric: str) -> str:
        values = self.values(metric, _key(metric))
        if len(values) < 2:
            return ""
        half = (max(values) - min(values)) / 2 / statistics.median(values)
        return f" ±{half:.0%}"

    def bar(self, metric: str, key: str | None = None) -> Bar | None:
        values = self.values(metric, key or _key(metric))
        if not values:
            return None
        return Bar(statistics.median(values), min(values), max(values))

    @property
    def label(self) -> str:
        title = self.described.get("title", self.name)
        store = self.described.get("store")
        return f"{title}, {store}" if store else title


def _key(metric: str) -> str:
    return "rate" if metric in RATES else "all" if metric == "H" else "p50"


def figures_of(results: dict[str, Any]) -> list[Figures]:
    return [
        Figures(name, each["described"], each["rounds"]) for name, each in results["peers"].items()
    ]


def markdown(results: dict[str, Any]) -> str:
    figures = figures_of(results)
    parts = [
        _conditions(results),
        _table(figures, results),
        _notes(results),
        _ratios(figures),
        _errors(figures),
        _settings(figures),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _conditions(results: dict[str, Any]) -> str:
    machine, amounts = results["machine"], results["amounts"]
    quiet = "; ".join(f"{name} {value}" for name, value in results["noise"].items())
    return (
        f"{machine['cpus']} CPUs ({machine['processor']}), {machine['system']}, Python "
        f"{machine['python']}, PostgreSQL {machine['postgres']} ({_pairs(results['postgres'])}), "
        f"Valkey {machine['valkey']} in memory ({_pairs(results['valkey'])}). {results['rounds']} "
        f"rounds, interleaved; medians, ± half the range. No-op handlers, payload of "
        f"{amounts['payload']} bytes. Noise, medians: {quiet}. `{results['command']}`"
    )


def _pairs(settings: dict[str, str]) -> str:
    return ", ".join(f"{name}={value or chr(34) * 2}" for name, value in settings.items())


def _table(figures: list[Figures], results: dict[str, Any]) -> str:
    amounts = results["amounts"]
    heads = {
        "A": "A: starts/s",
        "B": f"B: bulk starts/s ({amounts['jobs']:,})",
        "C": "C: drain/s, 1 process",
        "D": "D: drain/s, 2 processes",
        "E": "E: latency p50 / p95 / p99, ms",
        "F": "F: result p50, ms",
        "G": f"G: drain/s of {amounts['large']:,}",
        "H": "H: worker, MB",
    }
    chosen = [metric for metric in heads if metric in results["metrics"]]
    lines = [
        "| queue | store | " + " | ".join(heads[metric] for metric in chosen) + " |",
        "|---|---|" + "--:|" * len(chosen),
    ]
    for each in figures:
        title = each.described.get("title", each.name)
        name = f"**{title}**" if each.name in OURS else title
        store = each.described.get("store", "")
        cells = " | ".join(each.cell(metric) for metric in chosen)
        lines.append(f"| {name} | {store} | {cells} |")
    return "\n".join(lines)


def _notes(results: dict[str, Any]) -> str:
    amounts = results["amounts"]
    return (
        f"¹ cut short after {amounts['limit']:.0f} s: the rate is of what was done by then. ² "
        "fewer jobs could be loaded in the time given. n/a: the queue does not offer it."
    )


def _best(figures: Iterable[Figures], metric: str, key: str, *, least: bool) -> Figures | None:
    known = [each for each in figures if each.median(metric, key) is not None]
    if not known:
        return None
    choose = min if least else max
    return choose(known, key=lambda each: each.median(metric, key) or 0.0)


def _ratios(figures: list[Figures]) -> str:
    """Headway against the best of the others."""
    by_name = {each.name: each for each in figures}
    ours = by_name.get("headway-postgres")
    others = [each for each in figures if each.name not in (*OURS, *CEILINGS)]
    on_postgres = [each for each in others if each.described.get("store") == "PostgreSQL"]
    elsewhere = [each for each in others if each.described.get("store") == "Valkey"]
    lines: list[str] = []

    def compare(
        one: Figures | None,
        others: Iterable[Figures | None],
        metric: str,
        what: str,
        keys: tuple[str, str] = ("rate", "rate"),
        *,
        least: bool = False,
    ) -> None:
        if one is None:
            return
        best = _best((each for each in others if each is not None), metric, keys[1], least=least)
        mine = one.median(metric, keys[0])
        if best is None or mine is None:
            return
        theirs = best.median(metric, keys[1]) or 1.0
        lines.append(
            f"| {what} | {mine:,.1f} | {best.label}: {theirs:,.1f} | {mine / theirs:.2f} |"
        )

    raw = [by_name.get("raw-postgres")]
    compare(ours, on_postgres, "C", "drain, one process, PostgreSQL")
    compare(ours, on_postgres, "D", "drain, two processes, PostgreSQL")
    compare(ours, elsewhere, "C", "drain, one process, against Valkey")
    compare(ours, elsewhere, "D", "drain, two processes, against Valkey")
    compare(ours, raw, "C", "drain, of the raw statements")
    compare(ours, others, "B", "bulk start")
    compare(ours, raw, "A", "single start, of the raw statements")
    compare(ours, on_postgres, "E", "latency p50, ms", ("p50", "p50"), least=True)
    compare(ours, on_postgres, "E", "latency p99 against p95, ms", ("p99", "p95"), least=True)
    compare(ours, on_postgres, "G", "drain of the large backlog, PostgreSQL")
    compare(by_name.get("headway-sqlite"), [by_name.get("huey-sqlite")], "C", "drain, SQLite")
    compare(
        by_name.get("headway-sqlite"), [by_name.get("raw-sqlite")], "C", "drain, SQLite, of raw"
    )
    compare(ours, others, "H", "memory, MB", ("all", "all"), least=True)
    if not lines:
        return ""
    head = "| Headway against the best other | Headway | the other | ratio |\n|---|--:|---|--:|\n"
    return head + "\n".join(lines)


def _errors(figures: list[Figures]) -> str:
    lines: list[str] = []
    for each in figures:
        if "error" in each.described:
            lines.append(f"- {each.name}: {each.described['error']}")
            continue
        for metric in each.described["metrics"]:
            tries = each.all(metric)
            errors = [measured["error"] for measured in tries if "error" in measured]
            if errors:
                lines.append(
                    f"- {each.label}, {metric}, {len(errors)} of {len(tries)}: {errors[0]}"
                )
    return "\n".join(["Failed:", "", *lines]) if lines else ""


def _settings(figures: list[Figures]) -> str:
    lines = [
        "| queue | versions | durability | bulk start | settings |",
        "|---|---|---|---|---|",
    ]
    for each in figures:
        if "error" in each.described:
            continue
        about = each.described
        versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
        uses: dict[str, list[str]] = {}
        for use, values in about["settings"].items():
            words = ", ".join(f"{name}={value}" for name, value in values.items())
            uses.setdefault(words, []).append(use)
        settings = "; ".join(f"{' and '.join(names)}: {words}" for words, names in uses.items())
        lines.append(
            f"| {each.label} | {versions} | {about['durability']} | {about['bulk']} | {settings} |"
        )
    return "\n".join(lines)


def plot(results: dict[str, Any]) -> str:
    """Drain, bulk start and latency of everyone, fastest drain first."""
    figures = [each for each in figures_of(results) if "error" not in each.described]
    figures.sort(key=lambda each: -(each.median("C") or 0.0))
    rows = [BarRow(each.name, each.label, _kind(each)) for each in figures]

    def column(title: str, note: str, metric: str, key: str) -> Column:
        found = {each.name: bar for each in figures if (bar := each.bar(metric, key)) is not None}
        return Column(title, note, found)

    columns = [
        column("Drain, jobs/s", "one worker process", "C", "rate"),
        column("Bulk start, jobs/s", f"{results['amounts']['jobs']:,} jobs", "B", "rate"),
        column("Latency, ms (p50)", "one job every 20 ms; less is better", "E", "p50"),
    ]
    legend = {
        "ours": "Headway",
        "postgresql": "PostgreSQL, durable",
        "valkey": "Valkey, in memory",
        "sqlite": "SQLite",
        "ceiling": "raw statements: the ceiling",
    }
    shown = [each for each in columns if each.bars]
    return bars("No-op jobs, medians of one run on one machine", rows, shown, legend)


def _kind(figures: Figures) -> str:
    if figures.name in OURS:
        return "ours"
    return "ceiling" if figures.name in CEILINGS else figures.described["store"].lower()
