"""Finds changed Python files by polling."""

from __future__ import annotations

import os
from pathlib import Path

MOST_FILES = 5_000
"""Most files watched; a folder with more is not one app's."""
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})

Seen = dict[str, tuple[int, int]]


class Watcher:
    """The Python files of a folder and those below it, without hidden ones and environments."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = self._look()

    def changed(self) -> list[str]:
        """Names of files that were changed, created or deleted since the last call."""
        now = self._look()
        before, self._seen = self._seen, now
        return sorted(
            os.path.relpath(path, self._folder)
            for path in before.keys() | now.keys()
            if before.get(path) != now.get(path)
        )

    def _look(self) -> Seen:
        seen: Seen = {}
        folders = [str(self._folder)]
        while folders and len(seen) < MOST_FILES:
            try:
                entries = list(os.scandir(folders.pop()))
            except OSError:  # it has just gone
                continue
            if any(entry.name == "pyvenv.cfg" for entry in entries):
                continue
            for entry in entries:
                if entry.name.startswith(".") or entry.name in SKIPPED:
                    continue
                try:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.name.endswith(".py"):
                        status = entry.stat()
                        seen[entry.path] = (status.st_mtime_ns, status.st_size)
                except OSError:
                    continue
        return seen
