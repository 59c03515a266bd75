"""Headway beside other Python job queues and beside the raw statements, in one run.

What runs inside a queue's own environment (`acting`, `contract`, `place`, `probe`, `queues`) uses
nothing but the standard library and that queue.
"""
