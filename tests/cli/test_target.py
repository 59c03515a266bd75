"""Which app a command means: named, from the environment, or found in the folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.command import command, printed

APP = """
from headway import Headway

app = Headway("sqlite:///{name}.db")


@app.job
async def ping() -> None: ...
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, where modules are found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    return tmp_path


def write(folder: Path, name: str) -> None:
    (folder / name).write_text(APP.format(name=name.removesuffix(".py")))


def settings(*arguments: str, **environment: str | None) -> dict[str, tuple[str, str]]:
    shown = printed("config", "show", *arguments, env=environment)
    return {each["name"]: (each["value"], each["source"]) for each in shown}


def test_an_argument_and_an_option_mean_the_same(folder: Path) -> None:
    write(folder, "shop.py")
    as_argument = settings("shop.py")
    assert as_argument["target"] == ("shop.py", "command line")
    assert as_argument["store"] == ("SQLite file shop.db", "the app")
    assert settings("--app", "shop.py") == as_argument == settings("-a", "shop.py")
    assert settings("shop:app")["store"] == as_argument["store"]


def test_the_environment_comes_next(folder: Path) -> None:
    write(folder, "shop.py")
    write(folder, "app.py")
    named = settings(HEADWAY_APP="shop.py")
    assert named["target"] == ("shop.py", "HEADWAY_APP")
    assert settings("app.py", HEADWAY_APP="shop.py")["target"][0] == "app.py"


def test_then_the_files_of_this_folder(folder: Path) -> None:
    (folder / "app.py").write_text("raise SystemExit('not ours')")
    write(folder, "jobs.py")
    assert settings()["target"] == ("jobs.py", "found in this folder")


def test_then_the_default_database(folder: Path) -> None:
    assert command("migrate", "up", "sqlite:///headway.db").exit_code == 0
    assert settings()["target"] == ("sqlite:///headway.db", "found in this folder")


def test_nothing_found_says_what_to_write() -> None:
    result = command("stats")
    assert result.exit_code == 2
    assert "name the app: --app app.py" in result.stderr


def test_named_twice() -> None:
    result = command("stats", "sqlite:///a.db", "-a", "sqlite:///b.db")
    assert (result.exit_code, "name the app once" in result.stderr) == (2, True)


def test_a_mistyped_file_is_not_made(folder: Path) -> None:
    result = command("jobs", "list", "-a", "sqlite:///typo.db")
    assert result.exit_code == 4
    assert "there is no file typo.db" in result.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        ("nowhere.py", 2, "there is no file nowhere.py here"),
        ("nowhere:app", 2, "there is no module 'nowhere' here"),
        ("two.py", 2, "two should hold one Headway app (found: first, second)"),
        ("broken.py", 1, "broken cannot be imported"),
        ("broken.py", 1, "ZeroDivisionError: division by zero"),
        ("mysql://localhost", 2, "unknown scheme 'mysql'"),
        ("http://localhost:1", 2, "needs the app or its database, not a server"),
    ],
)
def test_what_cannot_be_used(folder: Path, text: str, code: int, sentence: str) -> None:
    (folder / "two.py").write_text(
        "from headway import Headway\nfirst = Headway('memory://')\nsecond = Headway('memory://')\n"
    )
    (folder / "broken.py").write_text("one = 1\ntwo = one / 0\n")
    result = command("migrate", "status", text)
    assert result.exit_code == code
    assert sentence in result.stderr
    assert "importlib" not in result.stderr


def test_secrets_are_masked() -> None:
    dsn = "postgresql://me:p%40ss@db.example/shop?password=hunter2"
    result = command("config", "show", "--json", dsn, env={"HEADWAY_TOKEN": "secret-token"})
    assert result.exit_code == 0, result.stderr
    for secret in ("p%40ss", "p@ss", "hunter2", "secret-token"):
        assert secret not in result.stdout


def test_where_a_worker_setting_comes_from(folder: Path) -> None:
    (folder / "shop.py").write_text(
        APP.format(name="shop").replace("@app.job", "@app.job(queue='mail', retention=3600)")
    )
    shown = settings("shop.py", HEADWAY_WORKER_CONCURRENCY="7", HEADWAY_WORKER_LEASE="1m")
    assert shown["worker.concurrency"] == ("7", "HEADWAY_WORKER_CONCURRENCY")
    assert shown["worker.lease_for"] == ("1m", "HEADWAY_WORKER_LEASE")
    assert shown["worker.queues"] == ("mail", "the job types")
    assert shown["worker.grace"] == ("30 s", "default")
    assert shown["worker.retention_by_type"][1] == "the job types"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    result = command("completion", shell)
    assert result.exit_code == 0
    assert "_HEADWAY_COMPLETE" in result.stdout


def test_filters_are_completed() -> None:
    result = command(
        env={
            "_HEADWAY_COMPLETE": "bash_complete",
            "COMP_WORDS": "headway jobs list sta",
            "COMP_CWORD": "3",
        }
    )
    assert "plain,state:failed" in result.stdout
