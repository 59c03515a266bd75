"""The short version of `make prove`. Left out are the mutants, which take minutes, and the kills
and crashes, which `tests/system/kills` has as well. The seed is fixed: new ones are for
`make prove` to try."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import not_verified

ROOT = Path(__file__).parents[2]
PARTS = (
    "sim",
    "network",
    "sqlite",
    "poison",
    "clocks",
    "deploy",
    "backlog",
    "schedules",
    "limits",
)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_the_short_proof(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "proof", *PARTS, "--short", "--seed", "7", "--report", path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(path.read_text())
    failures = {name: part["failures"] for name, part in report["parts"].items() if not part["ok"]}
    assert not failures, f"seed {report['seed']}: {failures}"
    assert done.returncode == 0
    if left_out := report["parts"]["deploy"]["not verified"]:
        not_verified("; ".join(left_out))
