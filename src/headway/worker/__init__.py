"""Runs jobs: claim, run, commit the outcome. `claims` has the fetcher, `leases` the heartbeat,
`isolation` child processes. Built on `jobs` and `after_commit`; `client` does not import it.
"""
