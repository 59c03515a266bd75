"""find and count with every condition of a filter, alone and combined."""

from __future__ import annotations

from typing import Any

from headway.domain.due_time import After
from headway.domain.failure import encode_failure
from headway.domain.job import JobState
from headway.domain.queries import Age, ArgumentFilter, JobFilter
from headway.domain.settlement import Fail
from headway.domain.views import Count
from headway.errors import Failure
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import T0, StoreCases, at

case = StoreCases("filters")

ALIKE, OTHER = "0123456789ab", "0123ffffffff"


async def found(store: Store, which: JobFilter) -> list[str]:
    """All that match, whatever the pages, and as many as are counted."""
    ids: list[str] = []
    cursor: str | None = None
    while True:
        page = await store.run(store.find, which, cursor=cursor, limit=2, now=at(10))
        ids += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    assert ids == sorted(ids, reverse=True)
    counted = await store.run(store.count, which, 100, now=at(10))
    assert counted == Count(len(ids))
    return ids


async def failed(store: Store, fingerprint: str | None, message: str = "no", **fields: Any) -> str:
    """A dead letter."""
    job = await kit.running(store, **fields)
    error = encode_failure(Failure("ShopError", message, "Traceback of it"))
    await kit.apply(store, Fail(job.id, job.lease.token, error, fingerprint))
    return job.id


@case
async def pending_jobs_are_told_apart_by_being_due(store: Store) -> None:
    due = await kit.add(store)
    on_time = await kit.add(store, schedule=After(seconds=10))
    later = await kit.add(store, schedule=After(seconds=11))
    stuck = await kit.in_state(store, JobState.FAILED)
    pending = (JobState.PENDING,)
    assert await found(store, JobFilter(states=pending, due=True)) == [on_time, due]
    assert await found(store, JobFilter(states=pending, due=False)) == [later]
    assert await found(store, JobFilter(states=pending)) == [later, on_time, due]
    both = JobFilter(states=(JobState.PENDING, JobState.FAILED), due=False)
    assert await found(store, both) == [stuck, later]


@case
async def every_state_and_all_of_them(store: Store) -> None:
    made = {state: await kit.in_state(store, state) for state in JobState}
    everything = await found(store, JobFilter())
    for state in JobState:
        ids = await found(store, JobFilter(states=(state,)))
        assert made[state] in ids
        assert (len(ids) == 1) is (state is not JobState.PENDING)  # the blocked one's blocker
    assert await found(store, JobFilter(states=tuple(JobState))) == everything


@case
async def types_may_be_given_by_their_beginning(store: Store) -> None:
    charge, refund = (
        await kit.add(store, type="pay.charge"),
        await kit.add(store, type="pay.refund"),
    )
    mail, pay = await kit.add(store, type="mail"), await kit.add(store, type="pay")
    assert await found(store, JobFilter(types=("pay.*",))) == [refund, charge]
    assert await found(store, JobFilter(types=("pay",))) == [pay]
    assert await found(store, JobFilter(types=("pay.c*", "mail"))) == [mail, charge]
    assert len(await found(store, JobFilter(types=("*",)))) == 4
    assert await found(store, JobFilter(types=("p_y*",))) == []
    assert await found(store, JobFilter(types=("%",))) == []


@case
async def jobs_are_found_by_id(store: Store) -> None:
    ids = [await kit.add(store) for _ in range(5)]
    assert await found(store, JobFilter(ids=tuple(ids[1:4]))) == ids[3:0:-1]
    assert await found(store, JobFilter(ids=(ids[0], kit.new_id(), "nonsense"))) == [ids[0]]
    assert await found(store, JobFilter(ids=("nonsense",))) == []
    running_only = JobFilter(ids=tuple(ids), states=(JobState.RUNNING,))
    assert await found(store, running_only) == []


@case
async def ids_are_found_by_their_endings(store: Store) -> None:
    begin = "01890a5d-ac96-774b-bcc"
    ids = [f"{begin}{end}" for end in ("1-0000000000aa", "2-0000000010aa", "3-0000000000ab")]
    await kit.insert(store, *[kit.new_job(id=id) for id in ids])

    async def ending(*endings: str, cursor: str | None = None) -> list[str]:
        page = await store.run(store.find_ids, endings, cursor=cursor)
        assert page.cursor is None
        return page.ids

    assert await ending("00aa") == [ids[0]]
    assert await ending("aa") == [ids[1], ids[0]]
    assert await ending("bcc3-0000000000ab") == [ids[2]]
    assert await ending("10aa", "00ab", "ffff") == [ids[2], ids[1]]
    assert await ending("aa", cursor=ids[1]) == [ids[0]]
    assert await ending(ids[2]) == [ids[2]]
    assert await ending("aa", "00aa") == [ids[1], ids[0]]
    for none in ("0a", "ba", "-aa"):
        assert await ending(none) == [], none


