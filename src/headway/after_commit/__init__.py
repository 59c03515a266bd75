"""After a commit: notifiers wake workers and waiters, observers are given events.
Used by client, worker and admin.
"""
