"""A sequence with everything around it, as boxes and lines for a template to draw."""

from __future__ import annotations

from dataclasses import dataclass

from headway.domain.views import GraphNode, Link, SequenceGraph
from headway.web.graph.layout import arrange

WIDTH, HEIGHT = 184, 50
ACROSS, DOWN = 48, 18
"""Space between boxes."""
MARGIN = 10


@dataclass(frozen=True)
class Box:
    node: GraphNode
    x: float
    y: float


@dataclass(frozen=True)
class Line:
    link: Link
    path: str
    """As SVG has it."""


@dataclass(frozen=True)
class Drawing:
    width: int
    height: int
    boxes: list[Box]
    lines: list[Line]
    box_width: int = WIDTH
    box_height: int = HEIGHT


def draw(graph: SequenceGraph) -> Drawing:
    known = {node.job_id for node in graph.nodes}
    edges = [edge for edge in graph.edges if edge.source in known and edge.target in known]
    placed = arrange(
        [node.job_id for node in graph.nodes], [(edge.source, edge.target) for edge in edges]
    )
    boxes = [
        Box(node, _x(placed.layer[node.job_id]), _y(placed.place[node.job_id]))
        for node in graph.nodes
    ]
    lines = [
        Line(edge.link, _path(route)) for edge, route in zip(edges, placed.routes, strict=True)
    ]
    right = max((box.x for box in boxes), default=0) + WIDTH + MARGIN
    lowest = max((_y(at) for route in placed.routes for _, at in route), default=0)
    bottom = max(lowest, *(box.y for box in boxes), 0) + HEIGHT + MARGIN
    return Drawing(round(right), round(bottom), boxes, lines)


def _x(layer: int) -> float:
    return MARGIN + layer * (WIDTH + ACROSS)


def _y(place: float) -> float:
    return round(MARGIN + place * (HEIGHT + DOWN), 1)


def _path(route: list[tuple[int, float]]) -> str:
    """From the right side of the first box to the left side of the last, bending between layers
    and going straight where it passes one."""
    (layer, place), *rest = route
    x, y = _x(layer) + WIDTH, _y(place) + HEIGHT / 2
    steps = [f"M{x:g} {y:g}"]
    for number, (layer, place) in enumerate(rest, start=1):
        left, next_y = _x(layer), _y(place) + HEIGHT / 2
        if left <= x:  # a circle, which should not be: straight back
            steps.append(f"L{left:g} {next_y:g}")
        else:
            bend = (x + left) / 2
            steps.append(f"C{bend:g} {y:g} {bend:g} {next_y:g} {left:g} {next_y:g}")
        x, y = left, next_y
        if number < len(rest):
            x = left + WIDTH
            steps.append(f"H{x:g}")
    return "".join(steps)
