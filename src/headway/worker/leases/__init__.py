"""Leases of running jobs: renewed by the heartbeat, given back by the reaper once they have expired."""
