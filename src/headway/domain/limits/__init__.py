"""Limits as values: rates, the limits of a queue, permits, and turns of keys. No I/O. Every package
above the domain may import it.
"""
