"""What programs do with jobs: start, wait for, complete, cancel, retry, delete; async and sync.
Built on `jobs` and `after_commit`; the worker does not know it.
"""
