"""Leases of running jobs: the heartbeat renews them, the reaper gives expired ones back."""
