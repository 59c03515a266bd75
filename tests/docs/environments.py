"""Environments with exactly the packages that a page tells its readers to install.

Pages with the same packages share an environment. Environments are kept in `build/environments` for
later runs. Headway itself comes from a wheel of this tree, and is replaced after a change of it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.docs.pages import ROOT

FOLDER = ROOT / "build" / "environments"
_HEADWAY = re.compile(r"headway(?P<extras>\[[\w,]+\])?$")


def environment(requirements: frozenset[str]) -> Path:
    """The folder of the environment. It is made anew if Headway's dependencies have changed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dependencies = _digest(json.dumps(project).encode())
    folder = FOLDER / _digest(json.dumps([sys.version, sorted(requirements)]).encode())
    wheel = _wheel()
    ready = folder / "ready"
    with _lock(folder.name):
        made_of = ready.read_text().split() if ready.exists() else [None, None]
        if made_of[0] != dependencies:
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, requirements, wheel)
        elif made_of[1] != wheel.parent.name:
            _replace_headway(folder, wheel)
        ready.write_text(f"{dependencies} {wheel.parent.name}")
    return folder


def _make(folder: Path, requirements: frozenset[str], wheel: Path) -> None:
    packages = [_from_wheel(requirement, wheel) for requirement in sorted(requirements)]
    if uv := shutil.which("uv"):
        _run(uv, "venv", "--quiet", "--python", sys.executable, str(folder))
        _run(uv, "pip", "install", "--quiet", "--python", str(folder), *packages)
    else:
        _run(sys.executable, "-m", "venv", "--without-pip", str(folder))
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
        _run(*pip, "install", "--quiet", "--disable-pip-version-check", *packages)


def _from_wheel(requirement: str, wheel: Path) -> str:
    headway = _HEADWAY.match(requirement)
    return f"{wheel}{headway['extras'] or ''}" if headway else requirement


def _replace_headway(folder: Path, wheel: Path) -> None:
    """Dependencies and scripts are the same as before: only the package's files have changed."""
    (packages,) = (folder / "lib").glob("python*/site-packages")
    for old in packages.glob("headway*"):
        shutil.rmtree(old)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)


@cache
def _wheel() -> Path:
    """A wheel of this tree, in a folder that is named after the tree's content."""
    sources = [ROOT / "pyproject.toml", *sorted((ROOT / "src").rglob("*"))]
    files = [path for path in sources if path.is_file() and path.suffix != ".pyc"]
    content = b"".join(str(path).encode() + path.read_bytes() for path in files)
    folder = FOLDER / "wheels" / _digest(content)
    with _lock("wheels"):
        if not any(folder.glob("*.whl")):
            shutil.rmtree(folder.parent, ignore_errors=True)
            if uv := shutil.which("uv"):
                _run(uv, "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT))
            else:
                pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation"]
                _run(*pip, "--no-deps", "--wheel-dir", str(folder), str(ROOT))
        (wheel,) = folder.glob("*.whl")
    return wheel


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """Against other processes of the same test run."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
