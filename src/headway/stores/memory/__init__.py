"""The memory store, for tests and trials: its jobs end with the process.

`store` puts the parts together; `table` holds the jobs.
"""

from headway.stores.memory.store import MemoryStore
from headway.stores.memory.transaction import MemoryTransaction

__all__ = ["MemoryStore", "MemoryTransaction"]
