"""What happens once a change is committed: notifiers wake workers and waiters, observers get events.
Client, worker and admin tell it what was committed.
"""
