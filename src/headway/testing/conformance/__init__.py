"""Conformance cases for stores, notifiers and providers, as plain functions: run them against your
own.
"""
