"""The MongoDB store."""

from headway.stores.mongodb.store import MongoStore

__all__ = ["MongoStore"]
