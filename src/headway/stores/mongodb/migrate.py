"""Creation of collections and indexes. Several processes may run the same step at once. MongoDB
creates the other collections with their first document."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from pymongo import IndexModel
from pymongo.asynchronous.database import AsyncDatabase

from headway.drivers.mongodb import Document
from headway.stores.mongodb.documents import NOW, CollectionNames, moment

KEYS_LIVE = 3_600
"""Seconds after which an unused deduplication key is deleted; it serves only as a lock."""


class MongoMigration(msgspec.Struct, frozen=True):
    version: int
    name: str
    indexes: dict[str, list[IndexModel]]


def migrations(names: CollectionNames) -> list[MongoMigration]:
    """All migrations, oldest first."""
    return [
        MongoMigration(
            1,
            "0001_initial",
            {
                names.job: [
                    # In the order of claims; the type spares reading documents of other types.
                    _index(
                        "pending",
                        {"queue": 1, "priority": -1, "run_at": 1, "_id": 1, "type": 1},
                        partialFilterExpression={"state": "pending"},
                    ),
                    _index(
                        "running",
                        {"until": 1, "_id": 1},
                        partialFilterExpression={"state": "running"},
                    ),
                    _index(
                        "finished",
                        {"state": 1, "finished_at": 1},
                        partialFilterExpression={"finished_at": {"$gt": 0}},
                    ),
                    # First jobs, and roots, are found by their ids: they do not have these fields.
                    _index("sequence", {"sequence_id": 1}, sparse=True),
                    _index("tail", {"tail": 1}, sparse=True, unique=True),
                    _index(
                        "root",
                        {"root_id": 1, "_id": -1},
                        partialFilterExpression={"root_id": {"$exists": True}},
                    ),
                    _index(
                        "stopped",
                        {"state": 1, "_id": -1},
                        partialFilterExpression={
                            "state": {"$in": ["blocked", "failed", "cancelled"]}
                        },
                    ),
                    _index(
                        "failures",
                        {"state": 1, "fingerprint": 1, "_id": -1, "finished_at": 1},
                        partialFilterExpression={"state": "failed"},
                    ),
                    _index("blockers", {"blockers": 1}, sparse=True),
                    _index(
                        "dedup",
                        {"dedup_key": 1, "type": 1},
                        partialFilterExpression={"dedup_key": {"$exists": True}},
                    ),
                ],
                names.dedup: [_index("used_at", {"used_at": 1}, expireAfterSeconds=KEYS_LIVE)],
                names.staged_job: [_index("batch", {"batch": 1})],
            },
        ),
        MongoMigration(
            2,
            "0002_schedules",
            # A partial index cannot ask for a field that is missing; null finds both.
            {
                names.schedule: [
                    _index("due", {"next_at": 1}, partialFilterExpression={"paused_at": None})
                ]
            },
        ),
        MongoMigration(3, "0003_limits", {}),  # fields need no preparation
        MongoMigration(
            4,
            "0004_keys",
            # For claims by key. Jobs without a key are not in it.
            {
                names.job: [
                    _index(
                        "keyed",
                        {"queue": 1, "priority": 1, "key": 1, "run_at": 1, "_id": 1},
                        partialFilterExpression={"state": "pending", "key": {"$exists": True}},
                    )
                ]
            },
        ),
    ]


async def applied_migrations(
    database: AsyncDatabase[Document], names: CollectionNames
) -> dict[int, datetime]:
    """Versions that were applied, with their times."""
    found = await database[names.migration].find().to_list()
    return {document["_id"]: moment(document["applied_at"]) for document in found}


async def apply_migrations(database: AsyncDatabase[Document], names: CollectionNames) -> list[str]:
    """Apply the missing migrations; their names."""
    done = await applied_migrations(database, names)
    applied: list[str] = []
    for migration in migrations(names):
        if migration.version in done:
            continue
        for collection, indexes in migration.indexes.items():
            await database[collection].create_indexes(indexes)
        written = await database[names.migration].update_one(
            {"_id": migration.version},
            [
                {
                    "$set": {
                        "name": {"$ifNull": ["$name", migration.name]},
                        "applied_at": {"$ifNull": ["$applied_at", NOW]},
                    }
                }
            ],
            upsert=True,
        )
        if written.upserted_id is not None:  # else another process was quicker
            applied.append(migration.name)
    return applied


def _index(name: str, keys: dict[str, int], **options: Any) -> IndexModel:
    return IndexModel(list(keys.items()), name=name, **options)
