"""Handlers in child processes: the pool of processes, the child itself, and the messages between them."""