@case
async def nonsense_is_found_nowhere(store: Store) -> None:
    await kit.add(store)
    assert await found(store, JobFilter(root_id="nonsense")) == []
    assert await found(store, JobFilter(sequence_id="' or 1=1 --")) == []


@case
async def jobs_are_found_by_worker(store: Store) -> None:
    await kit.add(store, queue="a")
    await kit.claim_one(store, "a", worker="anna")
    held = await kit.add(store, queue="b")
    job = await kit.claim_one(store, "b", worker="bert")
    await kit.complete(store, job)
    await kit.add(store)
    assert await found(store, JobFilter(workers=("bert",))) == [held]
    assert len(await found(store, JobFilter(workers=("bert", "anna")))) == 2
    assert await found(store, JobFilter(workers=("nobody",))) == []


@case
async def jobs_are_found_by_key(store: Store) -> None:
    one = await kit.add(store, key="tenant 7", type="a", dedup_key="tenant 8")
    ended = await kit.running(store, key="tenant 7", type="b")
    await kit.complete(store, ended)
    third = await kit.add(store, key="tenant 8", dedup_key="tenant 7")
    await kit.add(store)
    assert await found(store, JobFilter(keys=("tenant 7",))) == [ended.id, one]
    assert await found(store, JobFilter(keys=("tenant 7",), types=("a",))) == [one]
    assert await found(store, JobFilter(keys=("tenant 7", "tenant 8"))) == [third, ended.id, one]
    both = JobFilter(keys=("tenant 8",), dedup_keys=("tenant 7",))
    assert await found(store, both) == [third]
    for key in ("tenant", "TENANT 7", "tenant 7 "):
        assert await found(store, JobFilter(keys=(key,))) == [], key


@case
async def jobs_are_found_by_deduplication_key(store: Store) -> None:
    one = await kit.add(store, dedup_key="order 7", type="a")
    other = await kit.add(store, dedup_key="order 7", type="b")
    third = await kit.add(store, dedup_key="order 8")
    await kit.add(store)
    assert await found(store, JobFilter(dedup_keys=("order 7",))) == [other, one]
    assert await found(store, JobFilter(dedup_keys=("order 7",), types=("a",))) == [one]
    assert await found(store, JobFilter(dedup_keys=("order 7", "order 8"))) == [third, other, one]
    assert await found(store, JobFilter(dedup_keys=("order",))) == []


@case
async def jobs_are_found_by_schedule(store: Store) -> None:
    vat = await kit.running_scheduled(store, "vat", T0)
    await kit.complete(store, vat)
    again = (await kit.running_scheduled(store, "vat", at(60))).id
    other = (await kit.running_scheduled(store, "vat.eu", T0)).id
    await kit.add(store, type="vat", queue="vat", dedup_key="vat", input='{"schedule":"vat"}')
    assert await found(store, JobFilter(schedules=("vat",))) == [again, vat.id]
    assert await found(store, JobFilter(schedules=("vat.eu", "vat"))) == [other, again, vat.id]
    running = JobFilter(schedules=("vat",), states=(JobState.RUNNING,))
    assert await found(store, running) == [again]
    completed = JobFilter(schedules=("vat.eu",), states=(JobState.COMPLETED,))
    assert await found(store, completed) == []
    for name in ("va", "vat.", "VAT", "va_", "v%", "vat.*"):
        assert await found(store, JobFilter(schedules=(name,))) == [], name


@case
async def jobs_that_continue_are_found_by_their_schedule_too(store: Store) -> None:
    first = await kit.running_scheduled(store, "vat", T0)
    following = kit.successor_of(first)
    await kit.add(store)
    await store.run(store.complete_without_lease, first.id, None, following, now=at(1))
    assert await found(store, JobFilter(schedules=("vat",))) == [following.id, first.id]


