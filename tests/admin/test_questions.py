"""What operators are told, on every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headway import After, Headway, Job
from headway.domain.failure import encode_failure
from headway.domain.filters import parse_filter
from headway.domain.job import NewJob
from headway.domain.orders import ProgressReport
from headway.domain.queries import JobFilter, WorkerRecord
from headway.domain.views import Count, EdgeKind, Reason, ShownState
from headway.errors import Failure, InvalidOption, JobNotFound
from headway.jobs.ids import new_id
from headway.ports.admin import Questions
from tests.support.shop import Shop

ERROR = encode_failure(Failure("Declined", "order 7"))


def counts(states: dict[ShownState, Count]) -> dict[str, int]:
    return {str(state): counted.value for state, counted in states.items() if counted.value}


async def beat(shop: Shop, **fields: object) -> None:
    """A worker that lives."""
    given = {
        "id": "anna:1",
        "host": "anna",
        "pid": 1,
        "queues": ("default", "money"),
        "types": tuple(shop.app.registry.handlers()),
        "concurrency": 2,
        "running": 0,
        "started_at": datetime.now(UTC),
        "seen_at": datetime.now(UTC),
    }
    store = shop.app.store
    await store.run(store.save_worker, WorkerRecord(**given | fields))  # type: ignore[arg-type]


def test_an_app_answers_questions() -> None:
    app = Headway("memory://")
    insight: Questions = app.questions
    assert insight is app.questions


async def test_an_overview_of_nothing(shop: Shop) -> None:
    overview = await shop.app.questions.overview()
    assert overview.store == shop.app.store.name
    assert overview.states == dict.fromkeys(ShownState, Count(0))
    assert len(overview.throughput) == 60
    assert all(bucket.completed == bucket.failed == 0 for bucket in overview.throughput)
    assert (overview.waited, overview.ran, overview.oldest_waiting) == (None, None, None)
    assert (overview.per_second, overview.time_to_drain, overview.workers) == (0.0, 0.0, 0)


async def test_an_overview(shop: Shop) -> None:
    app = shop.app
    await app.start_many([shop.charge.request(n) for n in range(6)])
    await shop.work("null")
    await app.start(shop.charge.request(7))
    await shop.fail(ERROR)
    await app.start(shop.charge.request(8))
    await app.start(shop.charge.request(9), schedule=After(hours=1))
    await beat(shop)
    overview = await app.questions.overview(minutes=5)
    assert counts(overview.states) == {"completed": 6, "failed": 1, "pending": 1, "scheduled": 1}
    assert all(counted.exact for counted in overview.states.values())
    assert overview.bucket_seconds == 5.0
    times = [bucket.at for bucket in overview.throughput]
    assert times == [times[0] + timedelta(seconds=5 * place) for place in range(60)]
    assert times[-1] + timedelta(seconds=5) == overview.at
    assert sum(bucket.completed for bucket in overview.throughput) == 6
    assert sum(bucket.failed for bucket in overview.throughput) == 1
    assert overview.per_second == pytest.approx(6 / 60)
    assert overview.waited is not None
    assert overview.ran is not None
    assert overview.waited.samples == overview.ran.samples == 6
    assert 0 <= overview.ran.p50 <= overview.ran.p95 <= overview.ran.p99 < 60
    assert overview.oldest_waiting is not None
    assert 0 <= overview.oldest_waiting < 60
    assert overview.time_to_drain == pytest.approx(10.0)  # one, at six a minute
    assert overview.workers == 1
    with pytest.raises(InvalidOption):
        await app.questions.overview(minutes=0)


async def test_queues_that_hold_jobs_were_paused_or_are_worked_on(shop: Shop) -> None:
    app = shop.app
    await app.start(shop.charge.request(1))
    await app.pause("mail")
    await beat(shop, queues=("default", "other"))
    queues = {queue.name: queue for queue in await app.questions.queues()}
    assert list(queues) == ["default", "mail", "money", "other"]
    assert counts(queues["money"].states) == {"pending": 1}
    assert queues["money"].oldest_waiting is not None
    assert queues["mail"].paused_at is not None
    assert queues["money"].paused_at is None
    assert [queue.workers for queue in queues.values()] == [1, 0, 0, 1]


async def test_types(shop: Shop) -> None:
    app = shop.app
    await app.start(shop.charge.request(1))
    await app.store.run(
        app.store.insert, [NewJob(id=new_id(), type="forgotten", input="{}", queue="money")]
    )
    await beat(shop, types=("charge", "elsewhere"))
    types = {each.name: each for each in await app.questions.types()}
    assert types["charge"].implemented
    assert types["elsewhere"].implemented
    assert not types["forgotten"].implemented
    assert not types["ship"].implemented
    assert counts(types["forgotten"].states) == {"pending": 1}
    assert counts(types["ship"].states) == {}


async def test_jobs_and_their_number(shop: Shop) -> None:
    app = shop.app
    sequences = await app.start_many([shop.charge.request(n, cents=5) for n in range(5)])
    which = parse_filter("type:charge args.order_id:3")
    page = await app.questions.jobs(which)
    assert [job.id for job in page.jobs] == [sequences[3].id]
    assert await app.questions.count(which) == Count(1)
    assert await app.questions.count(JobFilter()) == Count(5)
    assert await app.questions.count(parse_filter("args.cents:5"), at_most=4) == Count(4, False)
    for at_most in (0, 1_000_000):
        with pytest.raises(InvalidOption):
            await app.questions.count(which, at_most=at_most)


async def test_a_job_with_everything_about_it(shop: Shop) -> None:
    app, store = shop.app, shop.app.store
    waiting = await app.start(
        shop.ship.request(7).using(blockers=(shop.charge.request(7, cents=1),))
    )
    (blocker_id,) = (await app.get(waiting)).blockers
    detail = await app.questions.job(waiting.id)
    assert detail.shown is ShownState.BLOCKED
    (view,) = detail.blockers
    assert (view.sequence_id, view.job_id) == (blocker_id, blocker_id)
    assert (view.type, view.state) == ("charge", ShownState.PENDING)
    assert detail.explanation.reason is Reason.BLOCKED
    (claimed,) = await shop.claim("money")
    said = ProgressReport(claimed.id, claimed.lease.token, 0.4, "charging")
    await store.run(store.save_progress, [said])
    detail = await app.questions.job(blocker_id)
    assert detail.job.id == blocker_id
    assert detail.progress is not None
    assert (detail.progress.fraction, detail.progress.note) == (0.4, "charging")
    assert [(view.job_id, view.state) for view in detail.dependents] == [
        (waiting.id, ShownState.BLOCKED)
    ]
    with pytest.raises(JobNotFound):
        await app.questions.job(new_id())


async def test_progress_of_an_earlier_execution_is_not_shown(shop: Shop) -> None:
    app, store = shop.app, shop.app.store
    await app.start(shop.charge.request(7))
    (claimed,) = await shop.claim("money")
    said = ProgressReport(claimed.id, claimed.lease.token, 0.4, "charging")
    await store.run(store.save_progress, [said])
    await app.cancel(claimed.id)
    await app.retry(claimed.id)
    await shop.claim("money")
    assert (await app.questions.job(claimed.id)).progress is None


async def test_sequences_by_the_jobs_they_are_at(shop: Shop) -> None:
    app = shop.app

    @app.job
    async def first(job: Job) -> object:
        return job.continue_with(shop.confirm.request(1))

    sequence = await app.start(first.request())
    other = await app.start(shop.charge.request(1), schedule=After(hours=1))
    await app.worker(queues=["default"]).run(drain=True)
    page = await app.questions.sequences(JobFilter())
    assert page.cursor is None
    by_id = {view.id: view for view in page.sequences}
    assert set(by_id) == {sequence.id, other.id}
    view = by_id[sequence.id]
    assert (view.type, view.job_type, view.length) == ("first", "confirm", 2)
    assert view.state is ShownState.COMPLETED
    assert view.job_id != sequence.id
    assert view.created_at == (await app.get(sequence)).created_at
    assert by_id[other.id].state is ShownState.SCHEDULED
    page = await app.questions.sequences(parse_filter("type:first"))
    assert page.sequences == []


async def test_a_graph_of_what_continued_blocked_and_was_started(shop: Shop) -> None:
    app = shop.app
    outside = await app.start(shop.charge.request(0))
    children: list[str] = []

    @app.job
    async def parent(job: Job) -> object:
        child = await app.start(shop.charge.request(1))
        children.append(child.id)
        return job.continue_with(shop.confirm_blocked.request(2).using(blockers=(outside,)))

    root = await app.start(parent.request())
    await app.worker(queues=["default"]).run(drain=True)
    graph = await app.questions.graph(root.id)
    assert graph.root_id == root.id
    assert graph.complete
    current = await app.current(root)
    nodes = {node.job_id: node for node in graph.nodes}
    assert set(nodes) == {root.id, current.id, children[0], outside.id}
    assert nodes[current.id].state is ShownState.BLOCKED
    assert nodes[current.id].position == 1
    edges = {(edge.source, edge.target, edge.link) for edge in graph.edges}
    assert edges == {
        (root.id, current.id, EdgeKind.CONTINUES),
        (root.id, children[0], EdgeKind.STARTED),
        (outside.id, current.id, EdgeKind.BLOCKS),
    }
    assert await app.questions.graph(children[0]) == graph
    small = await app.questions.graph(root.id, at_most=1)
    assert not small.complete
    assert root.id in {node.job_id for node in small.nodes}
    with pytest.raises(JobNotFound):
        await app.questions.graph(new_id())


async def test_failures_by_fingerprint(shop: Shop) -> None:
    app = shop.app

    @app.job(max_attempts=1)
    async def broken(n: int) -> None:
        if n % 3:
            raise ValueError(f"order {n} is wrong")
        raise KeyError(n)

    await app.start_many([broken.request(n) for n in range(7)])
    await app.worker(queues=["default"]).run(drain=True)
    groups = await app.questions.failures(JobFilter())
    assert [(group.type, group.error, group.count) for group in groups] == [
        ("broken", "ValueError", Count(4)),
        ("broken", "KeyError", Count(3)),
    ]
    group = groups[0]
    assert group.message.startswith("order ")
    assert group.first_at <= group.last_at
    assert (await app.get(group.sample_id)).fingerprint == group.fingerprint
    which = parse_filter(f"fingerprint:{group.fingerprint}")
    assert await app.questions.count(which) == Count(4)
    assert len((await app.questions.jobs(which)).jobs) == 4
    (found,) = await app.questions.failures(parse_filter("error:KeyError"))
    assert (found.error, found.count) == ("KeyError", Count(3))
    assert await app.questions.failures(parse_filter("queue:money")) == []


async def test_workers_that_have_not_been_heard_of_are_not_alive(shop: Shop) -> None:
    store = shop.app.store
    await beat(shop, id="bert:1")
    worker = (await store.run(store.workers))[0]
    long_ago = datetime.now(UTC) - timedelta(minutes=5)
    await store.run(
        store.save_worker, WorkerRecord(**{**_fields(worker), "id": "dora:1"}), now=long_ago
    )
    found = {each.worker.id: each for each in await shop.app.questions.workers()}
    assert found["bert:1"].alive
    assert found["bert:1"].seen_ago < 60
    assert not found["dora:1"].alive
    assert found["dora:1"].seen_ago == pytest.approx(300, abs=60)
    assert (await shop.app.questions.overview()).workers == 1


def _fields(worker: WorkerRecord) -> dict[str, object]:
    return {name: getattr(worker, name) for name in worker.__struct_fields__}


async def test_check_names_what_this_code_could_not_run(shop: Shop) -> None:
    app, store = shop.app, shop.app.store
    await app.start(shop.charge.request(1))
    wrong = NewJob(id=new_id(), type="charge", input='{"order":1}')
    gone = NewJob(id=new_id(), type="gone", input="{}")
    done = NewJob(id=new_id(), type="gone", input="{}")
    await store.run(store.insert, [done])
    await store.run(store.complete_without_lease, done.id, None, None)
    await store.run(store.insert, [wrong, gone])
    checked = await app.questions.check()
    assert checked.examined == 3
    assert checked.cursor is None
    problems = {each.job_id: each.problem for each in checked.incompatible}
    assert set(problems) == {wrong.id, gone.id}
    assert "order_id" in problems[wrong.id]
    assert "no job type 'gone'" in problems[gone.id]
    first = await app.questions.check(limit=2)
    rest = await app.questions.check(limit=2, cursor=first.cursor)
    assert first.examined + rest.examined == 3


async def test_time_to_drain_follows_the_trend() -> None:
    """Fewer than before: by how fast they become fewer. More than before: never."""
    shop = Shop("memory://", clock=(clock := Stopwatch()))
    async with shop.app as app:
        await app.start_many([shop.charge.request(n) for n in range(10)])
        assert (await app.questions.overview()).time_to_drain is None
        jobs = (await app.list()).jobs
        clock.advance(10)
        await app.cancel([job.id for job in jobs[:5]])
        assert (await app.questions.overview()).time_to_drain == pytest.approx(10.0)
        clock.advance(10)
        await app.start_many([shop.charge.request(n) for n in range(10)])
        assert (await app.questions.overview()).time_to_drain is None


class Stopwatch:
    def __init__(self) -> None:
        self._now = datetime(2030, 1, 1, tzinfo=UTC)

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._now.timestamp()
