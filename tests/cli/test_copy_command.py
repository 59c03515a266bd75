"""`headway copy` as an operator runs it: FROM stays as it is, and nothing can run twice."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import command, printed
from tests.cli.populated_store import populate


def test_copies_what_has_completed(sqlite_path: Path, postgres_url: str) -> None:
    source = f"sqlite:///{sqlite_path}"
    jobs = populate(source)
    assert command("migrate", "up", postgres_url).exit_code == 0
    before = printed("jobs", "list", "-a", source)

    refused = command("copy", source, postgres_url)
    assert refused.exit_code == 5
    assert "copy the completed jobs (3 jobs) from " in refused.stderr
    assert "--yes" in refused.stderr
    assert printed("jobs", "list", "-a", postgres_url)["jobs"] == []

    done = command("copy", source, postgres_url, "--yes")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("3 jobs copied in ")
    assert (
        "not copied: 6 jobs, because they can still run or belong to jobs that can" in done.stderr
    )
    assert "with --history also cancelled ones" in done.stderr
    assert printed("jobs", "list", "-a", source) == before
    copied = printed("jobs", "list", "-a", postgres_url)["jobs"]
    assert {job["state"] for job in copied} == {"completed"}
    assert {jobs.completed, jobs.sequence} < {job["id"] for job in copied}

    again = command("copy", source, postgres_url, "--yes", "--json")
    assert json.loads(again.stdout)["copied"] == 0


def test_a_mistyped_source_is_not_made(sqlite_path: Path) -> None:
    refused = command("copy", f"sqlite:///{sqlite_path}", f"sqlite:///{sqlite_path}.new", "--yes")
    assert refused.exit_code == 4
    assert f"there is no file {sqlite_path}; name another" in refused.stderr
    assert list(sqlite_path.parent.iterdir()) == []


def test_what_cannot_be_copied_is_refused(sqlite_path: Path) -> None:
    source = f"sqlite:///{sqlite_path}"
    populate(source)
    for target, reason in ((source, "the same store"), ("memory://", "cannot be moved or copied")):
        refused = command("copy", source, target, "--yes")
        assert refused.exit_code == 2
        assert reason in refused.stderr
