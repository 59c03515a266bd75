"""The Django integration in a real project, by Django's own test runner and over HTTP."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.processes import ROOT, call, environment, free_port, running, until

SHOP = ROOT / "examples" / "django_shop"


@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgres", marks=[pytest.mark.long, pytest.mark.slow])]
)
def test_by_djangos_own_runner(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    env = environment(
        DJANGO_SETTINGS_MODULE="tests.frameworks.contract.settings",
        SHOP_FOLDER=str(tmp_path),
        SHOP_DATABASE=request.getfixturevalue("postgres_url") if database == "postgres" else "",
    )
    env["PYTHONPATH"] += f":{SHOP}"
    command = [sys.executable, "-m", "django", "test", "--noinput"]
    done = subprocess.run(
        [*command, "shop.tests", "tests.frameworks.contract.cases"],
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


DEPOT = {
    "settings.py": """
        from importlib.util import find_spec

        FRAMEWORK = "django.tasks" if find_spec("django.tasks") else "django_tasks"
        USE_TZ = True
        INSTALLED_APPS = ["headway.django", "depot", "foreign"]
        DATABASES = {
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "depot.sqlite3"},
        }
        TASKS = {
            "default": {"BACKEND": "depot.backend.Backend", "QUEUES": []},
            "other": {"BACKEND": f"{FRAMEWORK}.backends.dummy.DummyBackend"},
        }
    """,
    "backend.py": """
        from headway.django.tasks import HeadwayBackend

        class Backend(HeadwayBackend):
            pass
    """,
    "tasks.py": """
        try:
            from django.tasks import task
        except ImportError:
            from django_tasks import task

        @task(queue_name="heavy")
        def load(crate: int) -> int:
            return crate
    """,
    "enqueue.py": """
        import django

        django.setup()
        from depot.tasks import load

        load.enqueue(1)
        load.using(queue_name="made-up").enqueue(2)
    """,
    "__init__.py": "",
}


def test_a_worker_serves_the_queues_that_tasks_name_where_any_is_allowed(tmp_path: Path) -> None:
    package = tmp_path / "depot"
    package.mkdir()
    for name, text in DEPOT.items():
        (package / name).write_text(textwrap.dedent(text))
    foreign = tmp_path / "foreign"  # somebody else's app, with tasks for a queue that is not here
    foreign.mkdir()
    (foreign / "__init__.py").touch()
    (foreign / "tasks.py").write_text("import another_queue\n")
    env = environment(DJANGO_SETTINGS_MODULE="depot.settings")
    env["PYTHONPATH"] += f":{tmp_path}"

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def waiting() -> list[str]:
        listed = python("-m", "django", "headway", "jobs", "list", "state:pending", "--json")
        return re.findall(r'"queue": ?"([^"]+)"', listed)

    python("-m", "django", "migrate", "-v", "0")
    python("-m", "depot.enqueue")
    assert sorted(waiting()) == ["heavy", "made-up"]
    python("-m", "django", "headway", "worker", "--drain")
    assert waiting() == ["made-up"], "no task that the worker can find names it"
    python("-m", "django", "headway", "worker", "--drain", "--queues", "made-up")
    assert waiting() == []


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
        assert "shop.tasks.mail_receipt" in listed.stdout
