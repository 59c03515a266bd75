"""`make prove`: the parts of the proof, or those that are named, and one report.

python -m proof [PART...] [--short] [--seed N] [--minutes N] [--report FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import platform
import random
import sqlite3
import sys
import time
import traceback
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg

from proof.tools.part_run import Part, PartRun
from tests.support.servers.postgres import PostgresBinaries

PARTS = (
    "sim",
    "mutants",
    "conformance",
    "kill",
    "postgres",
    "network",
    "sqlite",
    "poison",
    "clocks",
    "deploy",
    "backlog",
    "schedules",
    "limits",
)
WHEN_NAMED = ("move", "failover", "mongodb", "limit_load")
"""Parts about clusters and moving between them, which take ten minutes more, and a load of an
hour."""
EVERY = PARTS + WHEN_NAMED


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m proof", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(EVERY))
    parser.add_argument("--short", action="store_true", help="less of everything: 2 to 3 minutes")
    parser.add_argument("--seed", type=int, help="what chance decides is decided the same again")
    parser.add_argument("--minutes", type=float, default=60.0, help="length of limit_load")
    parser.add_argument("--report", type=Path, default=Path("build/proof.json"))
    options = parser.parse_args()
    for part in options.parts:
        if part not in EVERY:
            parser.error(f"there is no part {part!r}; there are {', '.join(EVERY)}")
    seed = random.SystemRandom().randrange(1_000_000_000) if options.seed is None else options.seed
    options.report.parent.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.CRITICAL)  # here the database is expected to be away
    began = time.monotonic()
    report: dict[str, Any] = {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "short": options.short,
        "seed": seed,
        "versions": _versions(),
        "parts": {},
    }
    for name in options.parts or PARTS:
        report["parts"][name] = _run(name, seed, options)
        report["seconds"] = round(time.monotonic() - began, 1)
        report["ok"] = all(part["ok"] for part in report["parts"].values())
        options.report.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    _summarise(report, options.report)
    return 0 if report["ok"] else 1


def _run(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    run = PartRun(name, seed, options.short, options.minutes)
    run.say(f"begins, seed {seed}")
    random.seed(seed)
    try:
        prove: Part = importlib.import_module(f"proof.parts.{name}").prove
        prove(run)
    except Exception:
        run.fail(traceback.format_exc())
    report = run.report()
    run.say("passed" if report["ok"] else "FAILED")
    return report


def _versions() -> dict[str, Any]:
    postgres = PostgresBinaries.find()
    return {
        "headway": version("headway"),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "postgres": None if postgres is None else postgres.major,
        "psycopg": psycopg.__version__,
        "system": platform.platform(),
        "cores": os.cpu_count(),
    }


def _summarise(report: dict[str, Any], path: Path) -> None:
    print(f"\n{'part':>12}  result   seconds", file=sys.stderr)
    for name, part in report["parts"].items():
        result = "passed" if part["ok"] else "FAILED"
        print(f"{name:>12}  {result:7}  {part['seconds']:7.1f}", file=sys.stderr)
        for text in part["not verified"]:
            print(f"{'':>12}  NOT VERIFIED: {text}", file=sys.stderr)
        for text in part["failures"]:
            print(f"{'':>12}  {text}", file=sys.stderr)
    print(f"{report['seconds']:.0f} s in all; the report is in {path}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
