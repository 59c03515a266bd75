"""Small plots as SVG, by hand: bars for comparisons, lines for growth. Light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2937 }
.title { font-weight: 600 } .small { font-size: 11px; fill: #6b7280 }
.axis { stroke: #9ca3af; stroke-width: 1; fill: none }
.ours { fill: #2563eb } .postgresql { fill: #64748b } .valkey { fill: #d97706 }
.sqlite { fill: #0d9488 } .memory { fill: #7c3aed } .ceiling { fill: #cbd5e1 }
.line { fill: none; stroke-width: 2 } .spread { stroke: #111827; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb } .small { fill: #9ca3af } .spread { stroke: #f3f4f6 }
  .ours { fill: #60a5fa } .ceiling { fill: #475569 }
}
"""
COLOURS = ("#2563eb", "#d97706", "#0d9488", "#9333ea", "#dc2626", "#65a30d")
ROW = 20
LABELS = 190


@dataclass(frozen=True)
class Bar:
    value: float
    low: float
    high: float

    def text(self) -> str:
        return f"{self.value:,.0f}" if self.value >= 100 else f"{self.value:.1f}"


@dataclass(frozen=True)
class Column:
    title: str
    note: str
    bars: Mapping[str, Bar]
    """By row; a row without one stays empty."""


@dataclass(frozen=True)
class BarRow:
    key: str
    label: str
    kind: str
    """One of the classes in STYLE."""


def bars(
    title: str, rows: Sequence[BarRow], columns: Sequence[Column], legend: Mapping[str, str]
) -> str:
    """Rows that share their labels, one column of bars per measurement."""
    width, gap, top = 250, 30, 62
    whole = LABELS + len(columns) * (width + gap)
    height = top + len(rows) * ROW + 34
    parts = [f'<text class="title" x="0" y="16">{escape(title)}</text>']
    for number, row in enumerate(rows):
        y = top + number * ROW + 14
        parts.append(f'<text x="{LABELS - 8}" y="{y}" text-anchor="end">{escape(row.label)}</text>')
    for position, column in enumerate(columns):
        x = LABELS + position * (width + gap)
        parts.append(f'<text class="title" x="{x}" y="38">{escape(column.title)}</text>')
        parts.append(f'<text class="small" x="{x}" y="52">{escape(column.note)}</text>')
        most = max((bar.high for bar in column.bars.values()), default=1.0) or 1.0
        scale = (width - 60) / most
        for number, row in enumerate(rows):
            y = top + number * ROW
            bar = column.bars.get(row.key)
            if bar is None:
                parts.append(f'<text class="small" x="{x}" y="{y + 14}">n/a</text>')
                continue
            length = max(bar.value * scale, 1.0)
            parts.append(
                f'<rect class="{row.kind}" x="{x}" y="{y + 3}" width="{length:.1f}" height="14"/>'
            )
            parts.append(
                f'<path class="spread" d="M{x + bar.low * scale:.1f},{y + 10}'
                f'H{x + bar.high * scale:.1f}"/>'
            )
            end = x + max(length, bar.high * scale) + 5
            parts.append(f'<text class="small" x="{end:.1f}" y="{y + 14}">{bar.text()}</text>')
    x, y = LABELS, height - 10
    for kind, meaning in legend.items():
        parts.append(f'<rect class="{kind}" x="{x}" y="{y - 10}" width="10" height="10"/>')
        parts.append(f'<text class="small" x="{x + 15}" y="{y}">{escape(meaning)}</text>')
        x += 32 + 6.2 * len(meaning)
    return _svg(whole, height, parts)


def lines(
    title: str, ticks: Sequence[str], series: Mapping[str, Sequence[float | None]], unit: str
) -> str:
    """One line per series over the same evenly spaced ticks, from 0 up."""
    width, height, left, top = 460, 200, 70, 46
    known = [value for values in series.values() for value in values if value is not None]
    most = _round_up(max(known, default=1.0) or 1.0)
    step = width / max(len(ticks) - 1, 1)
    parts = [
        f'<text class="title" x="0" y="16">{escape(title)}</text>',
        f'<path class="axis" d="M{left},{top}V{top + height}H{left + width}"/>',
    ]
    for share in (0.0, 0.5, 1.0):
        y = top + height * (1 - share)
        parts.append(
            f'<text class="small" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{most * share:,.0f}</text>"
        )
    for number, tick in enumerate(ticks):
        x = left + number * step
        parts.append(
            f'<text class="small" x="{x:.1f}" y="{top + height + 16}" text-anchor="middle">'
            f"{escape(tick)}</text>"
        )
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [
            (left + place * step, top + height * (1 - value / most))
            for place, value in enumerate(values)
            if value is not None
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="line" stroke="{colour}" points="{path}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        y = top + height + 36 + 16 * number
        parts.append(f'<rect x="{left}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text class="small" x="{left + 16}" y="{y}">{escape(name)}</text>')
    parts.append(f'<text class="small" x="{left}" y="{top - 6}">{escape(unit)}</text>')
    return _svg(left + width + 40, top + height + 40 + 16 * len(series), parts)


def _round_up(value: float) -> float:
    """To a number that looks well at an axis, and so does its half."""
    unit = 10 ** math.floor(math.log10(value))
    return next(each * unit for each in (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10) if each * unit >= value)


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="-8 0 {width + 16:.0f} {height:.0f}">'
    )
    return "\n".join((opening, f"<style>{STYLE}</style>", *parts, "</svg>\n"))
