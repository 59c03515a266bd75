"""Compiles a library that is preloaded to replace functions of the C library."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def compile_library(source: str, folder: Path) -> Path | None:
    """The compiled library, in `folder`; None without a compiler or outside Linux."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    (folder / "preloaded.c").write_text(source)
    library = folder / "preloaded.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, folder / "preloaded.c"], check=True
    )
    return library
