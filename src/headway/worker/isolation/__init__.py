"""Handlers in child processes: the pool, the child itself, and the messages between them."""
