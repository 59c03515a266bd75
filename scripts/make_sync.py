"""Makes the sync client of the async one: `make sync` writes client/sync_client.py.

The text of client/client.py is taken as it is but for the replacements below, in this order; ruff
then drops the imports that are left over, and formats. A test fails while the file is out of date.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src" / "headway" / "client"
SOURCE = CLIENT / "client.py"
TARGET = CLIENT / "sync_client.py"

HEADER = "# Made from client.py by scripts/make_sync.py: change that, then run `make sync`.\n"
REPLACEMENTS = {
    r'^""".*?"""': '"""The client without an event loop, for Flask, Django and scripts."""',
    r"\basync (?=def|with)": "",
    r"\bawait ": "",
    r"\b(Client|Sequence|Completion)\b": r"Sync\1",
    r"\bAbstractAsyncContextManager\[(SyncCompletion\[\w+\])\]": r"\1",
    r"\bSyncCompletion\.open\(": "SyncCompletion(",
    r"\bany number of tasks\b": "any number of threads",
    r"\b_store\.(run|run_in)\(": r"_store.\1_sync(",
    r"\b_publisher\.publish\(": "_publisher.publish_soon(",
    r"\b_publisher\.publish_with\(": "_publisher.publish_with_sync(",
    r"\bwait_for_result\b": "wait_for_result_sync",
    r"\n +(notifier=self\._notifier,|self\._notifier = notifier)(?=\n)": "",  # it has no notifier
}


def sync_source() -> str:
    text = SOURCE.read_text("utf-8")
    for pattern, replacement in REPLACEMENTS.items():
        text, found = re.subn(pattern, replacement, text, flags=re.DOTALL)
        if not found:
            raise SystemExit(f"nothing in {SOURCE.name} matches {pattern!r}: drop or repair it")
    return _ruff("format", _ruff("check", HEADER + text, "--fix-only", "--select=F401,I"))


def _ruff(command: str, text: str, *options: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "ruff", command, "-q", *options, f"--stdin-filename={TARGET}", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


if __name__ == "__main__":
    TARGET.write_text(sync_source(), "utf-8")
