"""Environments for programs that must run without what the tests have installed."""

from __future__ import annotations

import contextlib
import csv
import re
import sysconfig
import tomllib
import venv
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LIBRARIES = Path(sysconfig.get_path("purelib"))
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
_SCRIPT = """#!{python}
import sys
from {module} import {function}
sys.exit({function}())
"""


def requirements(*extras: str) -> list[str]:
    """The names of the packages that Headway needs, with these extras."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    needed = [*project["dependencies"]]
    for extra in extras:
        needed += project["optional-dependencies"][extra]
    return [re.split(r"[><=;\[]", each)[0].strip() for each in needed]


def with_dependencies(wanted: Iterable[str], headway: Distribution) -> set[str]:
    """The names of the packages that pip would install beside Headway for these requirements."""
    names: set[str] = set()
    looked_at: set[tuple[str, str]] = set()
    todo = [Requirement(each) for each in wanted]
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        found = headway if name == "headway" else _installed(name)
        assert found.version in requirement.specifier, (
            f"{requirement}: {found.version} is installed"
        )
        names.add(name)
        for extra in {"", *requirement.extras} - {extra for of, extra in looked_at if of == name}:
            looked_at.add((name, extra))
            todo += [
                needed
                for needed in map(Requirement, found.requires or ())
                if needed.marker is None or needed.marker.evaluate({"extra": extra})
            ]
    return names - {"headway"}


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise AssertionError(f"{name} is missing: add it to requirements/test.txt") from None


def bare_environment(folder: Path, packages: Iterable[str]) -> Path:
    """The interpreter of a new environment that has only these packages, as links to the installed
    ones: nothing is downloaded, and it takes no time. Dependencies are not followed, and packages
    that this Python does without are left out."""
    venv.EnvBuilder(symlinks=True).create(folder)
    python = folder / "bin" / "python"
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            link(distribution(package), LIBRARIES, python)
    return python


def link(installed: Distribution, libraries: Path, python: Path) -> None:
    """Give the environment of this interpreter a package of another environment's libraries."""
    (own,) = python.parents[1].glob("lib/python*/site-packages")
    for path in _own_paths(installed):
        (own / path).parent.mkdir(parents=True, exist_ok=True)
        (own / path).symlink_to(libraries / path)
    for command in installed.entry_points.select(group="console_scripts"):
        script = python.with_name(command.name)
        script.write_text(
            _SCRIPT.format(python=python, module=command.module, function=command.attr)
        )
        script.chmod(0o755)


def _own_paths(installed: Distribution) -> set[str]:
    """Files and folders at the top that belong to this package alone, and the single files of
    folders that several share, such as `opentelemetry`."""
    files = _files(installed)
    return {top if _shares()[top] < 2 else file for file in files for top in [_top(file)]}


@cache
def _shares() -> Counter[str]:
    """How many packages have something there, of each file and folder at the top."""
    return Counter(
        top
        for installed in distributions(path=[str(LIBRARIES)])
        for top in {_top(file) for file in _files(installed)}
    )


def _files(installed: Distribution) -> list[str]:
    """Without scripts and bytecode. `Distribution.files` would take seconds for all packages."""
    lines = (installed.read_text("RECORD") or "").splitlines()
    names = [row[0] for row in csv.reader(lines)]
    return [name for name in names if not name.startswith("../") and "__pycache__/" not in name]


def _top(file: str) -> str:
    return file.partition("/")[0]
