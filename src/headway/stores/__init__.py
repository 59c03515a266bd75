"""Stores keep jobs and apply changes, each guarded by its fence. A store is composed of parts, in
modules of the same names: insert, claim, settle, read, find, statistics, manage, audit, workers,
transfer, migrate."""
