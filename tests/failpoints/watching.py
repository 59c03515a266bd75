"""What the database says, asked from outside: jobs, effects, and every completion that a trigger
wrote down."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.failpoints.shop import Shop

_QUESTIONS = (
    "select id, type, queue, state, sequence_id, position from {job}",
    "select job_id from effect",
    "select id from seen",
)


@dataclass(frozen=True)
class Row:
    id: str
    type: str
    queue: str
    state: str
    sequence_id: str
    step: int


class Findings:
    """All of it at one moment."""

    def __init__(self, jobs: list[Any], effects: list[Any], completions: list[Any]) -> None:
        self.jobs = [
            Row(str(id), type, queue, state, str(sequence_id), step)
            for id, type, queue, state, sequence_id, step in jobs
        ]
        self._effects = Counter(str(row[0]) for row in effects)
        self._completions = Counter(str(row[0]) for row in completions)

    def left(self) -> int:
        return sum(job.state != "completed" for job in self.jobs)

    def check(self, queue: str, scenario: str) -> None:
        """What must be true at any time, whatever was interrupted."""
        jobs = [job for job in self.jobs if job.queue == queue]
        first = one(jobs, f"first_{scenario}")
        following = [job for job in jobs if job.type == f"last_{scenario}"]
        parts = [job for job in jobs if job.type == "part"]
        waiting = one(jobs, "dependent")
        assert len(following) == (first.state == "completed"), (
            "there is a successor exactly if its predecessor completed"
        )
        if scenario == "gathering":
            assert len(parts) == len(following), "a successor comes with its new blockers"
        else:
            assert parts == []
        assert len(jobs) == 2 + len(following) + len(parts)
        ended = bool(following) and following[0].state == "completed"
        assert (waiting.state == "blocked") == (not ended), (
            "a job is freed exactly when its blocker completed"
        )
        for part in parts:
            assert (following[0].state == "blocked") == (part.state != "completed")
        for job in jobs:
            completed = job.state == "completed"
            assert self._completions[job.id] == completed, f"{job} was completed more than once"
            if scenario in ("staged", "atomic") and job.type.endswith(f"_{scenario}"):
                assert self._effects[job.id] == completed, f"{job} and its effect go together"
            else:
                assert self._effects[job.id] == 0
            assert job.state in ("blocked", "pending", "running", "completed")

    def check_ended(self, queue: str, scenario: str) -> None:
        """And what must be true in the end."""
        self.check(queue, scenario)
        states = {job.type: job.state for job in self.jobs if job.queue == queue}
        assert set(states.values()) == {"completed"}, states
        assert f"last_{scenario}" in states


def one(jobs: list[Row], type_: str) -> Row:
    (found,) = [job for job in jobs if job.type == type_]
    return found


class SqliteDatabase:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.dsn = f"sqlite:///{path}"

    async def prepare(self) -> None:
        await Shop(self.dsn).store.migrate()
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.executescript(
                """
                create table effect (job_id text);
                create table seen (id text);
                create trigger note after update on headway_job
                when new.state = 'completed' begin insert into seen values (new.id); end;
                """
            )

    def look(self) -> Findings:
        with closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as connection:
            connection.execute("begin")
            return Findings(
                *(
                    connection.execute(question.format(job="headway_job")).fetchall()
                    for question in _QUESTIONS
                )
            )


class PostgresDatabase:
    def __init__(self, url: str) -> None:
        self.dsn = url

    async def prepare(self) -> None:
        await Shop(self.dsn).store.migrate()
        with psycopg.connect(self.dsn) as connection:
            connection.execute(
                """
                create table effect (job_id uuid);
                create table seen (id uuid);
                create function note() returns trigger language plpgsql as
                $$ begin insert into seen values (new.id); return null; end $$;
                create trigger note after update on headway.job for each row
                when (new.state = 'completed') execute function note();
                """
            )

    def look(self) -> Findings:
        with psycopg.connect(self.dsn) as connection:
            connection.execute("set transaction isolation level repeatable read")
            return Findings(
                *(
                    connection.execute(question.format(job="headway.job").encode()).fetchall()
                    for question in _QUESTIONS
                )
            )


Database = SqliteDatabase | PostgresDatabase
