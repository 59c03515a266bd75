"""Settlement of running jobs, and extension of their leases. The fence is part of each filter.

A completion without waiting jobs, and any other settlement, changes one document: a batch of them
is one command without a transaction. A completion that frees waiting jobs or continues its sequence
changes several documents, in a transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from headway.domain.due_time import After, At
from headway.domain.job import JobState, NewJob
from headway.domain.lease import Held, Verdict, after_refusal, check_lease_for
from headway.domain.lifecycle import judge, judge_lease
from headway.domain.settlement import (
    Complete,
    Fail,
    Freed,
    GiveBack,
    Lose,
    Release,
    Reschedule,
    Retry,
    Settled,
    Settlement,
)
from headway.drivers.mongodb import Document, Try, TryRequest
from headway.errors import JobNotFound, WrongState
from headway.ports.statement import Operation
from headway.stores.mongodb.documents import (
    LARGEST,
    OPEN,
    MongoPart,
    in_parts,
    literal,
    maybe_moment,
    micros,
    moment,
    present,
    sequence_of,
    stamp,
)
from headway.stores.mongodb.insert import insert_jobs
from headway.stores.settlement import (
    CompletionEffects,
    settle_in_batches,
    successors_of,
    with_schedule,
)

MOST = 200
"""Completions in one update; each of them searches its output in a list of that length."""
KEPT = 100
"""Attempts in the history of a job; the size of a document is limited."""


class MongoSettle(MongoPart):
    def extend(
        self,
        held: Sequence[Held],
        lease_for: float,
        *,
        late: bool = False,
        now: datetime | None = None,
    ) -> Operation[list[Verdict]]:
        check_lease_for(lease_for)
        if not held:
            return []
        by_token: dict[str, list[str]] = defaultdict(list)
        for one in dict.fromkeys(held):
            by_token[one.token].append(one.job_id)
        until = {"$add": [present(now), micros(lease_for)]}
        reply = yield self._commands.update(
            [
                {
                    "q": {"_id": {"$in": sorted(ids)}, "state": "running", "token": token}
                    if late
                    else holding({"$in": sorted(ids)}, token, now),
                    "u": [{"$set": {"until": until}}],
                    "multi": True,
                }
                for token, ids in by_token.items()
            ],
            alone=True,
        )
        if reply["n"] == len(set(held)):
            return [Verdict.APPLIED] * len(held)
        ids = [one.job_id for one in held]
        found, at = yield from self._leases(ids, now, after=reply.get("operationTime"))
        # Leases that are still valid have just been extended.
        return [judge_lease(one.token, *_lease(found, one.job_id), at) for one in held]

    def settle(
        self, settlements: Sequence[Settlement], *, now: datetime | None = None
    ) -> Operation[Settled]:
        return settle_in_batches(self._settle_distinct, settlements, now)

    def _settle_distinct(
        self, settlements: Sequence[Settlement], now: datetime | None
    ) -> Operation[Settled]:
        this: Try = yield TryRequest()
        mark = this.mark
        plain: list[Complete] = []
        continued: list[Complete] = []
        others: list[GiveBack] = []
        lost: list[GiveBack] = []
        for settlement in settlements:
            if isinstance(settlement, Lose):
                lost.append(settlement)
            elif not isinstance(settlement, Complete):
                others.append(settlement)
            elif settlement.successor is None:
                plain.append(settlement)
            else:
                continued.append(settlement)
        count, after = 0, None
        if plain or others:
            changes = [
                *_completions(plain, now, mark, alone=True),
                *(_giving_back(change, now, mark) for change in others),
            ]
            reply = yield self._commands.update(changes, alone=True)
            count, after = reply["n"], reply.get("operationTime")
        if lost:
            taken, later = yield from self._lose(lost, now, mark)
            count, after = count + taken, later or after
        simple = [one.job_id for one in (*plain, *others, *lost)]
        applied = set(simple)
        if count < len(simple):
            # A job that another claim has changed since counts as refused.
            found, at = yield from self._leases(simple, now, after=after)
            applied = {id for id in simple if found.get(id, {}).get("mark") == mark}
            continued += [
                one
                for one in plain
                if one.job_id not in applied
                and judge(one, *_lease(found, one.job_id), at) is Verdict.APPLIED
            ]
        freed: list[Freed] = []
        if continued:
            freed = yield from self._complete(continued, now, mark, applied)
        refused = [one.job_id for one in settlements if one.job_id not in applied]
        if not refused:
            return Settled([Verdict.APPLIED] * len(settlements), freed)
        found, at = yield from self._leases(refused, now, after=after)
        verdicts = [
            Verdict.APPLIED
            if one.job_id in applied
            else after_refusal(judge(one, *_lease(found, one.job_id), at))
            for one in settlements
        ]
        return Settled(verdicts, freed)

    def _lose(
        self, lost: Sequence[GiveBack], now: datetime | None, mark: int
    ) -> Operation[tuple[int, Any]]:
        """Settle jobs whose leases have expired; their number, and the operation time. A job that
        its holder is completing in an open transaction does not delay the others."""
        changes = [_giving_back(change, now, mark) for change in lost]
        reply = yield self._commands.update(changes, alone=True, no_wait=True)
        if "blocked" not in reply:
            return reply["n"], reply.get("operationTime")
        after = reply.get("operationTime")
        for change in changes:
            reply = yield self._commands.update([change], alone=True, no_wait=True)
            after = reply.get("operationTime") or after
        return 0, after  # the number is not known: the caller reads the jobs

    def _complete(
        self,
        completions: Sequence[Complete],
        now: datetime | None,
        mark: int,
        applied: set[str],
    ) -> Operation[list[Freed]]:
        """Complete jobs that have a successor, or for which others may wait."""
        changes = _completions(completions, now, mark, alone=False)
        reply = yield self._commands.update(list(changes))
        if not reply["n"]:
            return []
        rows = yield self._commands.find(
            {"_id": {"$in": [done.job_id for done in completions]}, "mark": mark},
            {"sequence_id": 1, "awaited": 1, "schedule": 1, "scheduled_for": 1},
        )
        applied.update(row["_id"] for row in rows)
        return (yield from self._after_completion(rows, successors_of(completions), now))

    def _after_completion(
        self, rows: Sequence[Document], successors: dict[str, NewJob], now: datetime | None
    ) -> Operation[list[Freed]]:
        """Insert the successors and free the waiting jobs, in the transaction of the completion."""
        completed = ((row["_id"], sequence_of(row), row.get("awaited", False)) for row in rows)
        following = {
            row["_id"]: with_schedule(
                successors[row["_id"]], row.get("schedule"), maybe_moment(row.get("scheduled_for"))
            )
            for row in rows
            if row["_id"] in successors
        }
        then = CompletionEffects(completed, following)
        yield from insert_jobs(self._commands, then.following, then.awaited, now)
        if not then.ended:
            return []
        return (yield from self._free(then.ended, now))

    def _free(self, ended: list[str], now: datetime | None) -> Operation[list[Freed]]:
        """These sequences have completed: jobs that waited for them wait for fewer; those that wait
        for none become pending."""
        this: Try = yield TryRequest()
        blockers = {"$in": ended}
        met = {"$filter": {"input": "$blockers", "cond": {"$in": ["$$this", literal(ended)]}}}
        free = {"$and": [{"$eq": ["$state", "blocked"]}, {"$lte": ["$waiting", 0]}]}
        due = {"$max": ["$run_at", present(now)]}
        yield self._commands.update(
            [
                {
                    "q": {"blockers": blockers, "waiting": {"$gt": 0}},
                    "u": [
                        {
                            "$set": {
                                "waiting": {"$subtract": ["$waiting", {"$size": met}]},
                                "mark": this.mark,
                            }
                        },
                        {
                            "$set": {
                                "state": {"$cond": [free, "pending", "$state"]},
                                "run_at": {"$cond": [free, due, "$run_at"]},
                            }
                        },
                    ],
                    "multi": True,
                }
            ]
        )
        rows = yield self._commands.find(
            {"blockers": blockers, "mark": this.mark, "state": "pending"},
            {"type": 1, "queue": 1, "run_at": 1},
            sort={"_id": 1},
        )
        return [Freed(row["_id"], row["type"], row["queue"], moment(row["run_at"])) for row in rows]

    def complete_without_lease(
        self,
        job_id: str,
        output: str | None,
        successor: NewJob | None,
        *,
        now: datetime | None = None,
    ) -> Operation[list[Freed]]:
        gone = ["token", "until", "waiting", "worker"]
        change: Document = {
            "state": "completed",
            "output": literal(output),
            "finished_at": present(now),
        }
        if successor is not None:
            change["continued"] = True
            gone.append("tail")
        reply = yield self._commands.update(
            [
                {
                    "q": {"_id": job_id, "state": {"$in": OPEN}},
                    "u": [{"$set": change}, {"$unset": gone}],
                }
            ]
        )
        rows: list[Document] = yield self._commands.find(
            {"_id": job_id},
            {"sequence_id": 1, "awaited": 1, "schedule": 1, "scheduled_for": 1, "state": 1},
        )
        if not rows:
            raise JobNotFound(job_id)
        if not reply["n"]:
            wanted = "only a job that has not ended can complete"
            raise WrongState(job_id, rows[0]["state"], wanted)
        successors = {} if successor is None else {job_id: successor}
        return (yield from self._after_completion(rows, successors, now))

    def _leases(
        self, ids: Sequence[str], now: datetime | None, *, after: Any = None
    ) -> Operation[tuple[dict[str, Document], datetime]]:
        """State, lease and mark of the jobs, and the store's time. Read `after` the operation time
        of a refused update they show the reason for the refusal."""
        documents: list[Document] = yield self._commands.aggregate(
            {"$match": {"_id": {"$in": list(ids)}}},
            {"$project": {"state": 1, "token": 1, "until": 1, "mark": 1, "now": present(now)}},
            after=after,
        )
        at = documents[0]["now"] if documents else 0
        return {document["_id"]: document for document in documents}, moment(at)


def holding(id: Any, token: str, now: datetime | None) -> Document:
    """The fence: the job with this valid lease."""
    return {"_id": id, "token": token, "$expr": {"$gt": ["$until", present(now)]}}


def _completions(
    completions: Iterable[Complete], now: datetime | None, mark: int, *, alone: bool
) -> Iterator[Document]:
    """Updates that complete jobs, one for all jobs of a claim. With `alone` they leave out jobs
    that others wait for."""
    alike: dict[tuple[str, bool], list[Complete]] = defaultdict(list)
    for done in completions:
        alike[done.token, done.successor is not None].append(done)
    for (token, is_continued), group in alike.items():
        for part in in_parts(group, _weight, most=MOST, largest=LARGEST // 2):
            which = holding({"$in": [done.job_id for done in part]}, token, now)
            if alone:
                which["awaited"] = {"$ne": True}
            change: Document = {
                "state": "completed",
                "output": _output(part),
                "finished_at": present(now),
                "mark": mark,
            }
            gone = ["token", "until"]
            if is_continued:
                change["continued"] = True
                gone.append("tail")
            yield {"q": which, "u": [{"$set": change}, {"$unset": gone}], "multi": True}


def _weight(done: Complete) -> int:
    return len(done.output or "")


def _output(completions: Sequence[Complete]) -> Document:
    """The output of each job, as an expression."""
    outputs = [done.output for done in completions]
    if len(set(outputs)) == 1:
        return literal(outputs[0])
    place = {"$indexOfArray": [literal([done.job_id for done in completions]), "$_id"]}
    return {"$arrayElemAt": [literal(outputs), place]}


def _giving_back(change: GiveBack, now: datetime | None, mark: int) -> Document:
    """The update for any settlement except a completion."""
    which = holding(change.job_id, change.token, now)
    new: Document = {"state": "pending", "mark": mark}
    match change:
        case Retry():
            new["run_at"] = {"$add": [present(now), micros(change.delay)]}
            new |= _failed(change.error, now)
        case Fail():
            new |= _dead(change.fingerprint, now)
            new |= _failed(change.error, now)
        case Release():
            pass
        case Reschedule():
            new |= {"run_at": _due(change.schedule, now), "losses": 0}
        case Lose():
            which["$expr"] = {"$lte": ["$until", present(now)]}
            new |= _remembered("lost", change.error, now)
            if change.charged:
                new["losses"] = {"$add": ["$losses", 1]}
            new["run_at"] = "$created_at"
            if change.dead:
                new |= _dead(change.fingerprint, now)
    return {"q": which, "u": [{"$set": new}, {"$unset": ["token", "until"]}]}


def _dead(fingerprint: str | None, now: datetime | None) -> Document:
    dead: Document = {"state": "failed", "finished_at": present(now)}
    if fingerprint is not None:
        dead["fingerprint"] = literal(fingerprint)
    return dead


def _failed(error: str, now: datetime | None) -> Document:
    charged: Document = {"attempts": {"$add": ["$attempts", 1]}, "losses": 0}
    return charged | _remembered("failed", error, now)


def _remembered(outcome: str, error: str, now: datetime | None) -> Document:
    entry: Document = {
        "version": "$version",
        "outcome": outcome,
        "worker": "$worker",
        "started_at": "$started_at",
        "finished_at": present(now),
        "error": literal(error),
    }
    before: Document = {"$ifNull": ["$history", literal([])]}
    history = {"$concatArrays": [before, [entry]]}
    return {"last_error": literal(error), "history": {"$slice": [history, -KEPT]}}


def _due(schedule: At | After, now: datetime | None) -> Document:
    match schedule:
        case At(at):
            return {"$max": [stamp(at), present(now)]}
        case After():
            return {"$add": [present(now), micros(schedule.seconds)]}


def _lease(
    found: dict[str, Document], job_id: str
) -> tuple[JobState | None, str | None, datetime | None]:
    """State, token and expiry of a job; all None if it does not exist."""
    document = found.get(job_id)
    if document is None:
        return None, None, None
    return (
        JobState(document["state"]),
        document.get("token"),
        maybe_moment(document.get("until")),
    )
