"""Process, thread and clock: forks, cancellation, an event loop in a thread, kinds of store errors.
Imported by every layer above; knows the ports only.
"""
