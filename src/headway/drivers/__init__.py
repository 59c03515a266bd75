"""What is needed of a database driver by more than one of stores, notifiers and providers: addresses,
parameters, commands. Knows domain and ports, and no part above.
"""
