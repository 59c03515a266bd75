"""Observers hear every lifecycle event."""
