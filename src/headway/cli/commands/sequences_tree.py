"""`headway sequences tree`: a graph of jobs as an indented tree; each job is printed once."""

from __future__ import annotations

from collections import defaultdict

import click

from headway.cli.output import in_colour, say, short_id, terminal_width
from headway.cli.safe_text import harmless, width
from headway.domain.views import EdgeKind, GraphNode, SequenceGraph

WORDS = {EdgeKind.STARTED: "started", EdgeKind.BLOCKS: "waits for"}


def print_tree(graph: SequenceGraph) -> None:
    lines = tree_lines(graph)
    columns = terminal_width()
    if columns is not None and any(width(click.unstyle(line)) > columns for line in lines):
        lines = tree_lines(graph, short=True)
    for line in lines:
        click.echo(line)
    if not graph.complete:
        say("there are more jobs; --limit shows more of them")


def tree_lines(graph: SequenceGraph, *, short: bool = False) -> list[str]:
    """The root job, under each job what came of it and what it waits for; with short ids or whole
    ones."""
    nodes = {node.job_id: node for node in graph.nodes}
    below: dict[str, list[tuple[EdgeKind, str]]] = defaultdict(list)
    reached: set[str] = set()
    for edge in graph.edges:
        # A blocker is drawn under what waits for it, everything else under what it came from.
        blocks = edge.link is EdgeKind.BLOCKS
        parent, child = (edge.target, edge.source) if blocks else (edge.source, edge.target)
        below[parent].append((edge.link, child))
        reached.add(child)
    for children in below.values():
        children.sort(key=lambda each: each[1])
    drawn: set[str] = set()
    lines: list[str] = []
    first = [graph.root_id] if graph.root_id in nodes else []
    rest = [id for id in nodes if id not in reached and id != graph.root_id]
    for id in [*first, *rest, *nodes]:  # a cycle would otherwise hide what is on it
        if id not in drawn:
            _draw(id, nodes, below, drawn, lines, short=short)
    return lines


def _draw(
    root: str,
    nodes: dict[str, GraphNode],
    below: dict[str, list[tuple[EdgeKind, str]]],
    drawn: set[str],
    lines: list[str],
    *,
    short: bool,
) -> None:
    stack = [(root, "", "")]  # not recursion: sequences may be long
    while stack:
        id, lead, indent = stack.pop()
        node = nodes.get(id)
        shown = harmless(short_id(id) if short else id)
        if node is None:
            lines.append(f"{lead}{shown}  (not shown)")
            continue
        if id in drawn:
            lines.append(f"{lead}{harmless(node.type)}  {shown}  (see above)")
            continue
        drawn.add(id)
        tries = f"  {node.attempts} failed" if node.attempts else ""
        lines.append(f"{lead}{harmless(node.type)}  {in_colour(node.state)}  {shown}{tries}")
        branches = [each for each in below[id] if each[0] is not EdgeKind.CONTINUES]
        steps = [child for link, child in below[id] if link is EdgeKind.CONTINUES]
        # The next step stands below this one, not deeper: a sequence goes straight down.
        stack += [(child, f"{indent}then ", indent) for child in steps]
        for place in range(len(branches) - 1, -1, -1):
            link, child = branches[place]
            last = place == len(branches) - 1
            branch, pipe = ("└─ ", "   ") if last else ("├─ ", "│  ")
            stack.append((child, f"{indent}{branch}{WORDS[link]} ", f"{indent}{pipe}"))
