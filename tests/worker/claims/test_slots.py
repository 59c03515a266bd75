"""How much of which queue is asked for, and what is started next."""

from __future__ import annotations

from datetime import UTC, datetime

from headway.domain.job import ClaimedJob
from headway.domain.lease import Lease
from headway.worker.attempt import Attempt
from headway.worker.claims.slots import MOST_AHEAD, Slots
from headway.worker.settings import WorkQueue

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def attempt(slots: Slots, queue: str, number: int = 0, claimed_at: float = 0.0) -> Attempt:
    claimed = ClaimedJob(
        id=f"{queue} {number}",
        type="work",
        queue=queue,
        priority=0,
        input="{}",
        run_at=NOW,
        created_at=NOW,
        attempts=0,
        losses=0,
        max_attempts=None,
        max_losses=5,
        timeout=None,
        lease=Lease("token", 1, NOW),
        sequence_id="s",
        sequence_type="work",
        root_id="s",
        origin_id=None,
        position=0,
        has_blockers=False,
        trace=None,
    )
    return Attempt(claimed, None, slots[queue], claimed_at, 30.0, "worker")


def make(*queues: WorkQueue, concurrency: int = 10, horizon: float = 0.05) -> Slots:
    return Slots(queues, concurrency, horizon, random=lambda: 0.5)


def asked(slots: Slots, most: int = 250) -> tuple[dict[str, int], int]:
    shares, limit = slots.shares(most)
    return {share.name: share.limit for share in shares}, limit


def test_free_slots_are_asked_for() -> None:
    slots = make(WorkQueue("a"), WorkQueue("b"))
    assert asked(slots) == ({"a": 10, "b": 10}, 10)
    assert asked(slots, most=4) == ({"a": 4, "b": 4}, 4)


def test_a_queue_is_asked_for_no_more_than_its_limit() -> None:
    slots = make(WorkQueue("a", limit=3), WorkQueue("b"))
    assert asked(slots) == ({"a": 3, "b": 10}, 10)
    for number in range(3):
        slots.put(attempt(slots, "a", number))
        assert slots.take() is not None
    assert asked(slots) == ({"b": 7}, 7)


def test_nothing_is_asked_for_when_all_slots_are_taken() -> None:
    slots = make(WorkQueue("a"), concurrency=1)
    running = attempt(slots, "a")
    slots.put(running)
    assert asked(slots) == ({}, 0)
    assert slots.take() is running
    assert asked(slots) == ({}, 0)
    slots.ended(running)
    assert asked(slots) == ({"a": 1}, 1)


def test_the_next_to_start_comes_from_the_first_queue_with_room() -> None:
    slots = make(WorkQueue("a", limit=1), WorkQueue("b"), concurrency=3)
    for queue in ("b", "a", "a"):
        slots.put(attempt(slots, queue))
    taken = [slots.take(), slots.take(), slots.take()]
    assert [each and each.claimed.queue for each in taken] == ["a", "b", None]
    assert slots.waiting == 1
    assert taken[0] is not None
    slots.ended(taken[0])
    assert slots.take() is not None


def test_stock_is_kept_of_queues_whose_jobs_start_fast_only() -> None:
    slots = make(WorkQueue("fast"), WorkQueue("slow"))
    slots.measure(0.0)
    for second in range(1, 11):
        slots["fast"].started = 2_000
        slots["slow"].started = 5
        slots.measure(float(second))
    assert slots["fast"].ahead == 100
    assert slots["slow"].ahead == 0
    assert asked(slots) == ({"fast": 110, "slow": 10}, 110)
    slots.measure(12.0)
    assert slots["fast"].ahead == 0, "nothing was started for a while"


def test_stock_is_bounded_and_refilled_when_half_of_it_is_used() -> None:
    slots = make(WorkQueue("a"))
    slots.measure(0.0)
    slots["a"].started = 1_000_000
    slots.measure(1.0)
    assert slots["a"].ahead == MOST_AHEAD
    for number in range(MOST_AHEAD // 2 + 1):
        slots.put(attempt(slots, "a", number))
    assert asked(slots) == ({}, 0)
    assert slots.take() is not None
    assert asked(slots)[1] == 250


def test_without_a_horizon_nothing_is_claimed_ahead() -> None:
    slots = make(WorkQueue("a"), horizon=0)
    for second in range(3):
        slots["a"].started = 100_000
        slots.measure(float(second))
    assert slots["a"].ahead == 0


def test_weights_shuffle_the_order() -> None:
    answers = iter([0.1, 0.9, 0.9, 0.1])
    slots = Slots(
        [WorkQueue("a", weight=1), WorkQueue("b", weight=1)], 10, 0, random=lambda: next(answers)
    )
    assert [share.name for share in slots.shares(10)[0]] == ["b", "a"]
    assert [share.name for share in slots.shares(10)[0]] == ["a", "b"]


def test_a_full_stock_of_one_queue_does_not_hold_up_another() -> None:
    slots = make(WorkQueue("slow", limit=1), WorkQueue("fast"), concurrency=5)
    for number in range(50):
        slots.put(attempt(slots, "slow", number))
    assert slots.take() is not None
    assert slots.take() is None
    assert asked(slots) == ({"fast": 4}, 4)


def test_with_weights_what_was_claimed_first_starts_first() -> None:
    slots = make(WorkQueue("a", weight=1), WorkQueue("b", weight=1))
    slots.put(attempt(slots, "a", claimed_at=2.0))
    slots.put(attempt(slots, "b", claimed_at=1.0))
    taken = [slots.take(), slots.take()]
    assert [each and each.claimed.queue for each in taken] == ["b", "a"]


def test_waiting_ones_can_be_taken_out_again() -> None:
    slots = make(WorkQueue("a"), WorkQueue("b"))
    old, new = attempt(slots, "a", 1, claimed_at=1.0), attempt(slots, "b", 2, claimed_at=9.0)
    slots.put(old)
    slots.put(new)
    assert slots.oldest() == 1.0
    assert slots.remove(lambda each: each.claimed_at < 5) == [old]
    assert (slots.waiting, slots.oldest()) == (1, 9.0)
    assert slots.take() is new
    assert slots.oldest() is None


def test_jobs_that_can_be_started_at_once() -> None:
    slots = Slots([WorkQueue("a", limit=2), WorkQueue("b")], concurrency=4, horizon=1.0)
    assert (slots.can_start("a"), slots.can_start("b")) == (2, 4)
    slots.put(attempt(slots, "a"))
    assert (slots.can_start("a"), slots.can_start("b")) == (1, 3)
    assert slots.take() is not None
    assert (slots.can_start("a"), slots.can_start("b")) == (1, 3)
    for number in range(4):
        slots.put(attempt(slots, "b", number))
    assert (slots.can_start("a"), slots.can_start("b")) == (0, 0)


def test_nothing_is_claimed_ahead_while_a_queue_that_comes_before_needs_a_slot() -> None:
    slots = Slots([WorkQueue(name) for name in "abc"], concurrency=2, horizon=1.0)
    for name in "abc":
        slots[name].ahead = 10
    slots["b"].needs_slot = True
    shares, limit = slots.shares(1000)
    assert [(share.name, share.limit) for share in shares] == [("a", 12), ("b", 2), ("c", 2)]
    assert limit == 12
    weighted = [WorkQueue(name, weight=1.0) for name in "abc"]
    slots = Slots(weighted, concurrency=2, horizon=1.0, random=lambda: 0.5)
    for name in "abc":
        slots[name].ahead = 10
    slots["b"].needs_slot = True
    assert {share.limit for share in slots.shares(1000)[0]} == {2}
