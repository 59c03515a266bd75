"""Notifiers wake sleepers; only ever a hint."""
