"""Commands on the collections of one schema, and the base of the store's parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.drivers.mongodb import Command, Document
from headway.ports.statement import Operation
from headway.stores.mongodb.documents import CollectionNames, of_sequence, present, sequence_of

ENOUGH = 1_000_000
"""Documents in the first batch of an answer, if they fit into 16 megabytes."""


class JobCommands:
    """With `alone` a command may run outside of a transaction. A transaction must not rely on an
    answer from outside: only what it reads itself conflicts with changes of others."""

    def __init__(self, names: CollectionNames) -> None:
        self.names = names

    def find(
        self,
        which: Document,
        fields: Document | None = None,
        *,
        sort: Document | None = None,
        limit: int | None = None,
        skip: int = 0,
        hint: str | None = None,
        collection: str | None = None,
        alone: bool = True,
        after: Any = None,
        latest: bool = False,
    ) -> Command:
        body: Document = {
            "find": collection or self.names.job,
            "filter": which,
            "projection": {"history": 0} if fields is None else fields,
            "batchSize": ENOUGH,
        }
        if sort is not None:
            body["sort"] = sort
        if limit is not None:
            body["limit"] = limit
        if skip:
            body["skip"] = skip
        if hint is not None:
            body["hint"] = hint
        return Command(body, alone=alone, after=after, latest=latest)

    def aggregate(self, *stages: Document, alone: bool = True, after: Any = None) -> Command:
        return Command(
            {
                "aggregate": self.names.job,
                "pipeline": list(stages),
                "cursor": {"batchSize": ENOUGH},
            },
            alone=alone,
            after=after,
        )

    def lookups(
        self,
        now: datetime | None,
        pipelines: Mapping[str, Sequence[Document]],
        *,
        alone: bool = True,
    ) -> Command:
        """Ask for the time, as `now`, and for the answers of several pipelines, in one command."""
        stages: list[Document] = [{"$documents": [{}]}, {"$set": {"now": present(now)}}]
        stages += [
            {"$lookup": {"from": self.names.job, "pipeline": list(pipeline), "as": name}}
            for name, pipeline in pipelines.items()
        ]
        return Command({"aggregate": 1, "pipeline": stages, "cursor": {}}, alone=alone)

    def update(
        self, changes: list[Document], *, alone: bool = False, no_wait: bool = False
    ) -> Command:
        return Command(
            {"update": self.names.job, "updates": changes, "ordered": False},
            alone=alone,
            no_wait=no_wait,
        )

    def upsert(self, collection: str, id: str, change: Document) -> Command:
        return Command(
            {"update": collection, "updates": [{"q": {"_id": id}, "u": [change], "upsert": True}]},
            alone=True,
        )

    def last_jobs(
        self, sequence_ids: Iterable[str], fields: Document | None, *, alone: bool = True
    ) -> Operation[dict[str, Document]]:
        """The last job of each sequence that exists; `fields` must name `sequence_id`."""
        wanted = list(sequence_ids)
        if not wanted:
            return {}
        documents: list[Document] = yield self.find(
            {"$or": of_sequence(wanted)}, fields, alone=alone
        )
        return by_sequence(documents)


class MongoPart:
    """The base of the store's parts."""

    def __init__(self, names: CollectionNames) -> None:
        self._names = names
        self._commands = JobCommands(names)


def by_sequence(documents: Iterable[Document]) -> dict[str, Document]:
    """The last of these jobs by sequence."""
    last: dict[str, Document] = {}
    for document in documents:
        sequence_id = sequence_of(document)
        if sequence_id not in last or "sequence_id" in document:
            last[sequence_id] = document
    return last
