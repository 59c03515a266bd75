"""How much of which queue is asked for, and what is started next."""

from __future__ import annotations

from datetime import UTC, datetime

from headway.domain.job import ClaimedJob
from headway.domain.lease import Lease
from headway.worker.attempt import Execution
from headway.worker.settings import WorkQueue
from headway.worker.slots import MOST_AHEAD, Lanes

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def execution(lanes: Lanes, queue: str, number: int = 0, claimed_at: float = 0.0) -> Execution:
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
    return Execution(claimed, None, lanes[queue], claimed_at, 30.0, "worker")


def make(*queues: WorkQueue, concurrency: int = 10, horizon: float = 0.05) -> Lanes:
    return Lanes(queues, concurrency, horizon, random=lambda: 0.5)


def asked(lanes: Lanes, most: int = 250) -> tuple[dict[str, int], int]:
    shares, limit = lanes.shares(most)
    return {share.name: share.limit for share in shares}, limit


def test_free_slots_are_asked_for() -> None:
    lanes = make(WorkQueue("a"), WorkQueue("b"))
    assert asked(lanes) == ({"a": 10, "b": 10}, 10)
    assert asked(lanes, most=4) == ({"a": 4, "b": 4}, 4)


def test_a_queue_is_asked_for_no_more_than_its_limit() -> None:
    lanes = make(WorkQueue("a", limit=3), WorkQueue("b"))
    assert asked(lanes) == ({"a": 3, "b": 10}, 10)
    for number in range(3):
        lanes.put(execution(lanes, "a", number))
        assert lanes.take() is not None
    assert asked(lanes) == ({"b": 7}, 7)


def test_nothing_is_asked_for_when_all_slots_are_taken() -> None:
    lanes = make(WorkQueue("a"), concurrency=1)
    running = execution(lanes, "a")
    lanes.put(running)
    assert asked(lanes) == ({}, 0)
    assert lanes.take() is running
    assert asked(lanes) == ({}, 0)
    lanes.ended(running)
    assert asked(lanes) == ({"a": 1}, 1)


def test_the_next_to_start_comes_from_the_first_queue_with_room() -> None:
    lanes = make(WorkQueue("a", limit=1), WorkQueue("b"), concurrency=3)
    for queue in ("b", "a", "a"):
        lanes.put(execution(lanes, queue))
    taken = [lanes.take(), lanes.take(), lanes.take()]
    assert [each and each.claimed.queue for each in taken] == ["a", "b", None]
    assert lanes.waiting == 1
    assert taken[0] is not None
    lanes.ended(taken[0])
    assert lanes.take() is not None


def test_stock_is_kept_of_queues_whose_jobs_start_fast_only() -> None:
    lanes = make(WorkQueue("fast"), WorkQueue("slow"))
    lanes.measure(0.0)
    for second in range(1, 11):
        lanes["fast"].started = 2_000
        lanes["slow"].started = 5
        lanes.measure(float(second))
    assert lanes["fast"].ahead == 100
    assert lanes["slow"].ahead == 0
    assert asked(lanes) == ({"fast": 110, "slow": 10}, 110)
    lanes.measure(12.0)
    assert lanes["fast"].ahead == 0, "nothing was started for a while"


def test_stock_is_bounded_and_refilled_when_half_of_it_is_used() -> None:
    lanes = make(WorkQueue("a"))
    lanes.measure(0.0)
    lanes["a"].started = 1_000_000
    lanes.measure(1.0)
    assert lanes["a"].ahead == MOST_AHEAD
    for number in range(MOST_AHEAD // 2 + 1):
        lanes.put(execution(lanes, "a", number))
    assert asked(lanes) == ({}, 0)
    assert lanes.take() is not None
    assert asked(lanes)[1] == 250


def test_without_a_horizon_nothing_is_claimed_ahead() -> None:
    lanes = make(WorkQueue("a"), horizon=0)
    for second in range(3):
        lanes["a"].started = 100_000
        lanes.measure(float(second))
    assert lanes["a"].ahead == 0


def test_weights_shuffle_the_order() -> None:
    answers = iter([0.1, 0.9, 0.9, 0.1])
    lanes = Lanes(
        [WorkQueue("a", weight=1), WorkQueue("b", weight=1)], 10, 0, random=lambda: next(answers)
    )
    assert [share.name for share in lanes.shares(10)[0]] == ["b", "a"]
    assert [share.name for share in lanes.shares(10)[0]] == ["a", "b"]


def test_a_full_stock_of_one_queue_does_not_hold_up_another() -> None:
    lanes = make(WorkQueue("slow", limit=1), WorkQueue("fast"), concurrency=5)
    for number in range(50):
        lanes.put(execution(lanes, "slow", number))
    assert lanes.take() is not None
    assert lanes.take() is None
    assert asked(lanes) == ({"fast": 4}, 4)


def test_with_weights_what_was_claimed_first_starts_first() -> None:
    lanes = make(WorkQueue("a", weight=1), WorkQueue("b", weight=1))
    lanes.put(execution(lanes, "a", claimed_at=2.0))
    lanes.put(execution(lanes, "b", claimed_at=1.0))
    taken = [lanes.take(), lanes.take()]
    assert [each and each.claimed.queue for each in taken] == ["b", "a"]


def test_waiting_ones_can_be_taken_out_again() -> None:
    lanes = make(WorkQueue("a"), WorkQueue("b"))
    old, new = execution(lanes, "a", 1, claimed_at=1.0), execution(lanes, "b", 2, claimed_at=9.0)
    lanes.put(old)
    lanes.put(new)
    assert lanes.oldest() == 1.0
    assert lanes.remove(lambda each: each.claimed_at < 5) == [old]
    assert (lanes.waiting, lanes.oldest()) == (1, 9.0)
    assert lanes.take() is new
    assert lanes.oldest() is None
