"""Behaviour: what repeats, waits and reacts. Knows the ports, never a vendor."""
