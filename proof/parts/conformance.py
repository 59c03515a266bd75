"""Part conformance: every store keeps every promise of the suite; so a fence line that goes missing
in a store makes the proof fail."""

from __future__ import annotations

from contextlib import ExitStack

from proof.tools.conformance_run import first_failure
from proof.tools.part_run import PartRun
from tests.support.servers.mongodb import MongoReplicaSet, MongoServer
from tests.support.servers.postgres import PostgresServer


def prove(run: PartRun) -> None:
    with ExitStack() as stack:
        places = {"memory": "", "sqlite": ""}
        if not run.short:  # the test suite runs it on every server at hand
            server = stack.enter_context(PostgresServer())
            places["postgres"] = server.url(server.create_database())
            if MongoServer.find() is None:
                run.leave_out("the suite on MongoDB: no mongod that runs here")
            else:
                places["mongodb"] = stack.enter_context(MongoReplicaSet()).url("conformance")
        for kind, dsn in places.items():
            tried, failure = first_failure(kind, dsn)
            run.check(failure is None, f"{kind}: {failure}")
            run.figure(f"cases on {kind}", tried)
