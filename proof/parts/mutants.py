"""Part mutants: bugs are planted one at a time, and each must be found within a minute."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from proof.mutants.planted import Bug, bugs
from proof.tools.part_run import PartRun
from tests.support.servers.mongodb import MongoReplicaSet, MongoServer
from tests.support.servers.postgres import PostgresServer

ROOT = Path(__file__).parents[2]
LIMIT = 60.0
CORES = 2


def prove(run: PartRun) -> None:
    planted = bugs()
    if run.short:  # what is seen in moments, and a statement per store
        planted = [
            bug
            for bug in planted
            if bug.finder in {"sim", "memory", "stopping", "late_commit"}
            or "complete.sql" in bug.name
        ]
    if MongoServer.find() is None:
        run.leave_out("bugs planted into the MongoDB store: no mongod that runs here")
        planted = [bug for bug in planted if bug.finder != "mongodb"]
    with ExitStack() as stack:
        places = _places(planted, stack)
        pool = stack.enter_context(ThreadPoolExecutor(CORES))
        answers = pool.map(lambda bug: (bug, _find(bug, places[bug.name])), planted)
        found: dict[str, Any] = {}
        for bug, answer in answers:
            found[bug.name] = answer
            seen = answer.get("found") and answer["seconds"] <= LIMIT
            run.check(bool(seen), f"the planted bug {bug.name!r} was not found: {answer}")
            run.say(f"{bug.name}: {answer.get('finder')}, {answer.get('seconds')} s")
    run.figures["planted"] = len(planted)
    run.figures["bugs"] = found


def _places(planted: list[Bug], stack: ExitStack) -> dict[str, str]:
    """A database for each of them."""
    server = stack.enter_context(PostgresServer())
    places = {bug.name: server.url(server.create_database()) for bug in planted}
    on_mongodb = [bug for bug in planted if bug.finder == "mongodb"]
    if on_mongodb:
        replica_set = stack.enter_context(MongoReplicaSet())
        for number, bug in enumerate(on_mongodb):
            places[bug.name] = replica_set.url(f"mutant{number}")
    return places


def _find(bug: Bug, dsn: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "proof.mutants.planted", bug.name, dsn],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=LIMIT * 3,
        check=False,
    )
    if done.returncode:
        return {"error": done.stderr[-2000:]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
