"""Headway beside other Python job queues and beside the raw statements, in one run.

What runs inside the environment of a queue (`action`, `contract`, `location`, `probe`, `queues`)
uses nothing but the standard library and that queue.
"""
