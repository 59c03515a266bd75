"""Diagnoses by level."""

from __future__ import annotations

from headway.cli.json_results import Diagnosis


def ok(subject: str, finding: str) -> Diagnosis:
    return Diagnosis(level="ok", subject=subject, finding=finding)


def warn(subject: str, finding: str, advice: str) -> Diagnosis:
    """It works, but may cause trouble."""
    return Diagnosis(level="warn", subject=subject, finding=finding, advice=advice)


def fail(subject: str, finding: str, advice: str) -> Diagnosis:
    """It does not work, or loses something."""
    return Diagnosis(level="fail", subject=subject, finding=finding, advice=advice)
