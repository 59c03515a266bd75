"""Bugs to plant into the MongoDB store: its fence is one query, made in several places, and each of
them can lose the token or the expiry; other changes can lose the state that they ask for; schedules
can be handed out without a lock, or to those who may not fire them; limits of queues can be
overlooked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from msgspec.structs import replace

from headway.domain.job import JobState
from headway.domain.settlement import Lose
from headway.domain.views import JobAction
from headway.drivers.mongodb import Command
from headway.ports.statement import Operation
from headway.stores.mongodb import audit, claim, limits, manage, schedules, settle

HOLDS: dict[str, Any] = {"token": {"$type": "string"}, "$expr": True}
"""What takes the place of a condition that goes missing: true of every job that runs."""
KINDS = {"token": "token", "$expr": "expiry"}
PLACES = {
    "extend": settle,
    "_completions": settle,
    "_giving_back": settle,
    "save_progress": audit,
}


def _without(place: str, key: str) -> Callable[[], None]:
    def plant() -> None:
        sound = settle.holding

        def holding(id: Any, token: str, now: Any) -> dict[str, Any]:
            which = sound(id, token, now)
            if _is_asked_by(place):
                which[key] = HOLDS[key]
            return which

        vars(PLACES[place])["holding"] = holding

    return plant


def _is_asked_by(place: str) -> bool:
    """Whether `place` made the query: itself, or a comprehension in it."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_name.startswith("<"):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == place


def _plain_without(key: str) -> Callable[[], None]:
    """Only where nobody waits for the job and nothing continues it, which has a way of its own."""

    def plant() -> None:
        sound = settle._completions

        def completions(done: Any, now: Any, mark: int, *, alone: bool) -> Iterator[dict[str, Any]]:
            for change in sound(done, now, mark, alone=alone):
                if alone:
                    change["q"][key] = HOLDS[key]
                yield change

        settle._completions = completions

    return plant


def unguarded_reaper() -> None:
    sound = settle._giving_back

    def giving_back(change: Any, now: Any, mark: int) -> dict[str, Any]:
        made = sound(change, now, mark)
        if isinstance(change, Lose):
            made["q"]["$expr"] = True
        return made

    settle._giving_back = giving_back


def _losses(careless: Callable[[Any, dict[str, Any]], None]) -> Callable[[], None]:
    """What a change does to the losses of a job goes wrong."""

    def plant() -> None:
        sound = settle._giving_back

        def giving_back(change: Any, now: Any, mark: int) -> dict[str, Any]:
            made = sound(change, now, mark)
            careless(change, made["u"][0]["$set"])
            return made

        settle._giving_back = giving_back

    return plant


def _never_set_back(change: Any, new: dict[str, Any]) -> None:
    if not isinstance(change, Lose):
        new.pop("losses", None)


def _always_charged(change: Any, new: dict[str, Any]) -> None:
    if isinstance(change, Lose):
        new["losses"] = {"$add": ["$losses", 1]}


def claims_whatever_was_lost() -> None:
    sound = claim.MongoClaim._due

    def due(self: Any, queue: str, order: Any, now: Any) -> dict[str, Any]:
        return sound(self, queue, replace(order, most_losses=None), now)

    claim.MongoClaim._due = due


def claims_what_others_have_claimed() -> None:
    sound = claim.MongoClaim._taking

    def taking(self: Any, ids: Any, order: Any, now: Any) -> Command:
        command = sound(self, ids, order, now)
        del command.body["updates"][0]["q"]["state"]
        return command

    claim.MongoClaim._taking = taking


def _taken_before_without(key: str) -> Callable[[], None]:
    def plant() -> None:
        sound = claim.MongoClaim._taken_before

        def taken_before(self: Any, order: Any, now: Any) -> Operation[Any]:
            taking = sound(self, order, now)
            command = next(taking)
            try:
                while True:
                    body = command.body
                    which = body["updates"][0]["q"] if "updates" in body else body["filter"]
                    which[key] = HOLDS[key]
                    command = taking.send((yield command))
            except StopIteration as taken:
                return taken.value

        claim.MongoClaim._taken_before = taken_before

    return plant


def _whatever_the_state(action: JobAction) -> Callable[[], None]:
    def plant() -> None:
        manage.ALLOWED = {**manage.ALLOWED, action: tuple(JobState)}

    return plant


