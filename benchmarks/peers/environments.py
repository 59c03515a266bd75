"""An environment per library, made when it is first needed, from the pins in one file."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINS = Path(__file__).with_name("pins.toml")
INSTALL_LIMIT = 600.0


@dataclass(frozen=True)
class Environment:
    name: str
    requirements: tuple[str, ...]
    peers: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return ROOT / ".venvs" / "peers" / self.name

    @property
    def python(self) -> Path:
        """The project's own interpreter where nothing is required."""
        return self.folder / "bin" / "python" if self.requirements else Path(sys.executable)

    def install(self) -> bool:
        """Make the environment unless it is there as pinned; whether there was something to do.

        Raises RuntimeError with what the installer said.
        """
        if not self.requirements:
            return False
        wanted = "\n".join(self.requirements)
        stamp = self.folder / "pins"
        if stamp.exists() and stamp.read_text() == wanted:
            return False
        for command in self._commands():
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_LIMIT, check=False
            )
            if done.returncode:
                said = [line for line in done.stderr.splitlines() if "WARNING" not in line]
                raise RuntimeError(f"could not be installed: {' '.join(said[-2:])}")
        stamp.write_text(wanted)
        return True

    def _commands(self) -> list[list[str]]:
        folder = str(self.folder)
        if uv := shutil.which("uv"):
            return [
                [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, folder],
                [uv, "pip", "install", "--quiet", "--python", str(self.python), *self.requirements],
            ]
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        return [[sys.executable, "-m", "venv", folder], [*pip, *self.requirements]]


def load_environments() -> dict[str, Environment]:
    pins = tomllib.loads(PINS.read_text())
    return {
        name: Environment(name, tuple(each["requirements"]), tuple(each["peers"]))
        for name, each in pins.items()
    }


def environments_by_peer() -> dict[str, Environment]:
    """In the order in which they are measured and listed."""
    return {peer: each for each in load_environments().values() for peer in each.peers}
