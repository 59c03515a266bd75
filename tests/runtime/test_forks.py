"""Forking after use: a child never uses its parent's connections, threads or locks."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stores import store_urls

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0


def run(parent: str, url: str, cwd: Path) -> None:
    """In a session of its own, so that nothing survives it."""
    environment = {**os.environ, "SHOP_URL": url, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    process = subprocess.Popen(
        [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            "-m",
            "tests.runtime.forking_parents",
            parent,
        ],
        env=environment,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, output) == (0, "")


store_url = store_urls("sqlite", "postgres", pytest.param("mongodb", marks=pytest.mark.long))


@pytest.mark.slow
@pytest.mark.parametrize(
    "parent",
    [
        "pool",
        "worker_in_a_child",
        "notifications",
        *(
            pytest.param(parent, marks=pytest.mark.long)
            for parent in (
                "forkserver",
                "prefork",
                "preload",
                "grandchildren",
                "worker_from_before",
            )
        ),
    ],
)
def test_parent_and_children_each_have_their_own(
    parent: str, store_url: str, tmp_path: Path
) -> None:
    run(parent, store_url, tmp_path)


def test_an_sqlite_file_in_use_is_refused(tmp_path: Path) -> None:
    run("open_transaction", f"sqlite:///{tmp_path}/shop.db", tmp_path)


def test_a_copy_of_the_memory_store_is_refused(tmp_path: Path) -> None:
    run("memory", "memory://", tmp_path)


def test_a_fork_waits_for_those_who_use_executors(tmp_path: Path) -> None:
    run("waiting_for_threads", "memory://", tmp_path)
