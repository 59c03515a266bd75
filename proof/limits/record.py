"""The record of permits: triggers in the database note every start and end of a running job, and
every change of a queue's limits. Played back, it shows whether a limit was ever exceeded.

A claim holds its queue's lock from its count to its commit. So the order of the notes is that in
which claims saw one another, and a start that exceeds a limit shows without fail.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg

from proof.tools.databases import Database

POSTGRES = """
create table permit (
    seq bigserial, at double precision, what text, queue text, key text, id text, version int,
    worker text, started double precision, limits text, held double precision, held_keys text
);
create function note_permit() returns trigger language plpgsql as $$
begin
    insert into public.permit (at, what, queue, key, id, version, worker, started) values (
        extract(epoch from clock_timestamp()),
        case when new.state = 'running' then 'start' else 'end' end,
        new.queue, new.key, new.id, new.lease_version, new.worker,
        extract(epoch from new.started_at)
    );
    return null;
end $$;
create function note_limits() returns trigger language plpgsql as $$
begin
    insert into public.permit (at, what, queue, limits, held, held_keys) values (
        extract(epoch from clock_timestamp()), 'limits', new.name, new.limits,
        extract(epoch from new.held_until), new.held_keys
    );
    return null;
end $$;
create trigger note_permit after update on headway.job for each row
when ((old.state = 'running') <> (new.state = 'running')) execute function note_permit();
create trigger note_new_limits after insert on headway.queue for each row
execute function note_limits();
create trigger note_limits after update on headway.queue for each row
when ((old.limits, old.held_until, old.held_keys)
    is distinct from (new.limits, new.held_until, new.held_keys))
execute function note_limits();
"""
SQLITE = """
create table permit (
    seq integer primary key, at double precision, what text, queue text, key text, id text,
    version int, worker text, started double precision, limits text, held double precision,
    held_keys text
);
create trigger note_permit after update on headway_job
when (old.state = 'running') <> (new.state = 'running')
begin
    insert into permit (at, what, queue, key, id, version, worker, started) values (
        (julianday('now') - 2440587.5) * 86400.0,
        case when new.state = 'running' then 'start' else 'end' end,
        new.queue, new.key, new.id, new.lease_version, new.worker, new.started_at / 1e6
    );
end;
create trigger note_limits after update on headway_queue
when old.limits is not new.limits or old.held_until is not new.held_until
    or old.held_keys is not new.held_keys
begin
    insert into permit (at, what, queue, limits, held, held_keys) values (
        (julianday('now') - 2440587.5) * 86400.0, 'limits', new.name, new.limits,
        new.held_until / 1e6, new.held_keys
    );
end;
create trigger note_new_limits after insert on headway_queue
begin
    insert into permit (at, what, queue, limits, held, held_keys) values (
        (julianday('now') - 2440587.5) * 86400.0, 'limits', new.name, new.limits,
        new.held_until / 1e6, new.held_keys
    );
end;
"""
COLUMNS = "at, what, queue, key, id, version, worker, started, limits, held, held_keys"
ENDS_FIRST = "case what when 'end' then 0 when 'limits' then 1 else 2 end"
SMALLEST = 1e-4
"""Seconds by which moments may differ because they are kept as floating-point numbers."""


@dataclass(frozen=True, slots=True)
class Note:
    at: float
    what: str
    """start, end, limits"""
    queue: str
    key: str | None = None
    id: str | None = None
    version: int | None = None
    worker: str | None = None
    started: float | None = None
    limits: str | None = None
    held: float | None = None
    held_keys: str | None = None


def watch(database: Database) -> None:
    """Create the record's table and triggers."""
    if database.kind == "postgres":
        with psycopg.connect(database.dsn) as connection:
            connection.execute(POSTGRES)
        return
    with closing(sqlite3.connect(database.dsn.removeprefix("sqlite:///"))) as file, file:
        file.executescript(SQLITE)


def read(database: Database) -> Iterator[Note]:
    """The notes in their order. SQLite has one writer, so there the order is that of writing."""
    if database.kind == "postgres":
        with psycopg.connect(database.dsn) as connection, connection.cursor("notes") as cursor:
            cursor.itersize = 10_000
            cursor.execute(f"select {COLUMNS} from permit order by at, {ENDS_FIRST}, seq".encode())
            for row in cursor:
                yield Note(*row)
    else:
        for row in database.ask(f"select {COLUMNS} from permit order by seq"):
            yield Note(*row)


def effective(limits: str | None) -> dict[str, Any]:
    """The limits that hold: as declared, but for those that an operator has set."""
    if limits is None:
        return {}
    stored = json.loads(limits)
    return {**stored.get("declared", {}), **(stored.get("override") or {})}


