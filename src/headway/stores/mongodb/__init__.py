"""The MongoDB store: jobs are documents of one collection.

`store` puts the parts together; each part yields commands, which `runners` execute.
"""

from headway.stores.mongodb.store import MongoStore

__all__ = ["MongoStore"]
