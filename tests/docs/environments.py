"""Environments with exactly the packages that a page tells its readers to install.

They are links to what the tests have installed: pip would do the same work for every page. That pip
can install the wheel is for tests/packaging. Headway itself comes from a wheel of this tree, which
is kept in `build/wheel` and made anew after a change.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution
from pathlib import Path

from tests.docs.pages import ROOT
from tests.support.bare_environment import bare_environment, link, with_dependencies

FOLDER = ROOT / "build" / "wheel"


def make_environment(folder: Path, requirements: Iterable[str]) -> None:
    libraries = _unpacked_wheel()
    (metadata,) = libraries.glob("headway-*.dist-info")
    headway = Distribution.at(metadata)
    python = bare_environment(folder, with_dependencies(requirements, headway))
    link(headway, libraries, python)


@cache
def _unpacked_wheel() -> Path:
    """A folder with the content of a wheel of this tree, and named after the tree's content."""
    sources = [ROOT / "pyproject.toml", *sorted((ROOT / "src").rglob("*"))]
    files = [path for path in sources if path.is_file() and path.suffix != ".pyc"]
    content = b"".join(str(path).encode() + path.read_bytes() for path in files)
    folder = FOLDER / hashlib.sha256(content).hexdigest()[:16]
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # against other processes of the same test run
        if not folder.exists():
            for old in FOLDER.glob("*/"):
                shutil.rmtree(old)
            build = FOLDER / "build"
            hatchling = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", build)
            done = subprocess.run(hatchling, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            (wheel,) = build.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(build)
            wheel.unlink()
            build.rename(folder)
    return folder
