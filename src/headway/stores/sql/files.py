"""SQL lives in files named by verb. They stay valid SQL: what is replaced stands in comments.

`/*headway*/` before a table becomes the schema or prefix, `/*record*/` the columns of a job,
`/*match*/` the conditions of a filter. Each `find_` statement has two siblings that give less than
the record: `count_` gives the id, `judge_` the texts as well.
"""

from __future__ import annotations

import re
from importlib.resources import files

import msgspec

_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)
_LESS = {"count_": "j.id", "judge_": "j.id, j.input, j.last_error"}


class Migration(msgspec.Struct, frozen=True):
    version: int
    name: str
    sql: str


def load_statements(package: str, qualifier: str) -> dict[str, str]:
    """All statements of a store by name, ready to be run."""
    folder = files(package) / "statements"
    record = (folder / "record.columns").read_text().strip()
    match = (folder / "match.conditions").read_text().strip()
    found: dict[str, str] = {}
    for entry in folder.iterdir():
        if not entry.name.endswith(".sql"):
            continue
        name = entry.name.removesuffix(".sql")
        text = _COMMENT.sub("", entry.read_text()).strip().replace("/*match*/", match)
        if name.startswith("find_"):
            for verb, columns in _LESS.items():
                less = text.replace("/*record*/", columns).replace("/*headway*/", qualifier)
                found[name.replace("find_", verb)] = less
        found[name] = text.replace("/*record*/", record).replace("/*headway*/", qualifier)
    return found


def load_migrations(package: str, qualifier: str) -> list[Migration]:
    """All migrations of a store, oldest first; `0001_initial.sql` is version 1."""
    folder = files(package) / "migrations"
    found = [
        Migration(
            int(entry.name[:4]),
            entry.name.removesuffix(".sql"),
            entry.read_text().replace("/*headway*/", qualifier),
        )
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    ]
    return sorted(found, key=lambda migration: migration.version)
