"""What stores, notifiers and providers share about a database driver: addresses, parameters,
commands. Knows domain and ports.
"""
