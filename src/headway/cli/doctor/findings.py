"""Findings, by how bad they are."""

from __future__ import annotations

from headway.cli.json_results import Finding


def ok(subject: str, finding: str) -> Finding:
    return Finding(level="ok", subject=subject, finding=finding)


def warn(subject: str, finding: str, advice: str) -> Finding:
    """It works, and may hurt."""
    return Finding(level="warn", subject=subject, finding=finding, advice=advice)


def fail(subject: str, finding: str, advice: str) -> Finding:
    """It does not work, or loses something."""
    return Finding(level="fail", subject=subject, finding=finding, advice=advice)