def _schedules(verb: str, careless: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
    return _verb(schedules.MongoSchedules, verb, careless)


def _limits(verb: str, careless: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
    return _verb(limits.MongoLimits, verb, careless)


def _verb(part: type, verb: str, careless: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
    """The commands of a verb go wrong."""

    def plant() -> None:
        sound = getattr(part, verb)

        @wraps(sound)
        def changed(self: Any, *args: Any, **options: Any) -> Operation[Any]:
            running = sound(self, *args, **options)
            try:
                asked = next(running)
                while True:
                    if hasattr(asked, "body"):
                        careless(asked.body)
                    asked = running.send((yield asked))
            except StopIteration as ended:
                return ended.value

        setattr(part, verb, changed)

    return plant


def _unlocked(body: dict[str, Any]) -> None:
    for change in body.get("updates", ()):
        change["q"] = {"_id": {"$in": []}}


def _unlocked_queue(body: dict[str, Any]) -> None:
    if "findAndModify" in body:
        body["update"] = {"$setOnInsert": {"locks": 1}}


def _whatever_the_limits(body: dict[str, Any]) -> None:
    for stage in body.get("pipeline", ()):
        look = stage.get("$lookup", {})
        if look.get("as") == "managed":
            look["pipeline"][0]["$match"]["$or"].remove({"limited": True})


def _asking_without(key: str) -> Callable[[dict[str, Any]], None]:
    def careless(body: dict[str, Any]) -> None:
        (stage, *_) = body.get("pipeline", ({},))
        which = body.get("filter", stage.get("$match", {}))
        if key in which:
            del which[key]
            body.pop("hint", None)

    return careless


def _all_runs(body: dict[str, Any]) -> None:
    for change in body["updates"]:
        del change["u"]["$push"]["history"]["$slice"]


def tries_the_same_schedules_again() -> None:
    def begin(self: Any) -> None:
        self._attempted = None

    schedules.LockSearch.begin = begin


SEEN_BY_CONFORMANCE: dict[str, Callable[[], None]] = {
    **{
        f"mongodb: {place.strip('_')} without the {KINDS[key]}": _without(place, key)
        for place in PLACES
        for key in HOLDS
    },
    **{
        f"mongodb: plain completions without the {KINDS[key]}": _plain_without(key) for key in HOLDS
    },
    **{
        f"mongodb: what a claim had taken before without the {KINDS[key]}": _taken_before_without(
            key
        )
        for key in HOLDS
    },
    "mongodb: losing jobs without the expiry": unguarded_reaper,
    "mongodb: losses are never set back": _losses(_never_set_back),
    "mongodb: every lease that runs out is charged": _losses(_always_charged),
    "mongodb: claiming whatever was lost": claims_whatever_was_lost,
    "mongodb: claiming without the state": claims_what_others_have_claimed,
    "mongodb: cancelling without the state": _whatever_the_state(JobAction.CANCEL),
    "mongodb: retrying without the state": _whatever_the_state(JobAction.RETRY),
    "mongodb: triggering without the state": _whatever_the_state(JobAction.TRIGGER),
    "mongodb: a queue without its lock": _limits("queue_state", _unlocked_queue),
    "mongodb: claiming whatever the limits": _limits("claim", _whatever_the_limits),
    "mongodb: running jobs of all queues": _limits("running_keys", _asking_without("queue")),
    "mongodb: due schedules without the lock": _schedules("due_schedules", _unlocked),
    "mongodb: reading schedules to change them without the lock": _schedules(
        "schedules", _unlocked
    ),
    "mongodb: firing before the time": _schedules("due_schedules", _asking_without("$expr")),
    "mongodb: firing what others declare": _schedules("due_schedules", _asking_without("$or")),
    "mongodb: firing what is paused": _schedules("due_schedules", _asking_without("paused_at")),
    "mongodb: firing whatever has ended": _schedules(
        "due_schedules", _asking_without("waiting_tick")
    ),
    "mongodb: waiting for what others declare": _schedules("next_schedule", _asking_without("$or")),
    "mongodb: waiting for what is paused": _schedules(
        "next_schedule", _asking_without("paused_at")
    ),
    "mongodb: all runs of a schedule are kept": _schedules("advance_schedules", _all_runs),
    "mongodb: locked schedules are tried again": tries_the_same_schedules_again,
}