@dataclass
class Queue:
    """One queue while the record is played back."""

    limits: dict[str, Any] = field(default_factory=dict[str, Any])
    held: float = 0.0
    held_keys: dict[str, float] = field(default_factory=dict[str, float])
    running: dict[tuple[str, int], Note] = field(default_factory=dict[tuple[str, int], Note])
    keys: Counter[str | None] = field(default_factory=Counter[str | None])
    starts: deque[float] = field(default_factory=deque[float])
    """Within the window of the rate, since the rate was changed."""
    freed: deque[float] = field(default_factory=deque[float])
    """Ends of jobs that had the last permits, until another job was started."""


@dataclass
class Playback:
    """What the record shows."""

    killed: dict[str, float] = field(default_factory=dict[str, float])
    """When a worker was killed."""
    calm_until: float = float("inf")
    """Handovers are measured until then."""
    violations: list[str] = field(default_factory=list[str])
    most: dict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))
    starts: Counter[str] = field(default_factory=Counter[str])
    ends: list[float] = field(default_factory=list[float])
    handovers: dict[str, list[float]] = field(
        default_factory=lambda: defaultdict[str, list[float]](list)
    )
    """Seconds from the end of a job of a full queue to the next start there."""
    recoveries: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """When a worker was killed, and how long its permits stayed in use."""
    changes: int = 0
    """Changes of limits."""
    highest: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """The highest cap that ever held, by queue and limit."""

    def play(self, notes: Iterable[Note], each: Callable[[Note], None] = lambda _: None) -> None:
        queues: dict[str, Queue] = defaultdict(Queue)
        for note in notes:
            queue = queues[note.queue]
            match note.what:
                case "limits":
                    self._change(queue, note)
                case "start":
                    self._start(queue, note)
                case _:
                    self._end(queue, note)
            each(note)
        for name, queue in queues.items():
            if queue.running:
                self.violations.append(f"{name}: {len(queue.running)} jobs are still running")

    def _change(self, queue: Queue, note: Note) -> None:
        limits = effective(note.limits)
        if limits != queue.limits:
            self.changes += 1
            queue.freed.clear()
        if limits.get("rate") != queue.limits.get("rate"):
            queue.starts.clear()
        queue.limits = limits
        for limit in ("running", "per_key"):
            if (cap := limits.get(limit)) is not None:
                self.highest[note.queue, limit] = max(self.highest[note.queue, limit], cap)
        queue.held = note.held or 0.0
        held = json.loads(note.held_keys or "{}")
        queue.held_keys = {key: datetime.fromisoformat(at).timestamp() for key, at in held.items()}

    def _start(self, queue: Queue, note: Note) -> None:
        assert note.id is not None
        assert note.version is not None
        assert note.started is not None
        queue.running[note.id, note.version] = note
        queue.keys[note.key] += 1
        self.starts[note.queue] += 1
        self.most[note.queue] = max(self.most[note.queue], len(queue.running))
        cap, per_key, rate = (queue.limits.get(name) for name in ("running", "per_key", "rate"))
        if cap is not None and len(queue.running) > cap:
            self._violated(note, f"{len(queue.running)} of {cap} run")
        if per_key is not None and note.key is not None and queue.keys[note.key] > per_key:
            self._violated(note, f"{queue.keys[note.key]} of {per_key} run")
        if queue.held - SMALLEST > note.started:
            self._violated(note, f"held for {queue.held - note.started:.3f} s more")
        until = queue.held_keys.get(note.key or "", 0.0)
        if until - SMALLEST > note.started:
            self._violated(note, f"its key is held for {until - note.started:.3f} s more")
        if rate is not None:
            queue.starts.append(note.started)
            while queue.starts[0] <= note.started - rate["per"]:
                queue.starts.popleft()
            if len(queue.starts) > rate["limit"]:
                self._violated(note, f"{len(queue.starts)} starts in {rate['per']} s")
        if queue.freed and note.at < self.calm_until:
            self.handovers[note.queue].append(note.at - queue.freed.popleft())

    def _end(self, queue: Queue, note: Note) -> None:
        assert note.id is not None
        assert note.version is not None
        begun = queue.running.pop((note.id, note.version), None)
        if begun is None:
            self._violated(note, "ended without having been started")
            return
        self.ends.append(note.at)
        queue.keys[begun.key] -= 1
        if len(queue.running) + 1 == queue.limits.get("running"):
            queue.freed.append(note.at)
        killed = self.killed.get(begun.worker or "")
        if killed is not None and begun.at <= killed < note.at:
            self.recoveries.append((killed, note.at - killed))

    def _violated(self, note: Note, what: str) -> None:
        self.violations.append(f"{note.queue}, key {note.key}, at {note.at:.6f}: {what}")
