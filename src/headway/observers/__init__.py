"""Observers of events: logs, metrics, traces, Sentry, alerts, and the worker's HTTP endpoint.

They know domain, ports and runtime; apps and the command import them.
"""
