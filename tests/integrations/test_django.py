"""The Django integration in a real project, by Django's own test runner and over HTTP."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.processes import ROOT, call, environment, free_port, running, until

SHOP = ROOT / "examples" / "django_shop"


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def test_by_djangos_own_runner(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    env = environment(
        DJANGO_SETTINGS_MODULE="tests.integrations.contract.settings",
        SHOP_FOLDER=str(tmp_path),
        SHOP_DATABASE=request.getfixturevalue("postgres_url") if database == "postgres" else "",
    )
    env["PYTHONPATH"] += f":{SHOP}"
    command = [sys.executable, "-m", "django", "test", "--noinput"]
    done = subprocess.run(
        [*command, "shop.tests", "tests.integrations.contract.cases"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ran = re.search(r"Ran (\d+) tests", done.stderr)
    assert ran is not None, done.stderr
    assert int(ran[1]) >= 25, done.stderr  # some are for one version of Django only


@pytest.mark.slow
def test_the_shop_over_http(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running(str(SHOP / "manage.py"), "serve", f"127.0.0.1:{port}", folder=tmp_path):
        status, placed = until(lambda: call(f"{url}/orders", {"cents": 1999}))
        assert status == 201, placed
        order = f"{url}/orders/{placed['order']}"
        shown = until(lambda: call(order)[1], lambda shown: shown["mailed"] == 1)
        assert shown == {"receipt": f"receipt-{placed['order']}-1999", "mailed": 1}
        assert call(f"{url}/jobs/{placed['job']}") == (200, {"state": "completed"})
        assert call(f"{url}/orders", {"cents": 0})[0] == 400
        listed = subprocess.run(
            [sys.executable, str(SHOP / "manage.py"), "headway", "jobs", "list", "--json"],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert listed.returncode == 0, listed.stderr
        assert "charge" in listed.stdout
        assert "django.task" in listed.stdout


def test_the_guide_shows_what_the_example_does() -> None:
    page = (ROOT / "docs" / "guides" / "django.md").read_text()
    blocks = re.findall(r"```py\n# (shop/\w+\.py)\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 3
    for name, code in blocks:
        assert code in (SHOP / name).read_text(), name
