"""Part conformance: every store keeps every promise of the suite; so a fence line that goes missing
in a store's SQL makes the proof fail."""

from __future__ import annotations

from proof.conforming import first_failure
from proof.trial import Trial
from tests.servers import PostgresServer


def prove(trial: Trial) -> None:
    with PostgresServer() as server:
        for kind in ("memory", "sqlite", "postgres"):
            if trial.short and kind == "postgres":
                continue  # the test suite runs it on every server at hand
            dsn = server.url(server.create_database()) if kind == "postgres" else ""
            tried, failure = first_failure(kind, dsn)
            trial.check(failure is None, f"{kind}: {failure}")
            trial.figure(f"cases on {kind}", tried)
