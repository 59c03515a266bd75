"""Runs jobs: fetch, run, commit the outcome. Leases are in `leases`, children in `isolation`.
Built on `jobs` and `after_commit`; the client does not know it.
"""
