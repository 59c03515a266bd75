"""Connections, parameters and commands of the database drivers, for stores, notifiers and
providers. Knows domain and ports.
"""
