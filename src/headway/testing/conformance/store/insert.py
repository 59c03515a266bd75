"""insert: stores all fields of all jobs, or nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from headway.domain.due_time import After, At
from headway.domain.job import JobRecord, JobState
from headway.domain.validation import EARLIEST, LATEST, LONGEST
from headway.errors import DuplicateJob
from headway.ports.store import Inserted, Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import MICROSECOND, T0, TYPE, StoreCases, at

case = StoreCases("insert")

TEXTS = {
    "empty": "",
    "unicode": '"Grüße, 世界, 🚚, e\u0301, \u202eabc, \uffff"',
    "quotes": "'' \"\" `` \\ \\\\ \\n %s %% $1 ? :name {x} -- /* */ ;",
    "controls": "\t\n\r\x01\x1f\x7f",
    "large": '"' + "x" * 1_048_576 + '"',
    "large_unicode": '"' + "日本語🚚" * 60_000 + '"',
}


@case
async def a_plain_job_gets_every_default(store: Store) -> None:
    job = kit.new_job()
    answer = await kit.insert(store, job)
    assert answer == [Inserted(job.id, T0)]
    assert await kit.read(store, job.id) == JobRecord(
        id=job.id,
        type=TYPE,
        queue="default",
        priority=0,
        state=JobState.PENDING,
        input="[]",
        output=None,
        run_at=T0,
        created_at=T0,
        started_at=None,
        finished_at=None,
        attempts=0,
        losses=0,
        max_attempts=20,
        max_losses=5,
        timeout=None,
        last_error=None,
        lease=None,
        lease_version=0,
        worker=None,
        sequence_id=job.id,
        sequence_type=TYPE,
        root_id=job.id,
        origin_id=None,
        position=0,
        awaited=False,
        blockers=(),
        dedup_key=None,
        trace=None,
    )


@case
async def every_option_comes_back(store: Store) -> None:
    root, origin = kit.new_id(), kit.new_id()
    job = kit.new_job(
        type="send/mail.v2:x-y",
        input='{"to":"a@b"}',
        queue="mails",
        priority=7,
        schedule=After(minutes=2),
        max_attempts=None,
        max_losses=9,
        timeout=12.25,
        root_id=root,
        origin_id=origin,
        dedup_key="key of mine",
        trace='{"traceparent":"00-ab-cd-01"}',
    )
    await kit.insert(store, job)
    stored = await kit.read(store, job.id)
    assert (stored.type, stored.input, stored.queue) == (job.type, job.input, "mails")
    assert (stored.priority, stored.max_attempts, stored.max_losses) == (7, None, 9)
    assert (stored.timeout, stored.root_id, stored.origin_id) == (12.25, root, origin)
    assert (stored.dedup_key, stored.trace) == ("key of mine", job.trace)
    assert stored.run_at == at(120)
    assert stored.created_at == T0


@case
async def a_batch_is_answered_in_order(store: Store) -> None:
    jobs = [kit.new_job(schedule=After(seconds=delay), priority=delay) for delay in (5, 0, 9, 3)]
    answers = await kit.insert(store, *jobs)
    assert [answer.id for answer in answers] == [job.id for job in jobs]
    assert [answer.run_at for answer in answers] == [at(5), T0, at(9), at(3)]
    assert not any(answer.blocked or answer.deduplicated for answer in answers)


@case
async def jobs_of_one_batch_keep_their_own_options(store: Store) -> None:
    jobs = [
        kit.new_job(type="one", queue="a", priority=1, input="1"),
        kit.new_job(type="two", queue="b", max_attempts=None, input="2"),
        kit.new_job(type="one", queue="a", priority=1, input="3", timeout=1.5),
        kit.new_job(type="one", queue="a", priority=1, input="4", trace="t"),
    ]
    await kit.insert(store, *jobs)
    stored = await store.run(store.get, [job.id for job in jobs])
    assert [job and (job.type, job.queue, job.priority, job.input) for job in stored] == [
        ("one", "a", 1, "1"),
        ("two", "b", 0, "2"),
        ("one", "a", 1, "3"),
        ("one", "a", 1, "4"),
    ]
    assert [job and (job.max_attempts, job.timeout, job.trace) for job in stored] == [
        (20, None, None),
        (None, None, None),
        (20, 1.5, None),
        (20, None, "t"),
    ]


@case
async def an_empty_batch_is_fine(store: Store) -> None:
    assert await kit.insert(store) == []
    assert await kit.everything(store) == []


@case
async def a_large_batch_is_stored_whole(store: Store) -> None:
    jobs = [kit.new_job(input=str(number)) for number in range(2_500)]
    answers = await kit.insert(store, *jobs)
    assert len(answers) == 2_500
    stored = await store.run(store.get, [job.id for job in jobs])
    assert [job and job.input for job in stored] == [str(number) for number in range(2_500)]


@case.each(TEXTS)
async def input_comes_back_as_it_was(store: Store, text: str) -> None:
    job_id = await kit.add(store, input=text)
    assert (await kit.read(store, job_id)).input == text


@case.each({"lowest": -32_767, "highest": 32_767})
async def extreme_priorities_are_kept(store: Store, priority: int) -> None:
    job_id = await kit.add(store, priority=priority)
    assert (await kit.read(store, job_id)).priority == priority


@case
async def microseconds_are_kept(store: Store) -> None:
    moments = [at(1) + MICROSECOND * n for n in (1, 2, 321_098, 321_099)]
    jobs = [kit.new_job(schedule=At(moment)) for moment in moments]
    await kit.insert(store, *jobs)
    stored = await store.run(store.get, [job.id for job in jobs])
    assert [job and job.run_at for job in stored] == moments
    later = await kit.add(store, now=T0 + MICROSECOND)
    assert (await kit.read(store, later)).created_at == T0 + MICROSECOND


@case
async def times_come_back_in_utc(store: Store) -> None:
    zone = timezone(timedelta(hours=-7))
    moment = at(60).astimezone(zone)
    job_id = await kit.add(store, schedule=At(moment), now=T0.astimezone(zone))
    stored = await kit.read(store, job_id)
    assert stored.run_at == moment
    assert stored.run_at.utcoffset() == timedelta()
    assert stored.created_at == T0
    assert stored.created_at.utcoffset() == timedelta()


@case
async def far_moments_are_kept(store: Store) -> None:
    moment = datetime(2999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    job_id = await kit.add(store, schedule=At(moment))
    assert (await kit.read(store, job_id)).run_at == moment


@case
async def a_past_moment_means_now(store: Store) -> None:
    (answer,) = await kit.insert(store, kit.new_job(schedule=At(at(-3600))))
    assert answer.run_at == T0
    assert (await kit.read(store, answer.id)).run_at == T0


@case
async def after_counts_from_now_to_the_microsecond(store: Store) -> None:
    (answer,) = await kit.insert(store, kit.new_job(schedule=After(seconds=1.500_001)))
    assert answer.run_at == at(1.500_001)
    assert (await kit.read(store, answer.id)).run_at == at(1.500_001)


@case
async def without_now_the_stores_own_clock_counts(store: Store) -> None:
    before = datetime.now(UTC)
    (answer,) = await store.run(store.insert, [kit.new_job(schedule=After(hours=1))])
    stored = await kit.read(store, answer.id)
    assert abs(stored.created_at - before) < timedelta(minutes=1)
    assert stored.run_at - stored.created_at == timedelta(hours=1)
    assert answer.run_at == stored.run_at


@case
async def a_given_id_that_is_taken_is_refused(store: Store) -> None:
    job_id = await kit.add(store, input="1", id_given=True)
    before = await kit.snapshot(store)
    with raises(DuplicateJob) as caught:
        await kit.insert(store, kit.new_job(id=job_id, input="2", id_given=True))
    assert job_id in str(caught.error)
    assert await kit.snapshot(store) == before


@case
async def a_given_id_cannot_be_used_twice_in_a_batch(store: Store) -> None:
    job_id = kit.new_id()
    with raises(DuplicateJob):
        await kit.insert(store, *[kit.new_job(id=job_id, id_given=True) for _ in range(2)])
    assert await kit.everything(store) == []


@case
async def one_refused_job_leaves_nothing_of_its_batch(store: Store) -> None:
    taken = await kit.add(store)
    before = await kit.snapshot(store)
    with raises(DuplicateJob):
        await kit.insert(
            store,
            kit.new_job(),
            kit.new_job(queue="other", dedup_key="k"),
            kit.new_job(id=taken, id_given=True),
            kit.new_job(priority=3),
        )
    assert await kit.snapshot(store) == before


@case
async def a_generated_id_that_is_taken_is_our_own_earlier_try(store: Store) -> None:
    jobs = [kit.new_job(input=str(number)) for number in range(3)]
    await kit.insert(store, *jobs[:2])
    before = await store.run(store.get, [jobs[0].id, jobs[1].id])
    answers = await kit.insert(store, *jobs, now=at(5))
    assert [answer.id for answer in answers] == [job.id for job in jobs]
    assert not any(answer.deduplicated for answer in answers)
    assert await store.run(store.get, [jobs[0].id, jobs[1].id]) == before
    assert len(await kit.everything(store)) == 3


@case
async def an_operation_that_nobody_runs_does_nothing(store: Store) -> None:
    store.insert([kit.new_job()], now=T0)
    assert await kit.everything(store) == []


FURTHEST: dict[str, tuple[At | After, datetime]] = {
    "after": (After(seconds=LONGEST), at(LONGEST)),
    "at": (At(LATEST), LATEST),
    "past": (At(EARLIEST), T0),
}


@case.each(FURTHEST)
async def the_furthest_schedule_can_be_read(
    store: Store, variant: tuple[At | After, datetime]
) -> None:
    schedule, expected = variant
    job_id = await kit.add(store, schedule=schedule)
    assert (await kit.read(store, job_id)).run_at == expected
    assert [job.id for job in await kit.everything(store)] == [job_id]
    assert len(await kit.claim(store)) == (expected == T0)
