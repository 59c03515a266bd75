"""Tools for testing: conformance cases for stores, a clock that can be moved."""
