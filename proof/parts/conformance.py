"""Part conformance: every store keeps every promise of the suite; so a fence line that goes missing
in a store makes the proof fail."""

from __future__ import annotations

from contextlib import ExitStack

from proof.tools.conformance_run import first_failure
from proof.tools.report import Trial
from tests.support.servers.mongodb import MongoReplicaSet, MongoServer
from tests.support.servers.postgres import PostgresServer


def prove(trial: Trial) -> None:
    with ExitStack() as stack:
        places = {"memory": "", "sqlite": ""}
        if not trial.short:  # the test suite runs it on every server at hand
            server = stack.enter_context(PostgresServer())
            places["postgres"] = server.url(server.create_database())
            if MongoServer.find() is None:
                trial.leave_out("the suite on MongoDB: no mongod that runs here")
            else:
                places["mongodb"] = stack.enter_context(MongoReplicaSet()).url("conformance")
        for kind, dsn in places.items():
            tried, failure = first_failure(kind, dsn)
            trial.check(failure is None, f"{kind}: {failure}")
            trial.figure(f"cases on {kind}", tried)
