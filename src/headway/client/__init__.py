"""What programs do with jobs: start, wait for, complete, cancel, retry, delete; async and sync.
`sync_client` is made from `client` by scripts/make_sync.py. The app, the operators' actions and
Django come in; the worker does not.
"""
