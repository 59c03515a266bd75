"""Handlers in child processes: the pool, the child's side, and the messages between them.
Only the runner comes in, by `processes`.
"""
