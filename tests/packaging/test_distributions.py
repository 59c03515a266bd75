"""Wheel and sdist: their contents, their metadata, and whether they work where they are unpacked.

They are built from this tree. TEST_DISTRIBUTIONS names a folder of built ones: `make dist` checks
the files that a release publishes.
"""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from configparser import ConfigParser
from email.message import Message
from pathlib import Path

import pytest

from tests.support.processes import ROOT, call, free_port, until

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
STEM = f"headway-{PROJECT['version']}"
DIST_INFO = f"{STEM}.dist-info"
VENDOR = "headway/web/static/vendor"
SHOP = """
from headway import Headway

app = Headway("sqlite:///shop.db")


@app.job
def charge(order_id: int) -> str:
    return f"receipt-{order_id}"
"""
RUN_A_JOB = """
import asyncio
from shop import app, charge


async def main() -> None:
    async with app:
        sequence = await app.start(charge.request(7))
        await app.worker().run(drain=True)
        print(await sequence.result(timeout=5))


asyncio.run(main())
"""


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    """Output of a command, without the tree's own packages on its path."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**inherited, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both; the wheel is built from this tree, like the sdist."""
    if given := os.environ.get("TEST_DISTRIBUTIONS"):
        return (ROOT / given).resolve()
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, folder=ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return built / f"{STEM}-py3-none-any.whl"


@pytest.fixture(scope="module")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the unpacked sdist."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(built / f"{STEM}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / STEM


def files_below(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return email.message_from_bytes(archive.read(f"{DIST_INFO}/METADATA"))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith(f"{DIST_INFO}/")}
    assert names == {f"headway/{name}" for name in files_below(ROOT / "src" / "headway")}
    assert "headway/py.typed" in names
    for kind in (".sql", ".html", ".css", ".js", ".svg"):
        assert any(name.endswith(kind) for name in names), kind


def test_vendored_files_come_with_their_licences(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        table = archive.read(f"{VENDOR}/README.md").decode()
    rows = re.findall(r"^\| `(\S+)` \|.*\| [\w-]+, `(\S+)` \|", table, re.MULTILINE)
    scripts = {Path(name).name for name in names if name.startswith(f"{VENDOR}/")}
    licences = {name for name in scripts if name.endswith(".LICENSE")}
    assert {file for file, _ in rows} == scripts - licences - {"README.md"}
    assert {licence for _, licence in rows} == licences
    listed = metadata(wheel).get_all("License-File", [])
    assert listed == ["LICENSE", *sorted(f"src/{VENDOR}/{name}" for name in licences)]
    assert {f"{DIST_INFO}/licenses/{name}" for name in listed} <= set(names)


def test_the_metadata_is_that_of_the_project(wheel: Path) -> None:
    found = metadata(wheel)
    assert found["Version"] == PROJECT["version"]
    assert found["Requires-Python"] == PROJECT["requires-python"]
    assert found["License-Expression"] == PROJECT["license"]
    assert found.get_all("Provides-Extra") == sorted(PROJECT["optional-dependencies"])
    assert found["Description-Content-Type"] == "text/markdown"
    needed = [each for each in found.get_all("Requires-Dist", ()) if "extra ==" not in each]
    assert [re.split(r"\W", each)[0] for each in needed] == ["msgspec", "uuid"]
    with zipfile.ZipFile(wheel) as archive:
        commands = ConfigParser()
        commands.read_string(archive.read(f"{DIST_INFO}/entry_points.txt").decode())
    assert commands["console_scripts"]["headway"] == PROJECT["scripts"]["headway"]
    assert commands["pytest11"]["headway"] == "headway.testing.plugin"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="an unpacked sdist: it has its files")
def test_the_sdist_holds_every_file_of_the_repository(unpacked: Path) -> None:
    listed = run("git", "-c", "safe.directory=*", "ls-files", "-z", folder=ROOT)
    tracked = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    held = files_below(unpacked)
    assert tracked - held == set()
    assert [name for name in held if re.search(r"\.pyc$|\.db|(^|/)\.venv|_cache/", name)] == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_tests_run_from_the_sdist(unpacked: Path) -> None:
    """All can be imported, and some are run."""
    here = {"PYTHONPATH": str(unpacked / "src")}
    where = "import headway; print(headway.__file__)"
    assert str(unpacked) in run(sys.executable, "-c", where, folder=unpacked, **here)
    some = ("-p", "no:cacheprovider", "-k", "domain and not test_filters and not schedules")
    said = run(sys.executable, "-m", "pytest", "-q", *some, folder=unpacked, **here)
    counts = re.search(r"^(\d+) passed, (\d+) deselected", said, re.MULTILINE)
    assert counts is not None, said
    assert int(counts[2]) > 5_000


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_wheel_works_where_only_its_requirements_are_installed(
    wheel: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "environment", symlinks=True)
    programs = tmp_path / "environment" / "bin"
    (tmp_path / "shop.py").write_text(SHOP)

    def install(extras: str) -> None:
        pip = (sys.executable, "-m", "pip", "--python", programs / "python", "install")
        quiet = ("--quiet", "--disable-pip-version-check", "--no-compile")
        run(*pip, *quiet, f"{wheel}{extras}", folder=tmp_path)

    install("")
    assert run(programs / "python", "-c", RUN_A_JOB, folder=tmp_path) == "receipt-7\n"
    install("[cli]")
    assert "worker" in run(programs / "headway", "--help", folder=tmp_path)
    install("[web]")
    look_at_the_dashboard(programs / "headway", tmp_path)


def look_at_the_dashboard(headway: Path, folder: Path) -> None:
    """Its pages, and the files that they load."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        [headway, "dashboard", "shop.py", "--port", str(port)],
        cwd=folder,
        env={**environment, "HEADWAY_TOKEN": "a-token-for-this-test"},
    ) as server:
        try:
            until(lambda: call(address + "/login"))
            for path in ("/", "/jobs"):
                status, page = call(address + path, token="a-token-for-this-test")
                assert status == 200
                loaded = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
                assert len(loaded) >= 4
                assert {call(address + file)[0] for file in loaded} == {200}
            assert "charge" in page
        finally:
            server.terminate()
    assert server.returncode == 0
