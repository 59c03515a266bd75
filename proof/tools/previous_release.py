"""The release before this one, built from its commit. Its processes import it from a folder that
comes first on their path; its dependencies are those of this environment."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Release(NamedTuple):
    version: str
    commit: str


PREVIOUS = Release("0.1.0 with schedules", "4c83462622bd33758cf66d4d997307de786ac852")
"""The newest release that users can have. Set it anew right after each release."""


class ReleaseMissing(Exception):
    """The release cannot be built here; the message says why."""


class PreviousRelease:
    """Built and unpacked in `folder`."""

    def __init__(self, folder: Path) -> None:
        source, self.path = folder / "source", folder / "unpacked"
        with tarfile.open(fileobj=io.BytesIO(_archive())) as archive:
            archive.extractall(source, filter="data")
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
            cwd=source,
            capture_output=True,
            check=True,
        )
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as content:
            content.extractall(self.path)
        shutil.rmtree(source)

    def environment(self) -> dict[str, str]:
        """Of a process that runs this release."""
        return {**os.environ, "PYTHONPATH": str(self.path)}

    def run(self, *arguments: str) -> str:
        """`python ARGUMENTS` with this release, until it ends; its output."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()


def _archive() -> bytes:
    """The files of the release's commit, as a tar archive."""
    try:
        done = subprocess.run(
            ["git", "archive", PREVIOUS.commit], cwd=ROOT, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise ReleaseMissing("git is not installed") from None
    if done.returncode:
        raise ReleaseMissing(
            f"the commit {PREVIOUS.commit[:7]} of version {PREVIOUS.version} is not in this copy's "
            "history; clone the whole repository"
        )
    return done.stdout
