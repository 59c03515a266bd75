"""Bugs to plant into the statements of the SQL stores: each of them loses, one at a time, its
comparisons of a token or an expiry, and what it asks of a job's state before it changes or deletes
the job."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files

from headway.stores.sql import files as statements

FENCE = re.compile(r"^\s+and (.*\blease_(?:token|until)\b.*)$", re.MULTILINE)
GUARD = re.compile(
    r"\b(?:where|and|when)\s+((?:\w+\.)?state (?:= '(?:pending|blocked)'|in \([^)]*\)))"
)
CHANGES = re.compile(r"\b(?:update|delete from) /\*headway\*/job\b")
LOCKED_AND_CHECKED = {"finish.sql"}
"""Here the state was compared before, under the lock that is still held."""


def seen_by_conformance(store: str) -> dict[str, Callable[[], None]]:
    found: dict[str, Callable[[], None]] = {}
    for entry in sorted(
        (files(f"headway.stores.{store}") / "statements").iterdir(), key=lambda each: each.name
    ):
        if not entry.name.endswith(".sql"):
            continue
        text = entry.read_text()
        conditions = [match[1] for match in FENCE.finditer(text)]
        if CHANGES.search(text) and entry.name not in LOCKED_AND_CHECKED:
            conditions += [match[1] for match in GUARD.finditer(text)]
        for condition in dict.fromkeys(conditions):
            name = f"{store}: {entry.name} without `{condition}`"
            found[name] = _without(store, entry.name.removesuffix(".sql"), condition)
    return found


def _without(store: str, statement: str, condition: str) -> Callable[[], None]:
    """The statement as it would be without the condition; its parameters are bound as before."""

    def plant() -> None:
        load = statements.load_statements

        def damaged(package: str, qualifier: str) -> dict[str, str]:
            found = load(package, qualifier)
            if package == f"headway.stores.{store}":
                sound = found[statement]
                found[statement] = sound.replace(condition, f"({condition} or true)")
                if found[statement] == sound:
                    raise RuntimeError(f"{condition!r} is not in {statement}")
            return found

        module = __import__(f"headway.stores.{store}.operations", fromlist=["load_statements"])
        module.load_statements = damaged

    return plant
