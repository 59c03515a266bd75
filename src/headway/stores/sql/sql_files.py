"""SQL lives in files named by verb. Comments in it stand for what is replaced.

`/*headway*/` before a table becomes the schema or prefix, `/*match*/` the conditions of a filter.
Lists of `headway.stores.sql.columns`:

- `/*record*/` and `/*claimed*/` become what is selected for a JobRecord and a ClaimedJob;
- `/*new*/`, `/*options*/`, `/*place*/`, `/*moved*/` become the names of the columns;
- `/*new from $6*/` or `/*new from ?5*/` become parameters, from this number on;
- `/*place arrays from $8*/` become parameters that are arrays, `/*place items from 5*/` elements of
  the JSON array `item.value`.

Each `find_` statement has two siblings that select less than the record: `count_` selects the id,
`judge_` the texts as well.
"""

from __future__ import annotations

import re
from importlib.resources import files

import msgspec

from headway.stores.sql.columns import (
    CLAIMED,
    JOB_COLUMNS,
    MOVED,
    NEW,
    OPTIONS,
    PLACE,
    RECORD,
)

_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)
_LESS = {"count_": "j.id", "judge_": "j.id, j.input, j.last_error"}
_LISTS = {"new": NEW, "options": OPTIONS, "place": PLACE, "moved": MOVED}
_LIST = re.compile(rf"/\*({'|'.join(_LISTS)})(?: (arrays |items )?from ([$?]?)(\d+))?\*/")


class SqlMigration(msgspec.Struct, frozen=True):
    version: int
    name: str
    sql: str


def load_statements(package: str, qualifier: str) -> dict[str, str]:
    """All statements of a store by name, ready to be run."""
    folder = files(package) / "statements"
    blockers = (folder / "blockers.expression").read_text().strip()
    match = (folder / "match.conditions").read_text().strip()
    record = ", ".join(blockers if name == "blockers" else f"j.{name}" for name in RECORD)
    record = record.replace("j.sequence_type", "coalesce(j.sequence_type, j.type)")
    claimed = ", ".join(CLAIMED).replace("sequence_type", "coalesce(sequence_type, type)")
    found: dict[str, str] = {}
    for entry in folder.iterdir():
        if not entry.name.endswith(".sql"):
            continue
        name = entry.name.removesuffix(".sql")
        text = _COMMENT.sub("", entry.read_text()).strip()
        text = _LIST.sub(_listed, text.replace("/*match*/", match).replace("/*claimed*/", claimed))
        if name.startswith("find_"):
            for verb, columns in _LESS.items():
                less = text.replace("/*record*/", columns).replace("/*headway*/", qualifier)
                found[name.replace("find_", verb)] = less
        found[name] = text.replace("/*record*/", record).replace("/*headway*/", qualifier)
    return found


def _listed(found: re.Match[str]) -> str:
    name, kind, mark, first = found.groups()
    columns = _LISTS[name]
    if first is None:
        return ", ".join(columns)
    places = range(int(first), int(first) + len(columns))
    if kind == "items ":
        return ", ".join(f"item.value ->> {place}" for place in places)
    if mark == "?":
        return ", ".join(f"?{place}" for place in places)
    array = "[]" if kind else ""
    return ", ".join(
        f"${place}::{JOB_COLUMNS[column]}{array}"
        for place, column in zip(places, columns, strict=True)
    )


def load_migrations(package: str, qualifier: str) -> list[SqlMigration]:
    """All migrations of a store, oldest first; `0001_initial.sql` is version 1."""
    folder = files(package) / "migrations"
    found = [
        SqlMigration(
            int(entry.name[:4]),
            entry.name.removesuffix(".sql"),
            entry.read_text().replace("/*headway*/", qualifier),
        )
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    ]
    return sorted(found, key=lambda migration: migration.version)
