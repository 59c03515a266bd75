"""Graphs are laid out so that they can be read, whatever they look like."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as some

from headway.domain.views import GraphEdge, GraphNode, Link, SequenceGraph, ShownState
from headway.web.graph.layout import arrange
from headway.web.graph.svg import HEIGHT, WIDTH, draw


@some.composite
def graphs(draw: some.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    count = draw(some.integers(0, 25))
    pairs = [(low, high) for high in range(count) for low in range(high)]
    edges = draw(some.lists(some.sampled_from(pairs), max_size=40, unique=True)) if pairs else []
    return list(range(count)), edges


@given(graphs())
def test_nothing_overlaps_and_everything_goes_forward(
    graph: tuple[list[int], list[tuple[int, int]]],
) -> None:
    nodes, edges = graph
    placed = arrange(nodes, edges)
    for source, target in edges:
        assert placed.layer[source] < placed.layer[target]
    for route in placed.routes:
        layers = [layer for layer, _ in route]
        assert layers == list(range(layers[0], layers[-1] + 1))  # through each layer in between
    stops = {(layer, place) for route in placed.routes for layer, place in route}
    stops |= {(placed.layer[node], placed.place[node]) for node in nodes}
    for layer in {layer for layer, _ in stops}:
        places = sorted(place for other, place in stops if other == layer)
        gaps = [after - before for before, after in pairwise(places)]
        assert all(gap > 0.999 for gap in gaps)
    assert min((place for _, place in stops), default=0) >= -0.001


def test_a_circle_is_drawn_all_the_same() -> None:
    placed = arrange(["a", "b"], [("a", "b"), ("b", "a")])
    assert set(placed.layer) == {"a", "b"}


def test_the_drawing_holds_all_its_boxes() -> None:
    nodes = [
        GraphNode(
            job_id=str(n),
            type="t",
            state=ShownState.PENDING,
            sequence_id="0",
            position=n,
            attempts=0,
        )
        for n in range(12)
    ]
    edges = [
        GraphEdge(source=str(n // 3), target=str(n), link=Link.STARTED) for n in range(1, 12)
    ] + [GraphEdge(source="gone", target="3", link=Link.BLOCKS)]
    drawing = draw(SequenceGraph(root_id="0", nodes=nodes, edges=edges, complete=True))
    assert len(drawing.boxes) == 12
    assert len(drawing.lines) == 11
    for box in drawing.boxes:
        assert 0 <= box.x <= drawing.width - WIDTH
        assert 0 <= box.y <= drawing.height - HEIGHT


def test_an_empty_graph() -> None:
    drawing = draw(SequenceGraph(root_id="0", nodes=[], edges=[], complete=True))
    assert (drawing.boxes, drawing.lines) == ([], [])
