"""Stores for the commands to look at."""

from __future__ import annotations

from tests.support.stores import store_urls

dsn = store_urls("sqlite", "postgres")
"""Stores that other processes can reach."""
