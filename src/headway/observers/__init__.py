"""Observers of lifecycle events: logs, Prometheus, OpenTelemetry, and the worker's HTTP endpoint.

They know domain, ports and runtime; apps and the command import them.
"""
