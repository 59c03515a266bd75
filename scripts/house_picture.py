"""Draws which package of Headway imports which: `make picture`.

Writes docs/internals/house.svg, and docs/internals/house.md with the same as a table. The order of
the packages is that of the layers in pyproject.toml.
"""

from __future__ import annotations

import ast
import tomllib
from html import escape
from itertools import pairwise
from pathlib import Path

import grimp

from headway.web.graph.layout import arrange

ROOT = Path(__file__).parents[1]
SVG = ROOT / "docs" / "internals" / "house.svg"
PAGE = ROOT / "docs" / "internals" / "house.md"

WIDTH, HEIGHT = 116, 34
ACROSS, DOWN = 22, 40
"""Space between boxes."""
MARGIN = 16
TEMPLATE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img"
  aria-labelledby="title">
  <title id="title">The packages of Headway and their imports</title>
  <style>
    .ground {{ fill: #ffffff }}
    .package {{ fill: #eef4ff; stroke: #3b6fd4; stroke-width: 1.5 }}
    .import {{ fill: none; stroke: #59636e; stroke-width: 1.2; marker-end: url(#tip) }}
    .name {{ fill: #1f2328; font: 600 13px system-ui, sans-serif; text-anchor: middle }}
    .tip {{ fill: #59636e }}
    @media (prefers-color-scheme: dark) {{
      .ground {{ fill: #161b22 }}
      .package {{ fill: #14233f; stroke: #6d9df0 }}
      .import {{ stroke: #9aa4af }}
      .name {{ fill: #e6edf3 }}
      .tip {{ fill: #9aa4af }}
    }}
  </style>
  <defs>
    <marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"
      orient="auto"><path class="tip" d="M0,0 L10,5 L0,10 z"/></marker>
  </defs>
  <rect class="ground" width="{width:g}" height="{height:g}" rx="8"/>
  {drawn}
</svg>
"""
PAGE_TEMPLATE = """\
# The packages

An arrow leads from a package to a package that it imports. A direct arrow is left out where longer
paths exist. The import linter ensures that all arrows point down. `make picture` updates this page.

![The packages of Headway and their imports](house.svg)

| package | | imports |
|---|---|---|
{rows}
"""

Edges = set[tuple[str, str]]
"""The importing and the imported package."""


def packages() -> list[str]:
    """All packages and modules below `headway`, the upper layers first."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["id"] == "layers")
    names = [name.strip(" ()") for layer in layers for name in layer.split("|")]
    return [name for name in names if name != "__main__"]


def imports() -> Edges:
    graph = grimp.build_graph("headway", cache_dir=None)
    known = set(packages())
    edges: Edges = set()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            source, target = f"{module}.".split(".")[1], f"{imported}.".split(".")[1]
            if source != target and {source, target} <= known:
                edges.add((source, target))
    return edges


def needed(edges: Edges) -> list[tuple[str, str]]:
    """The imports to draw: those that point down, without those that also have a longer path."""
    order = {name: number for number, name in enumerate(packages())}
    down = sorted(
        (edge for edge in edges if order[edge[0]] < order[edge[1]]),
        key=lambda edge: (order[edge[0]], order[edge[1]]),
    )
    reached: dict[str, set[str]] = {}
    drawn: list[tuple[str, str]] = []
    for source in reversed(order):
        targets = [target for each, target in down if each == source]
        implied = set[str]().union(*(reached[target] for target in targets))
        reached[source] = implied | set(targets)
        drawn += [(source, target) for target in targets if target not in implied]
    return sorted(drawn, key=lambda edge: (order[edge[0]], order[edge[1]]))


def draw(edges: Edges) -> str:
    drawn = needed(edges)
    placed = arrange(packages(), drawn)
    boxes = [
        f'<rect class="package" x="{_x(placed.place[name]):g}" y="{_y(placed.layer[name]):g}" '
        f'width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
        f'<text class="name" x="{_x(placed.place[name]) + WIDTH / 2:g}" '
        f'y="{_y(placed.layer[name]) + HEIGHT / 2 + 4.5:g}">{escape(name)}</text>'
        for name in packages()
    ]
    lines = [f'<path class="import" d="{_path(route)}"/>' for route in placed.routes]
    places = [place for route in placed.routes for _, place in route] + [*placed.place.values()]
    width = _x(max(places)) + WIDTH + MARGIN
    height = _y(max(placed.layer.values())) + HEIGHT + MARGIN
    return TEMPLATE.format(width=width, height=height, drawn="\n  ".join([*lines, *boxes]))


def _x(place: float) -> float:
    return round(MARGIN + place * (WIDTH + ACROSS), 1)


def _y(layer: int) -> float:
    return MARGIN + layer * (HEIGHT + DOWN)


def _path(route: list[tuple[int, float]]) -> str:
    """From below the first box to the top of the last, passing other layers between boxes."""
    first, last = route[0], route[-1]
    points = [(_x(first[1]) + WIDTH / 2, _y(first[0]) + HEIGHT)]
    for layer, place in route[1:-1]:
        x = _x(place) + WIDTH / 2
        points += [(x, _y(layer)), (x, _y(layer) + HEIGHT)]
    points.append((_x(last[1]) + WIDTH / 2, _y(last[0])))
    steps = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for (x, y), (next_x, next_y) in pairwise(points):
        middle = (y + next_y) / 2
        steps.append(f"C{x:g} {middle:g} {next_x:g} {middle:g} {next_x:g} {next_y:g}")
    return "".join(steps)


def page(edges: Edges) -> str:
    """The picture and, as a table, all direct imports."""
    names = packages()
    rows: list[str] = []
    for number, name in enumerate(names):
        listed = [each for each in names[number:] if (name, each) in edges]
        against = [f"{each} (upwards)" for each in names[:number] if (name, each) in edges]
        rows.append(f"| `{name}` | {_purpose(name)} | {', '.join([*listed, *against])} |")
    return PAGE_TEMPLATE.format(rows="\n".join(rows))


def _purpose(name: str) -> str:
    """First sentence of its docstring."""
    path = ROOT / "src" / "headway" / name
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".") + "."


def main() -> None:
    edges = imports()
    SVG.write_text(draw(edges), "utf-8")
    PAGE.write_text(page(edges), "utf-8")


if __name__ == "__main__":
    main()