@case
async def dead_letters_are_found_by_fingerprint(store: Store) -> None:
    one, two = await failed(store, ALIKE), await failed(store, ALIKE, queue="mail")
    third = await failed(store, OTHER)
    await failed(store, None)
    await kit.in_state(store, JobState.COMPLETED)
    assert await found(store, JobFilter(fingerprints=(ALIKE,))) == [two, one]
    assert await found(store, JobFilter(fingerprints=(ALIKE,), queues=("mail",))) == [two]
    assert await found(store, JobFilter(fingerprints=("0123",))) == [third, two, one]
    assert await found(store, JobFilter(fingerprints=("01234", OTHER))) == [third, two, one]
    assert await found(store, JobFilter(fingerprints=("ff",))) == []
    completed = JobFilter(fingerprints=(ALIKE,), states=(JobState.COMPLETED,))
    assert await found(store, completed) == []


@case
async def a_fingerprint_is_part_of_the_record_until_the_job_goes_on(store: Store) -> None:
    job_id = await failed(store, ALIKE)
    (job,) = await store.run(store.get, [job_id])
    assert job is not None
    assert job.fingerprint == ALIKE
    await store.run(store.retry, [job_id], now=at(2))
    (job,) = await store.run(store.get, [job_id])
    assert job is not None
    assert job.fingerprint is None
    assert await found(store, JobFilter(fingerprints=(ALIKE,))) == []


@case
async def jobs_are_found_by_arguments(store: Store) -> None:
    seven = await kit.add(
        store, input='{"order_id":7,"address":{"city":"New York"},"tags":["a","b"]}'
    )
    text = await kit.add(store, input='{"order_id":"7","paid":true,"note":null}')
    await kit.add(store, input='{"order_id":77}')
    await kit.add(store, input='{"other":7}')
    await kit.add(store, input="not json, order_id 7")

    def having(*pairs: tuple[str, str]) -> JobFilter:
        return JobFilter(arguments=tuple(ArgumentFilter(*pair) for pair in pairs))

    assert await found(store, having(("order_id", "7"))) == [text, seven]
    assert await found(store, having(("address.city", "New York"))) == [seven]
    assert await found(store, having(("tags.1", "b"))) == [seven]
    assert await found(store, having(("tags.2", "b"))) == []
    assert await found(store, having(("paid", "true"), ("note", "null"))) == [text]
    assert await found(store, having(("order_id", "7"), ("paid", "true"))) == [text]
    several = await found(store, having(("order_id", "77"), ("order_id", "7")))
    assert len(several) == 3
    assert await found(store, having(("order_id", ""))) == []


@case
async def what_is_unusual_in_arguments_is_found_too(store: Store) -> None:
    job_id = await kit.add(store, input='{"na\\u00efve":"50 % of \\"all\\"","e":"\\u00e9"}')
    for path, value in (("naïve", '50 % of "all"'), ("e", "é")):
        which = JobFilter(arguments=(ArgumentFilter(path, value),))
        assert await found(store, which) == [job_id]


@case
async def jobs_are_found_by_their_error(store: Store) -> None:
    one = await failed(store, ALIKE, "connection timed out after 5 s")
    other = await failed(store, OTHER, "50% of ITEMS_x missing")
    await kit.in_state(store, JobState.COMPLETED)
    assert await found(store, JobFilter(errors=("Timed Out",))) == [one]
    assert await found(store, JobFilter(errors=("shoperror",))) == [other, one]
    assert await found(store, JobFilter(errors=("items_X",))) == [other]
    assert await found(store, JobFilter(errors=("50% of",))) == [other]
    assert await found(store, JobFilter(errors=("timed out", "missing"))) == [other, one]
    assert await found(store, JobFilter(errors=("Traceback",))) == []
    assert await found(store, JobFilter(errors=("%",))) == [other]
    assert await found(store, JobFilter(errors=(" connection",))) == [one]


@case
async def jobs_are_found_by_an_error_that_something_else_wrote(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Fail(job.id, job.lease.token, "out of paper", ALIKE))
    for part in ("Error: out", "error", "Paper"):
        assert await found(store, JobFilter(errors=(part,))) == [job.id]
    assert await found(store, JobFilter(errors=("ink",))) == []


