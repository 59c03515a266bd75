"""Run a store's statements on a connection that the user owns."""
