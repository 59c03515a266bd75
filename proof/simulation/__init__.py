"""Clients and workers as they are, on virtual time, with faults that a seed decides."""
