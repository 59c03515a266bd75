"""Notifiers: one module each, and their shared parts. A notification is a hint: it may be lost.

They know domain, ports and runtime; only the app, Django and `urls` import them.
"""
