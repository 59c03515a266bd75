"""Prints how the source tree is laid out: a report to look at, not a gate.

Sizes and names are read from the source. The files that a start and a job pass are recorded by a
profiler during a real run on PostgreSQL: `make house`, or `make house ARGS=--no-run` without it.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import headway
from tests.support.servers.postgres import PostgresServer

SOURCE = Path(__file__).parents[1] / "src" / "headway"
ACTION = "trigger"
"""The action of operators whose files are counted."""
MOST = 6
"""Lines of each ranking that are shown."""


def modules() -> dict[Path, ast.Module]:
    return {
        path.relative_to(SOURCE): ast.parse(path.read_text("utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def show(title: str, count: object, details: list[str] | None = None) -> None:
    print(f"{title:<58} {count}")
    for line in details or []:
        print(f"    {line}")


def ranking(counts: Counter[str]) -> list[str]:
    return [f"{count:>5}  {name}" for name, count in counts.most_common(MOST)]


def repeated(places: dict[str, list[str]]) -> list[str]:
    return [
        f"{name}: {', '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1
    ]


def report_source(trees: dict[Path, ast.Module]) -> None:
    sizes = Counter(str(path.parent) for path in trees if path.name != "__init__.py")
    show("modules in the largest package", max(sizes.values()), ranking(sizes))
    endings = [str(path) for path in trees if path.stem.endswith("ing") and path.stem != "testing"]
    show("modules named with -ing", f"{len(endings)} of {len(trees)}")
    basenames: dict[str, list[str]] = defaultdict(list)
    for path in trees:
        if not path.stem.startswith("__"):
            basenames[path.stem].append(str(path.parent))
    again = repeated(basenames)
    show("basenames that occur more than once", len(again), again)
    classes: dict[str, list[str]] = defaultdict(list)
    parameters: Counter[str] = Counter()
    overloads = 0
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(str(path))
            if isinstance(node, ast.ClassDef):
                for function in node.body:
                    if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                        parameters[f"{path}: {node.name}"] = len(function.args.args) - 1
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                overloads += any(ast.unparse(each) == "overload" for each in node.decorator_list)
    again = repeated(classes)
    show("class names that occur more than once", len(again), again)
    most = max(parameters.values())
    show("most positional parameters of a constructor", most, ranking(parameters))
    show("@overload", overloads)
    lengths = Counter(
        {str(path): len((SOURCE / path).read_text("utf-8").splitlines()) for path in trees}
    )
    show("lines in src", lengths.total())
    show("lines of the longest module", max(lengths.values()), ranking(lengths))


def identifiers(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.Attribute(attr=name) | ast.Name(id=name):
                yield name
            case _:
                pass


def report_action(trees: dict[Path, ast.Module]) -> None:
    """A file has a part in the action if one of its identifiers, or its own name, has its word."""
    word = re.compile(rf"(?:^|_){ACTION}(?:$|_|s$|ed$)|^{ACTION}[A-Z]", re.IGNORECASE)
    files = [
        str(path)
        for path, tree in trees.items()
        if path.parts[0] != "testing"
        and (word.search(path.stem) or any(map(word.search, identifiers(tree))))
    ]
    files += [str(path.relative_to(SOURCE)) for path in SOURCE.rglob(f"*{ACTION}*.sql")]
    show(f"files with a part in the action `{ACTION}`", len(files), [" ".join(files)])


@contextmanager
def recorded(files: list[str]) -> Iterator[None]:
    """Note the files of the package whose functions this thread calls, in order."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(f"{SOURCE}/"):
            relative = name.removeprefix(f"{SOURCE}/")
            if relative not in files:
                files.append(relative)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


async def walks(dsn: str) -> tuple[list[str], list[str]]:
    """The files that a start passes, and those that a job passes from its claim to its end."""
    app = headway.Headway(dsn, migrate=True)

    @app.job
    async def add(left: int, right: int) -> int:
        return left + right

    start: list[str] = []
    job: list[str] = []
    async with app:
        for _ in range(2):  # the first start makes plans and connections
            await app.start(add.request(1, 2))
        with recorded(start):
            await app.start(add.request(1, 2))
        worker = app.worker()
        await worker.run(drain=True)
        start_in_thread, request = app.sync.start, add.request(1, 2)
        await asyncio.to_thread(start_in_thread, request)
        await worker.start()
        with recorded(job):  # the client is in another thread, which is not recorded
            sequence = await asyncio.to_thread(start_in_thread, request)
            await asyncio.to_thread(sequence.result, timeout=30)
        await worker.stop()
    return start, job


def report_walks() -> None:
    with PostgresServer() as server:
        start, job = asyncio.run(walks(server.url(server.create_database())))
    show("files that app.start passes, PostgreSQL", len(start), [" ".join(start)])
    show("files that a job passes from its claim to its end", len(job), [" ".join(job)])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--no-run", action="store_true", help="read the source only")
    arguments = parser.parse_args()
    trees = modules()
    report_source(trees)
    report_action(trees)
    show("public names of headway", len(headway.__all__))
    if not arguments.no_run:
        report_walks()


if __name__ == "__main__":
    main()
