"""Makes the sync client of the async one: `make sync` writes client/sync_*.py.

The text of each module is taken as it is but for the replacements below, in this order; ruff then
drops the imports that are left over, and formats. A test fails while a file is out of date.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src" / "headway" / "client"
MODULES = {
    "client": "The client without an event loop, for Flask, Django and scripts.",
    "schedules": "Schedules at run time without an event loop: `app.sync.schedules`.",
    "store_calls": "Runs operations for a sync client, and publishes their effects.",
}
"""The modules that have a twin, and the docstrings of the twins."""

REPLACEMENTS = {
    r"\basync (?=def|with)": "",
    r"\bawait ": "",
    r"\b(Client|Sequence|Completion|Schedules|StoreCalls)\b": r"Sync\1",
    r"\bheadway\.client\.(client|store_calls)\b": r"headway.client.sync_\1",
    r"\bAbstractAsyncContextManager\[(SyncCompletion\[\w+\])\]": r"\1",
    r"\bSyncCompletion\.open\(": "SyncCompletion(",
    r"\bany number of tasks\b": "any number of threads",
    r"\b_store\.(run|run_in)\(": r"_store.\1_sync(",
    r"\b_publisher\.publish\(": "_publisher.publish_soon(",
    r"\b_publisher\.publish_with\(": "_publisher.publish_with_sync(",
    r"\bwait_for_result\b": "wait_for_result_sync",
    r"\n +(notifier=self\._notifier,|self\._notifier = notifier)(?=\n)": "",  # it has no notifier
}


def sync_sources() -> dict[Path, str]:
    """The twins by path."""
    unused = set(REPLACEMENTS)
    sources: dict[Path, str] = {}
    for name, docstring in MODULES.items():
        text = (CLIENT / f"{name}.py").read_text("utf-8")
        text = re.sub(r'^""".*?"""', f'"""{docstring}"""', text, flags=re.DOTALL)
        for pattern, replacement in REPLACEMENTS.items():
            text, found = re.subn(pattern, replacement, text, flags=re.DOTALL)
            if found:
                unused.discard(pattern)
        header = (
            f"# Made from {name}.py by scripts/make_sync.py: change that, then run `make sync`.\n"
        )
        target = CLIENT / f"sync_{name}.py"
        checked = _ruff(target, "check", header + text, "--fix-only", "--select=F401,I")
        sources[target] = _ruff(target, "format", checked)
    if unused:
        raise SystemExit(f"no module matches {unused.pop()!r}: drop or repair it")
    return sources


def _ruff(target: Path, command: str, text: str, *options: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "ruff", command, "-q", *options, f"--stdin-filename={target}", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


if __name__ == "__main__":
    for target, text in sync_sources().items():
        target.write_text(text, "utf-8")
