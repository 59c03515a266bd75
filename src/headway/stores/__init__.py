"""Stores: they keep jobs and apply what was decided, guarded by the fence."""
