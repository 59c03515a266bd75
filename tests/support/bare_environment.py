"""Environments for programs that must run without what the tests have installed."""

from __future__ import annotations

import re
import sysconfig
import tomllib
import venv
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

LIBRARIES = Path(sysconfig.get_path("purelib"))
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def requirements(*extras: str) -> list[str]:
    """The names of the packages that Headway needs, with these extras."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    needed = [*project["dependencies"]]
    for extra in extras:
        needed += project["optional-dependencies"][extra]
    return [re.split(r"[><=;\[]", each)[0].strip() for each in needed]


def bare_environment(folder: Path, packages: Iterable[str]) -> Path:
    """The interpreter of a new environment that has only these packages, as links to the installed
    ones: nothing is downloaded, and it takes no time. Dependencies are not followed, and packages
    that this Python does without are left out."""
    venv.EnvBuilder(symlinks=True).create(folder)
    (libraries,) = folder.glob("lib/python*/site-packages")
    for package in packages:
        try:
            files = distribution(package).files or []
        except PackageNotFoundError:
            continue
        for top in {file.parts[0] for file in files if file.parts[0] != ".."}:
            (libraries / top).symlink_to(LIBRARIES / top)
    return folder / "bin" / "python"
