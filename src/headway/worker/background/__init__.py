"""What a worker does beside its jobs: it fires schedules, prunes, and writes progress reports. Only
`worker_run` uses it."""