@case
async def jobs_are_found_by_any_text(store: Store) -> None:
    order = await kit.add(
        store,
        type="pay.Charge",
        input='{"mail":"ada@x.org","n":[4711,true],"at":{"apiKey":"ada@y.org"}}',
        dedup_key="Order/7",
        key="Tenant/9",
    )
    mail = await kit.add(store, queue="mail", input='{"naïve":"50 % off","n":"4711"}')
    broken = await failed(store, ALIKE, "connection timed out: 5 s")

    async def having(*words: str, hidden: tuple[str, ...] = ()) -> list[str]:
        return await found(store, JobFilter(words=words, hidden=hidden))

    assert await having("charge") == await having("order/") == await having("PAY.") == [order]
    assert await having("tenant/9") == await having("Tenant", "Order") == [order]
    assert await having("mail") == [mail]
    assert await having("Timed Out:") == await having("shoperror") == [broken]
    assert await having("timed", "shop") == [broken]
    assert await having("timed", "mail") == []
    assert await having("4711") == [mail, order]
    assert await having("50 % off") == [mail]
    assert await having("ada@x.org") == [order]
    assert await having("ada@x") == await having("apiKey") == await having("null") == []
    assert await having("ada@y.org") == [order]
    assert await having("ada@y.org", hidden=("apikey",)) == []
    assert await having(order[-5:]) == [order]
    assert await having("x" + order[-4:]) == []
    assert await having(f"…{order[-12:].upper()}") == [order]


@case
async def jobs_are_found_by_age(store: Store) -> None:
    old = await kit.add(store, now=at(0))
    young = await kit.add(store, now=at(8))
    assert await found(store, JobFilter(created=Age(under=5))) == [young]
    assert await found(store, JobFilter(created=Age(over=5))) == [old]
    assert await found(store, JobFilter(created=Age(over=2))) == [young, old]
    assert await found(store, JobFilter(created=Age(over=10))) == [old]
    assert await found(store, JobFilter(created=Age(under=10))) == [young]
    assert await found(store, JobFilter(created=Age(under=9, over=3))) == []


@case
async def jobs_are_found_by_when_they_ended(store: Store) -> None:
    await kit.add(store)
    jobs = [await kit.running(store) for _ in range(3)]
    for number, job in enumerate(jobs, start=1):
        await kit.complete(store, job, now=at(number * 2))
    first, second, third = (job.id for job in jobs)
    assert await found(store, JobFilter(finished=Age(under=100))) == [third, second, first]
    assert await found(store, JobFilter(finished=Age(under=5))) == [third]
    assert await found(store, JobFilter(finished=Age(over=6))) == [second, first]
    assert await found(store, JobFilter(finished=Age(under=8, over=5))) == [second]
    failed_ones = JobFilter(finished=Age(under=100), states=(JobState.FAILED,))
    assert await found(store, failed_ones) == []


@case
async def conditions_hold_together(store: Store) -> None:
    wanted = await failed(store, ALIKE, type="charge", queue="money", input='{"n":1}')
    await failed(store, ALIKE, type="charge", queue="money", input='{"n":2}')
    await failed(store, OTHER, type="charge", queue="money", input='{"n":1}')
    await kit.add(store, type="charge", queue="money", input='{"n":1}')
    which = JobFilter(
        states=(JobState.FAILED, JobState.CANCELLED),
        types=("charge",),
        queues=("money", "mail"),
        fingerprints=(ALIKE,),
        arguments=(ArgumentFilter("n", "1"),),
        errors=("no",),
        created=Age(over=1),
        finished=Age(under=60),
    )
    assert await found(store, which) == [wanted]


@case
async def pages_of_a_filter_lose_nothing(store: Store) -> None:
    jobs = [
        kit.new_job(input=f'{{"n":{number % 3}}}', queue="ab"[number % 2]) for number in range(30)
    ]
    await kit.insert(store, *jobs)
    which = JobFilter(queues=("a",), arguments=(ArgumentFilter("n", "0"),))
    assert await found(store, which) == [jobs[number].id for number in (24, 18, 12, 6, 0)]


@case
async def a_count_stops_where_it_is_told_to(store: Store) -> None:
    await kit.insert(store, *[kit.new_job(queue="a") for _ in range(7)], kit.new_job(queue="b"))
    for which in (JobFilter(queues=("a",)), JobFilter(queues=("a",), states=(JobState.PENDING,))):
        assert await store.run(store.count, which, 7, now=T0) == Count(7)
        assert await store.run(store.count, which, 6, now=T0) == Count(6, exact=False)
        assert await store.run(store.count, which, 100, now=T0) == Count(7)
