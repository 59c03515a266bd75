"""Jobs are named by the endings of their ids, on every store; an ambiguous one changes nothing."""

from __future__ import annotations

import pytest

from headway import After, JobState
from headway.admin import id_lookup
from headway.domain import queries
from headway.domain.filters import parse_filter
from headway.domain.queries import IdPage
from headway.domain.views import JobAction
from headway.errors import AmbiguousId, InvalidName, InvalidOption, JobNotFound
from tests.support.shop import Shop

BEGIN = "01890a5d-ac96-774b-bcce-b302"
ONE, TWO, THREE = f"{BEGIN}11118057", f"{BEGIN}22228057", f"{BEGIN}3333aaaa"


@pytest.fixture
async def jobs(shop: Shop) -> Shop:
    for id in (ONE, TWO, THREE):
        await shop.app.start(shop.charge.request(1).using(id=id, schedule=After(hours=1)))
    return shop


async def states(shop: Shop) -> list[JobState]:
    return [(await shop.app.get(id)).state for id in (ONE, TWO, THREE)]


async def test_an_ending_names_a_job(jobs: Shop) -> None:
    questions, operator = jobs.app.questions, jobs.app.actions("anna")
    for given in ("aaaa", "…3333AAAA", "b3023333aaaa", "bcce-b3023333aaaa", THREE.upper()):
        assert (await questions.job(given)).job.id == THREE
    assert (await questions.why("aaaa")).job_id == THREE
    assert (await questions.graph("aaaa")).root_id == THREE
    assert (await operator.act(JobAction.CANCEL, ["aaaa", THREE])).changed == 1
    assert (await states(jobs))[2] is JobState.CANCELLED
    (note,) = (await questions.audit()).records
    assert note.target == THREE


async def test_an_ambiguous_ending_changes_nothing(jobs: Shop) -> None:
    app, operator = jobs.app, jobs.app.actions("anna")
    expected = f"several jobs end with 8057; give the whole id: {TWO} .charge, pending., {ONE} "
    with pytest.raises(AmbiguousId, match=expected):
        await app.questions.job("8057")
    with pytest.raises(AmbiguousId, match=expected):
        await operator.act(JobAction.CANCEL, [THREE, "8057"])
    for text in ("id:8057", "sequence:8057", "root:8057", "id:3333aaaa id:8057"):
        with pytest.raises(AmbiguousId):
            await operator.act_on_all(JobAction.CANCEL, parse_filter(text))
    assert await states(jobs) == [JobState.PENDING] * 3
    assert (await app.questions.audit()).records == []


async def test_an_ending_that_no_id_has(jobs: Shop) -> None:
    app, operator = jobs.app, jobs.app.actions("anna")
    with pytest.raises(JobNotFound, match="no job whose id ends with bbbb; it never existed"):
        await app.questions.why("bbbb")
    with pytest.raises(JobNotFound):
        await operator.act(JobAction.CANCEL, ["aaaa", "bbbb"])
    assert await states(jobs) == [JobState.PENDING] * 3
    with pytest.raises(InvalidName, match="'a' is too short; give the last 4 or more"):
        await app.questions.job("a")
    with pytest.raises(InvalidName, match="'charge' is not an id; give a whole id or its last 4"):
        await app.questions.job("charge")
    with pytest.raises(InvalidOption, match=r"at most 20 jobs .* not 21; give whole ids"):
        await operator.act(JobAction.CANCEL, [f"{n:04x}" for n in range(21)])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("id:8057", [TWO, ONE]),
        ("id:aaaa id:22228057", [THREE, TWO]),
        ("id:bbbb", []),
        ("sequence:aaaa", [THREE]),
        ("root:aaaa", [THREE]),
        ("root:bbbb", []),
        ("3333aaaa", [THREE]),
        (f"{ONE} id:8057", [ONE]),
        (f"{ONE} id:aaaa", []),
        ("aaaa", [THREE]),
        ("charge pending", []),
        ("charge 11118057", [ONE]),
    ],
)
async def test_filters_take_endings(jobs: Shop, text: str, found: list[str]) -> None:
    which = parse_filter(text)
    page = await jobs.app.questions.jobs(which)
    assert [job.id for job in page.jobs] == found
    assert (await jobs.app.questions.count(which)).value == len(found)
    sequences = await jobs.app.questions.sequences(which)
    assert [each.id for each in sequences.sequences] == found


async def test_an_id_that_was_not_compared_with_all_is_not_acted_on(
    jobs: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store with very many jobs: the search ends before its oldest id."""
    store = jobs.app.store
    find_ids = type(store).find_ids

    def unfinished(self: object, endings: object, *, cursor: object = None) -> object:
        page = yield from find_ids(self, endings, cursor=cursor)  # type: ignore[arg-type]
        return IdPage(page.ids, ONE)

    monkeypatch.setattr(type(store), "find_ids", unfinished)
    monkeypatch.setattr(id_lookup, "SEARCH_FOR", -1.0)
    operator = jobs.app.actions("anna")
    expected = f"only the newest {queries.IDS_COMPARED:,} jobs were searched .*: {THREE} "
    with pytest.raises(AmbiguousId, match=expected):
        await operator.act(JobAction.CANCEL, ["aaaa"])
    with pytest.raises(AmbiguousId, match=expected):
        await operator.act_on_all(JobAction.CANCEL, parse_filter("id:aaaa"))
    assert await states(jobs) == [JobState.PENDING] * 3
    assert [job.id for job in (await jobs.app.questions.jobs(parse_filter("id:aaaa"))).jobs] == [
        THREE
    ]
