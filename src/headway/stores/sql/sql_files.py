"""SQL lives in files named by verb. Comments in it stand for what is replaced.

`/*headway*/` before a table becomes the schema or prefix. The name of a file becomes its text:
`/*match*/` that of `match.conditions`, `/*current*/` that of `current.sql`; files that are no
statements do not end in `.sql`. Lists of `headway.stores.sql.columns`:

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
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.resources import files

import msgspec

from headway.domain.filters import JobText
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
_LESS = {"count_": "j.id", "judge_": ", ".join(f"j.{name}" for name in JobText._fields)}
_LISTS = {"new": NEW, "options": OPTIONS, "place": PLACE, "moved": MOVED}
_LIST = re.compile(rf"/\*({'|'.join(_LISTS)})(?: (arrays |items )?from ([$?]?)(\d+))?\*/")


class SqlMigration(msgspec.Struct, frozen=True):
    version: int
    name: str
    sql: str


def load_statements(package: str, qualifier: str) -> dict[str, str]:
    """All statements of a store by name, ready to be run."""
    blockers = (files(package) / "statements" / "blockers.expression").read_text().strip()
    record = ", ".join(blockers if name == "blockers" else f"j.{name}" for name in RECORD)
    record = record.replace("j.sequence_type", "coalesce(j.sequence_type, j.type)")
    claimed = ", ".join(CLAIMED).replace("sequence_type", "coalesce(sequence_type, type)")
    found: dict[str, str] = {}
    for name, whole in whole_statements(package).items():
        text = _LIST.sub(_listed, whole.replace("/*claimed*/", claimed))
        if name.startswith("find_"):
            for verb, columns in _LESS.items():
                less = text.replace("/*record*/", columns).replace("/*headway*/", qualifier)
                found[name.replace("find_", verb)] = less
        found[name] = text.replace("/*record*/", record).replace("/*headway*/", qualifier)
    return found


@cache
def whole_statements(package: str) -> Mapping[str, str]:
    """The statements of a store by name, each with the text of the files that it names."""
    texts: dict[str, str] = {}
    statements: list[str] = []
    for entry in (files(package) / "statements").iterdir():
        name, _, ending = entry.name.partition(".")
        texts[name] = _COMMENT.sub("", entry.read_text()).strip()
        if ending == "sql":
            statements.append(name)
    named = re.compile(rf"/\*({'|'.join(texts)})\*/")

    def whole(text: str) -> str:
        return named.sub(lambda found: whole(texts[found[1]]), text)

    return {name: whole(texts[name]) for name in statements}


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


def migration_script(
    begin: str, migrations: Iterable[SqlMigration], record: Callable[[SqlMigration], str]
) -> str:
    """These steps as SQL, to be applied by hand; `record` says that a step is applied."""
    steps = [f"-- {each.name}\n{each.sql}\n{record(each)}" for each in migrations]
    return "\n".join([begin, *steps, "commit;", ""])


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
