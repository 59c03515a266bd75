"""The columns of a job, declared once. Select lists, parameters and records follow from them.

A new column of a job touches:

- the migrations of SQLite and PostgreSQL;
- `JOB_COLUMNS` here, and one of the groups `OPTIONS` and `PLACE` if new jobs bring a value for it
  (after another one in `PLACE`, complete_continued.sql numbers its other parameters anew);
- `headway.domain.job`: JobRecord, NewJob if new jobs bring it, ClaimedJob if handlers need it;
- the rows of the memory store and the documents of the MongoDB store.

Statements refer to the lists by the names in `headway.stores.sql.sql_files`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, structs

from headway.domain.job import ClaimedJob, JobRecord, JobState
from headway.domain.lease import Lease
from headway.ports.statement import Row
from headway.ports.transfer import MovedJob

RecordReader = Callable[[Row, Callable[[Any], datetime], Callable[[Any], Any]], JobRecord]
ClaimReader = Callable[[Iterable[Row], str, Mapping[Any, datetime | None]], list[ClaimedJob]]

JOB_COLUMNS = {
    "id": "uuid",
    "sequence_id": "uuid",
    "root_id": "uuid",
    "origin_id": "uuid",
    "lease_token": "uuid",
    "run_at": "timestamptz",
    "created_at": "timestamptz",
    "started_at": "timestamptz",
    "finished_at": "timestamptz",
    "lease_until": "timestamptz",
    "timeout": "float8",
    "position": "int",
    "attempts": "int",
    "losses": "int",
    "max_attempts": "int",
    "max_losses": "int",
    "lease_version": "int",
    "waiting": "int",
    "priority": "smallint",
    "has_blockers": "bool",
    "awaited": "bool",
    "state": "text",
    "type": "text",
    "queue": "text",
    "sequence_type": "text",
    "worker": "text",
    "dedup_key": "text",
    "trace": "text",
    "last_error": "text",
    "fingerprint": "text",
    "input": "text",
    "output": "text",
    "schedule": "text",
    "scheduled_for": "timestamptz",
    "key": "text",
}
"""The columns of the table `job` and their PostgreSQL types."""


def _columns_of(struct: type[Struct], *lease: str) -> tuple[str, ...]:
    """The columns that the fields of a struct are read from; those of its lease are given."""
    found: list[str] = []
    for field in struct.__struct_fields__:
        found += lease if field == "lease" else (field,)
    return tuple(found)


RECORD = _columns_of(JobRecord, "lease_token", "lease_until")
"""Columns of a JobRecord. `blockers` is no column but a subquery."""
CLAIMED = _columns_of(ClaimedJob, "lease_version", "lease_until")
"""Columns of a ClaimedJob."""
MOVED = tuple(name for name in JOB_COLUMNS if name not in ("lease_token", "lease_until"))
"""Columns of a job that moves to another store."""
OPTIONS = ("type", "queue", "priority", "max_attempts", "max_losses", "timeout", "dedup_key")
"""Columns of a new job whose values many jobs share."""
PLACE = ("sequence_type", "origin_id", "position", "trace")
"""Columns of a new job that depend on its sequence, besides `sequence_id` and `root_id`."""
NEW = (*OPTIONS, *PLACE, "state", "waiting", "has_blockers", "awaited")
"""Columns of a new job, besides id, input, key, sequence_id, root_id and times."""

_OF_A_NEW_JOB = {
    "sequence_type": "None if job.sequence_type == job.type else job.sequence_type",
    "state": "'blocked' if waiting else 'pending'",
    "waiting": "waiting",
    "has_blockers": "bool(job.blockers)",
    "awaited": "awaited",
}
"""Values that are not attributes of a NewJob."""


def _values(parameters: str, *columns: str) -> Callable[..., tuple[Any, ...]]:
    """A function from a NewJob to the values of these columns. Compiled, as are the constructors of
    dataclasses, so that a job costs no loop over its columns."""
    names = parameters.split(", ")
    values = [name if name in names else _OF_A_NEW_JOB.get(name, f"job.{name}") for name in columns]
    read: Callable[..., tuple[Any, ...]] = eval(f"lambda {parameters}: ({', '.join(values)})")
    return read


TEMPLATE = ("at", "delay", "sequence_id", "root_id", *NEW)
"""Parameters of `insert` that the jobs of one statement share."""
template_of = _values("job, at, delay, waiting, awaited", *TEMPLATE)
shared_values = _values("job, at, delay", "at", "delay", *OPTIONS)
"""Parameters that jobs which continue sequences can share."""
own_values = _values("job", "id", "input", "sequence_id", "root_id", "key", *PLACE)
"""Parameters that each job which continues a sequence has for itself."""


def moved_values(moved: MovedJob, stamp: Callable[[datetime | None], Any]) -> tuple[Any, ...]:
    """The values of MOVED."""
    values = structs.asdict(moved.job)
    values |= {"waiting": moved.waiting, "has_blockers": bool(moved.job.blockers)}
    return tuple(
        stamp(values[name]) if JOB_COLUMNS[name] == "timestamptz" else values[name]
        for name in MOVED
    )


def _arguments(struct: type[Struct], values: Mapping[str, str]) -> str:
    return ", ".join(f"{field}={values[field]}" for field in struct.__struct_fields__)


def _record_reader() -> RecordReader:
    """Makes a record from a row; `time` and `ids` are the dialect's."""
    by_type = {
        "uuid": "None if {0} is None else str({0})",
        "timestamptz": "None if {0} is None else time({0})",
        "bool": "bool({0})",
    }
    at = {name: f"row[{position}]" for position, name in enumerate(RECORD)}
    values = {
        name: by_type.get(JOB_COLUMNS.get(name, ""), "{0}").format(value)
        for name, value in at.items()
    }
    values["state"] = f"JobState({at['state']})"
    values["fingerprint"] = f"{at['fingerprint']} or None"
    values["blockers"] = f"() if {at['blockers']} is None else ids({at['blockers']})"
    token, version, until = at["lease_token"], at["lease_version"], at["lease_until"]
    values["lease"] = f"None if {token} is None else Lease(str({token}), {version}, time({until}))"
    source = f"lambda row, time, ids: JobRecord({_arguments(JobRecord, values)})"
    names = {"JobRecord": JobRecord, "JobState": JobState, "Lease": Lease}
    read: RecordReader = eval(source, names)
    return read


read_record = _record_reader()


def claim_reader(time: str = "{0}", flag: str = "{0}") -> ClaimReader:
    """Makes claimed jobs from rows, the token of the claim and `times`; the templates say how the
    values of times and booleans are read."""
    by_type = {"timestamptz": time, "bool": flag}
    values = {
        name: by_type.get(JOB_COLUMNS[name], "{0}").format(f"row[{position}]")
        for position, name in enumerate(CLAIMED)
    }
    values["lease"] = f"Lease(token, {values['lease_version']}, {values['lease_until']})"
    made = f"ClaimedJob({_arguments(ClaimedJob, values)})"
    source = f"lambda rows, token, times: [{made} for row in rows]"
    read: ClaimReader = eval(source, {"ClaimedJob": ClaimedJob, "Lease": Lease})
    return read


def with_text_ids(rows: Sequence[Row]) -> list[list[Any]]:
    """Rows of CLAIMED whose ids are text: drivers other than the store's own give UUIDs."""
    ids = [place for place, name in enumerate(CLAIMED) if JOB_COLUMNS[name] == "uuid"]
    changed = [list(row) for row in rows]
    for row in changed:
        for place in ids:
            row[place] = None if row[place] is None else str(row[place])
    return changed
