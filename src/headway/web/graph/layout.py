"""Where the nodes of a graph go so that it can be read: in layers, with few crossings.

Each node stands one layer after the last of those it comes after. Edges that skip layers get a
stand-in in each, so that they find a way between the nodes. The order within layers is by the
average place of the neighbours, a few times over; then everything is pulled towards its
neighbours as far as the distance allows.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

N = TypeVar("N", bound=Hashable)

SWEEPS = 6
MAX_STAND_INS = 4_000
"""Beyond that, edges that skip layers go straight."""


@dataclass(frozen=True)
class Layout(Generic[N]):
    """Layers from 0, and places within them in units of one node's height."""

    layer: dict[N, int]
    place: dict[N, float]
    routes: list[list[tuple[int, float]]]
    """For each edge, the points it passes, from source to target."""


def arrange(nodes: Sequence[N], edges: Sequence[tuple[N, N]]) -> Layout[N]:
    index = {node: number for number, node in enumerate(nodes)}
    links = [(index[source], index[target]) for source, target in edges]
    layer = _layers(len(nodes), links)
    chains = _chains(links, layer)
    above: list[list[int]] = [[] for _ in layer]
    below: list[list[int]] = [[] for _ in layer]
    for chain in chains:
        for first, second in pairwise(chain):
            below[first].append(second)
            above[second].append(first)
    rows = _ordered(layer, above, below)
    place = _spread(rows, above, below)
    return Layout(
        {node: layer[number] for node, number in index.items()},
        {node: place[number] for node, number in index.items()},
        [[(layer[stop], place[stop]) for stop in chain] for chain in chains],
    )


def _layers(count: int, links: Sequence[tuple[int, int]]) -> list[int]:
    """The longest way from a node that comes after nothing. What closes a circle is ignored; there
    should be none."""
    after: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for source, target in links:
        after[source].append(target)
        missing[target] += 1
    layer = [0] * count
    ready = [node for node in range(count) if not missing[node]]
    for node in ready:
        for target in after[node]:
            layer[target] = max(layer[target], layer[node] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    # Nodes without a past stand right before what they lead to, not all at the left.
    has_past = {target for _, target in links}
    for node in range(count):
        if node not in has_past and after[node]:
            layer[node] = max(0, min(layer[target] for target in after[node]) - 1)
    return layer


def _chains(links: Sequence[tuple[int, int]], layer: list[int]) -> list[list[int]]:
    """Each edge as the nodes and stand-ins that it passes; these are added to `layer`."""
    stand_ins = sum(max(0, layer[target] - layer[source] - 1) for source, target in links)
    chains: list[list[int]] = []
    for source, target in links:
        chain = [source]
        if stand_ins <= MAX_STAND_INS:
            for between in range(layer[source] + 1, layer[target]):
                chain.append(len(layer))
                layer.append(between)
        chains.append([*chain, target])
    return chains


def _ordered(layer: list[int], above: list[list[int]], below: list[list[int]]) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for node, number in enumerate(layer):
        rows[number].append(node)
    place = {node: at for row in rows for at, node in enumerate(row)}
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            middles = {
                node: _middle(place, (above if down else below)[node], place[node]) for node in row
            }
            row.sort(key=middles.__getitem__)
            place.update((node, at) for at, node in enumerate(row))
    return rows


def _middle(place: dict[int, int], near: list[int], otherwise: float) -> float:
    return sum(place[each] for each in near) / len(near) if near else otherwise


def _spread(rows: list[list[int]], above: list[list[int]], below: list[list[int]]) -> list[float]:
    place = [0.0] * sum(map(len, rows))
    for row in rows:
        for number, node in enumerate(row):
            place[node] = number - (len(row) - 1) / 2
    for sweep in range(SWEEPS * 2):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wanted = [
                sum(place[each] for each in near) / len(near)
                if (near := (above if down else below)[node])
                else place[node]
                for node in row
            ]
            for node, at in zip(row, _apart(wanted), strict=True):
                place[node] = at
    lowest = min(place, default=0.0)
    return [at - lowest for at in place]


def _apart(wanted: list[float]) -> list[float]:
    """The places nearest to those wanted, in this order and one unit apart: neighbours that would
    overlap are moved as one block around their common middle."""
    blocks: list[tuple[float, int]] = []  # the sum of (wanted - offset), and how many
    for place in wanted:
        total, size = place, 1
        while blocks and blocks[-1][0] / blocks[-1][1] + blocks[-1][1] > total / size:
            before, count = blocks.pop()
            total, size = before + total - count * size, count + size
        blocks.append((total, size))
    return [total / size + offset for total, size in blocks for offset in range(size)]
