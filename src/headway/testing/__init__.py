"""Tools for testing: the pytest plugin, a clock that can be moved, and conformance cases for
stores, notifiers and providers of one's own."""
