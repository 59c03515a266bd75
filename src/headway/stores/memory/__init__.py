"""The memory store: everything a store promises, except that nothing outlives the process."""

from headway.stores.memory.store import MemoryStore
from headway.stores.memory.transaction import MemoryTransaction

__all__ = ["MemoryStore", "MemoryTransaction"]
