"""What the parts share: worker processes, a producer, databases, and the invariants they check."""
