"""Values and rules. No I/O, no event loop, no vendor: testable with plain calls."""
