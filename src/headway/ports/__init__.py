"""Interfaces between the packages, as Protocols; their docstrings say what is thread-safe.

They know the domain only; every package above may use them.
"""
