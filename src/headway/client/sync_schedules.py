# Made from schedules.py by scripts/make_sync.py: change that, then run `make sync`.
"""SyncSchedules at run time without an event loop: `app.sync.schedules`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, ParamSpec, TypeVar, Unpack

from headway.after_commit.observer_group import Observers
from headway.after_commit.publisher import Publisher
from headway.client.sync_client import SyncClient, SyncSequence
from headway.client.sync_store_calls import SyncStoreCalls
from headway.domain.queries import check_page
from headway.domain.request import Request
from headway.domain.schedules.schedule import ScheduleRecord, ScheduleRun
from headway.domain.schedules.timetable import Timetable
from headway.domain.validation import check_name, check_whole
from headway.errors import ScheduleNotFound
from headway.jobs.schedule_definition import ScheduleOptions, define_schedule
from headway.ports.clock import Clock
from headway.ports.statement import Operation
from headway.ports.store import Store
from headway.schedules import changes

P = ParamSpec("P")
T = TypeVar("T")


class SyncSchedules(SyncStoreCalls):
    """Safe to use from any number of threads. With `tx`, in the caller's transaction."""

    def __init__(
        self,
        store: Store,
        client: SyncClient,
        *,
        declared: Collection[str],
        observers: Observers,
        clock: Clock,
        publisher: Publisher,
    ) -> None:
        """`declared` are the names of the schedules that this code declares."""
        super().__init__(store, observers=observers, clock=clock, publisher=publisher)
        self._client = client
        self._declared = declared

    def put(
        self,
        name: str,
        timetable: Timetable,
        request: Request[Any],
        /,
        *,
        tx: Any = None,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleRecord:
        """Store a schedule, or change the one of this name. The first tick is the next one from
        now; with the same timetable the next tick stays. A paused schedule stays paused. Raises
        InvalidRequest if the schedule is declared in code."""
        check_name("schedule name", name)
        definition = define_schedule(name, timetable, request, {**options}, "app.schedules.put")
        if name in self._declared:  # a worker that starts later could not store it
            raise changes.declared_in_code(name)
        now = self._clock.now()
        record, effects = self._run(tx, changes.put, self._store, name, definition, now)
        self._tell(tx, effects)
        return record

    def _run(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        try:
            return super()._run(tx, operation, *args, **kwargs)
        except ScheduleNotFound as error:
            if error.name in self._declared:
                raise ScheduleNotFound(error.name, declared=True) from None
            raise

    def get(self, name: str, *, tx: Any = None) -> ScheduleRecord:
        """A schedule as it is now. Raises ScheduleNotFound."""
        return self._run(tx, changes.read_schedule, self._store, _name(name))

    def list(
        self, *, after: str | None = None, limit: int = 1_000, tx: Any = None
    ) -> builtins.list[ScheduleRecord]:
        """SyncSchedules by name, at most `limit`; `after` is the last name of the page before."""
        check_whole("limit", limit)
        check_page(None, limit, "schedules")
        if after:
            _name(after)
        return self._run(tx, self._store.list_schedules, after=after, limit=limit)

    def runs(self, name: str, *, tx: Any = None) -> builtins.list[ScheduleRun]:
        """The last 50 ticks of a schedule, newest first: started, or skipped and why. Raises
        ScheduleNotFound."""
        return self._run(tx, changes.read_runs, self._store, _name(name))

    def pause(self, name: str, *, tx: Any = None) -> ScheduleRecord:
        """Start no jobs until `resume`; pausing twice is fine. Deploys leave it paused."""
        now = self._clock.now()
        record, effects = self._run(tx, changes.pause, self._store, _name(name), now)
        self._tell(tx, effects)
        return record

    def resume(self, name: str, *, tx: Any = None) -> ScheduleRecord:
        """Undo `pause`. Ticks that passed meanwhile are not caught up; see `backfill`."""
        now = self._clock.now()
        record, effects = self._run(tx, changes.resume, self._store, _name(name), now)
        self._tell(tx, effects)
        return record

    def trigger(self, name: str, *, tx: Any = None) -> SyncSequence[Any]:
        """Start the schedule's job now, besides its ticks, whatever its overlap. A paused schedule
        can be triggered, too. Later ticks look at this run if no other one was running."""
        watched, now = self._publisher.watched, self._clock.now()
        id, effects = self._run(tx, changes.trigger, self._store, _name(name), now, watched=watched)
        self._tell(tx, effects)
        return self._client.sequence(id)

    def backfill(
        self,
        name: str,
        since: datetime,
        until: datetime | None = None,
        *,
        at_most: int | None = None,
        tx: Any = None,
    ) -> builtins.list[SyncSequence[Any]]:
        """Start a job for each tick from `since` to `until` (now), oldest first. A tick whose job
        is stored starts no other: its sequence is `deduplicated`. At most 10,000 ticks; `at_most`
        takes the first ones only."""
        if at_most is not None:
            check_whole("at_most", at_most)
        watched, now = self._publisher.watched, self._clock.now()
        stored, effects = self._run(
            tx,
            changes.backfill,
            self._store,
            _name(name),
            since,
            until,
            at_most,
            now,
            watched=watched,
        )
        self._tell(tx, effects)
        return [
            SyncSequence(self._client, answer.id, None, deduplicated=answer.deduplicated)
            for answer in stored
        ]

    def delete(self, name: str, *, tx: Any = None) -> None:
        """Delete a schedule; jobs that it started stay. A declared schedule can be deleted when no
        running worker declares it any more."""
        self._run(tx, changes.delete, self._store, _name(name), self._clock.now())


def _name(name: str) -> str:
    return check_name("schedule name", name)
