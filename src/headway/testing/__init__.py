"""Tools for tests: the pytest plugin, an app under test, a clock that can be moved, and conformance
cases for stores, notifiers and providers. Users of Headway import from here, and nothing else does.
"""
