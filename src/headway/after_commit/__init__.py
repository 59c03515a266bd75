"""What follows a commit: notifiers wake workers and waiters, observers are given events.
Client, worker and admin tell it what was committed.
"""
