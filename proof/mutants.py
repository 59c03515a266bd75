"""Part mutants: bugs are planted one at a time, and each must be found within a minute."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from proof.planted import Bug, bugs
from proof.trial import Trial
from tests.servers import PostgresServer

ROOT = Path(__file__).parents[1]
LIMIT = 60.0
CORES = 2


def prove(trial: Trial) -> None:
    planted = bugs()
    if trial.short:  # one of each kind: those that the simulation sees, and a statement per store
        planted = [
            bug
            for bug in planted
            if bug.finder in {"sim", "stopping", "late_commit"} or "complete.sql" in bug.name
        ]
    with PostgresServer() as server, ThreadPoolExecutor(CORES) as pool:
        names = {bug.name: server.url(server.create_database()) for bug in planted}
        answers = pool.map(lambda bug: (bug, _find(bug, names[bug.name])), planted)
        found: dict[str, Any] = {}
        for bug, answer in answers:
            found[bug.name] = answer
            seen = answer.get("found") and answer["seconds"] <= LIMIT
            trial.check(bool(seen), f"the planted bug {bug.name!r} was not found: {answer}")
            trial.say(f"{bug.name}: {answer.get('finder')}, {answer.get('seconds')} s")
    trial.figures["planted"] = len(planted)
    trial.figures["bugs"] = found


def _find(bug: Bug, dsn: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "proof.planted", bug.name, dsn],
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
