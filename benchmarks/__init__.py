"""Measurements: Headway beside the raw statements, in one run."""
