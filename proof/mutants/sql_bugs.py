"""Bugs to plant into the statements of the SQL stores: each of them loses, one at a time, its
comparisons of a token or an expiry, what it asks of a job's state before it changes, locks or
deletes the job, and what decides about the losses of a job. On PostgreSQL deletions also lose
their locks, and the look at who waits that follows them. Statements about schedules lose what
selects the schedules that a worker may fire, and their locks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from headway.domain.settlement import Lose
from headway.stores.sql import settle
from headway.stores.sql import sql_files as statements

FENCE = re.compile(r"^\s+and (.*\blease_(?:token|until)\b.*)$", re.MULTILINE)
GUARD = re.compile(
    r"\b(?:where|and|when)\s+((?:\w+\.)?state (?:= '(?:pending|blocked)'|in \([^)]*\)))"
)
LOSSES = re.compile(
    r"^\s+(?:and|when) (\(.*\blosses <= .*\)|change\.outcome (?:=|in) .*?)(?: then \S.*)?$",
    re.MULTILINE,
)
FIRED = re.compile(
    r"\b(?:where|and) (paused_at is null|waiting_tick is not null|next_at <= .+|name (?:=|in) .+"
    r"|\(declaration is null or .+\))"
)
FIRING = ("due_schedules", "waiting_schedules", "next_schedule", "save_worker")
"""Statements that select the schedules that a worker may fire."""
SCHEDULES: dict[str, dict[str, tuple[tuple[str, str], ...]]] = {
    "postgres": {
        "due_schedules": (("for update skip locked", ""),),
        "waiting_schedules": (("for update skip locked", ""),),
        "schedules_locked": (("for update", ""),),
        "insert_scheduled": (("greatest(u.run_at, given.now)", "coalesce(u.run_at, given.now)"),),
        "advance_schedules": (
            ("coalesce(u.tick, s.last_tick)", "u.tick"),
            ("s.fired + u.fired", "u.fired"),
        ),
    },
    "sqlite": {
        "insert_scheduled": (
            ("max(coalesce(item.value ->> 8, ?2), ?2)", "coalesce(item.value ->> 8, ?2)"),
        ),
        "advance_schedules": (
            ("coalesce(item.value ->> 3, s.last_tick)", "item.value ->> 3"),
            ("s.fired + (item.value ->> 6)", "item.value ->> 6"),
        ),
    },
}
"""Locks of schedules and what keeps their values, and what is there instead."""
CHANGES = re.compile(r"\b(?:update|delete from) /\*headway\*/job\b|\bfor update\b")
LOCKED_AND_CHECKED = {"complete_without_lease"}
"""Here the state was compared before, under the lock that is still held."""
DELETIONS_LOCK = {
    "deletable": "for update",
    "prunable": "for update of j skip locked",
    "current_locked": "for update",
}
"""Statements by which deletions lock what they are to delete, and how."""


def seen_by_conformance(store: str) -> dict[str, Callable[[], None]]:
    found: dict[str, Callable[[], None]] = {}
    whole = statements.whole_statements(f"headway.stores.{store}")
    for statement, text in sorted(whole.items()):
        conditions = [match[1] for match in FENCE.finditer(text)]
        losses = [match[1] for match in LOSSES.finditer(text)]
        conditions += losses
        if CHANGES.search(text) and statement not in LOCKED_AND_CHECKED:
            conditions += [match[1] for match in GUARD.finditer(text)]
        for condition in dict.fromkeys(conditions):
            name = f"{store}: {statement}.sql without `{condition}`"
            found[name] = _without(store, statement, condition)
        for condition in losses:
            name = f"{store}: {statement}.sql never with `{condition}`"
            found[name] = _without(store, statement, condition, "and false")
    for statement in FIRING:
        for condition in dict.fromkeys(match[1] for match in FIRED.finditer(whole[statement])):
            name = f"{store}: {statement}.sql without `{condition}`"
            found[name] = _without(store, statement, condition)
    for statement, changes in SCHEDULES[store].items():
        for text, instead in changes:
            found[f"{store}: {statement}.sql without `{text}`"] = changed(
                store, statement, text, instead
            )
    found[f"{store}: every lease that runs out is charged"] = every_lease_is_charged
    if store == "postgres":
        for statement, lock in DELETIONS_LOCK.items():
            found[f"{store}: {statement}.sql without `{lock}`"] = changed(
                store, statement, lock, ""
            )
        found[f"{store}: delete_sequences.sql without a look at who waits"] = changed(
            store, "delete_sequences", "not exists (", "true or exists ("
        )
        found[f"{store}: delete_sequences.sql without a look at what follows"] = changed(
            store, "delete_sequences", "ended.sequence_id) = ended.id", "ended.id) is not null"
        )
    return found


def every_lease_is_charged() -> None:
    sound = settle.SqlSettle._change

    def change(self: Any, change: Any) -> tuple[Any, ...]:
        return sound(self, replace(change, charged=True) if isinstance(change, Lose) else change)

    settle.SqlSettle._change = change


def _without(
    store: str, statement: str, condition: str, instead: str = "or true"
) -> Callable[[], None]:
    """The statement as it would be without the condition; its parameters are bound as before."""
    return changed(store, statement, condition, f"({condition} {instead})")


def changed(store: str, statement: str, text: str, instead: str) -> Callable[[], None]:
    def plant() -> None:
        load = statements.load_statements

        def damaged(package: str, qualifier: str) -> dict[str, str]:
            found = load(package, qualifier)
            if package == f"headway.stores.{store}":
                sound = found[statement]
                found[statement] = sound.replace(text, instead)
                if found[statement] == sound:
                    raise RuntimeError(f"{text!r} is not in {statement}")
            return found

        module = __import__(f"headway.stores.{store}.dialect", fromlist=["load_statements"])
        module.load_statements = damaged

    return plant
