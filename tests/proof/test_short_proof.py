"""The short version of `make prove`, so that every run of the tests has it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_short_proof(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "proof", "--short", "--report", path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(path.read_text())
    failures = {name: part["failures"] for name, part in report["parts"].items() if not part["ok"]}
    assert not failures, f"seed {report['seed']}: {failures}"
    assert done.returncode == 0
