"""A library of our own that a process loads in front of the C library."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def make_shim(source: str, folder: Path) -> Path | None:
    """The compiled library, in `folder`; None where there is no compiler, or nothing to preload."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    (folder / "shim.c").write_text(source)
    library = folder / "shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "shim.c"], check=True)
    return library
