"""From the ending of an id, as people copy it from a list, to the whole id.

No index has the endings, so all ids are compared, newest first, for a limited time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from msgspec import structs

from headway.domain.queries import IDS_COMPARED, JobFilter
from headway.domain.validation import SHORT_ID, check_id_or_ending, is_id
from headway.errors import AmbiguousId, InvalidName, InvalidOption, JobNotFound
from headway.ports.store import Store

SEARCH_FOR = 10.0
"""Seconds of a search; the ids that are then not compared yet are older."""
MOST_ENDINGS = 20
"""Endings in one search: each is compared with all ids."""
MOST_FOUND = 100
"""Ids with one of the endings; a search that finds more stops."""
CANDIDATES = 5
"""Jobs that a message names."""


class Lookup:
    """Ids with one of these endings; `complete` if all ids of the store were compared."""

    __slots__ = ("complete", "found", "searched")

    def __init__(self, found: dict[str, list[str]], searched: int, *, complete: bool) -> None:
        self.found = found
        self.searched = searched
        self.complete = complete


async def look_up(store: Store, endings: Sequence[str]) -> Lookup:
    if len(endings) > MOST_ENDINGS:
        raise InvalidOption(
            f"at most {MOST_ENDINGS} jobs can be named by the endings of their ids at once, not "
            f"{len(endings)}; give whole ids"
        )
    found: dict[str, list[str]] = {ending: [] for ending in endings}
    searched, cursor = 0, None
    ends = time.monotonic() + SEARCH_FOR
    while True:
        page = await store.run(store.find_ids, endings, cursor=cursor)
        for ending, ids in found.items():
            ids += [id for id in page.ids if id.endswith(ending)]
        searched += IDS_COMPARED
        cursor = page.cursor
        many = sum(map(len, found.values())) > MOST_FOUND
        if cursor is None or many or time.monotonic() > ends:
            return Lookup(found, searched, complete=cursor is None)


async def whole_ids(store: Store, ids: Iterable[str]) -> list[str]:
    """Each id as a whole, once. Raises AmbiguousId unless an ending is known to be of one job only,
    JobNotFound if it is of none."""
    given = list(dict.fromkeys(map(check_id_or_ending, ids)))
    endings = [each for each in given if not is_id(each)]
    if not endings:
        return given
    lookup = await look_up(store, endings)
    whole = [each if is_id(each) else await _only_one(store, each, lookup) for each in given]
    return list(dict.fromkeys(whole))


async def _only_one(store: Store, ending: str, lookup: Lookup) -> str:
    found = lookup.found[ending]
    if len(found) == 1 and lookup.complete:
        return found[0]
    if not found and lookup.complete:
        raise JobNotFound(ending)
    searched = None if len(found) > 1 else lookup.searched
    raise AmbiguousId(ending, await _described(store, found), searched=searched)


async def whole_id(store: Store, id: str) -> str:
    (found,) = await whole_ids(store, [id])
    return found


async def with_whole_ids(store: Store, which: JobFilter, *, unique: bool = False) -> JobFilter:
    """The filter with whole ids for endings, also for endings among its words. An ending that no
    job has stays and matches nothing. In `ids` and `words` an ending stands for all jobs whose ids
    end so, unless it has to be `unique`."""
    which = structs.replace(
        which,
        ids=tuple(await _all_ids(store, which.ids, unique=unique)),
        sequence_id=await _known_id(store, which.sequence_id),
        root_id=await _known_id(store, which.root_id),
    )
    for word in which.words:
        ids = await _named_by(store, word, unique=unique)
        if ids:
            both = [id for id in which.ids if id in ids] or ["-"] if which.ids else ids
            rest = tuple(each for each in which.words if each != word)
            which = structs.replace(which, ids=tuple(both), words=rest)
    return which


async def _known_id(store: Store, id: str | None) -> str | None:
    if id is None:
        return None
    try:
        return await whole_id(store, id)
    except JobNotFound:
        return id


async def _all_ids(store: Store, ids: Sequence[str], *, unique: bool) -> Sequence[str]:
    endings = [each for each in ids if not is_id(each)]
    if not endings:
        return ids
    lookup = await look_up(store, endings)
    for ending in endings if unique else ():
        if lookup.found[ending] or not lookup.complete:
            await _only_one(store, ending, lookup)
    return [id for each in ids for id in lookup.found.get(each) or [each]]


async def _named_by(store: Store, word: str, *, unique: bool) -> Sequence[str]:
    """The ids that a word means, if it is one or long enough for a short one."""
    try:
        ending = check_id_or_ending(word)
    except InvalidName:
        return ()
    if is_id(ending):
        return (ending,)
    if len(ending) < SHORT_ID:
        return ()
    return [id for id in await _all_ids(store, [ending], unique=unique) if is_id(id)]


async def _described(store: Store, ids: Sequence[str]) -> list[str]:
    """Some of these jobs, each with its type and state."""
    jobs = await store.run(store.get, ids[:CANDIDATES])
    named = [f"{job.id} ({job.type}, {job.state})" for job in jobs if job is not None]
    return named + (["…"] if len(ids) > CANDIDATES else [])
