"""The promises between the rooms, as Protocols; what may run at once is in their docstrings."""
