"""Limits under load: queues with limits, a load for them, and a record of every permit."""
