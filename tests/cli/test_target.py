"""Which app a command means: named, from the environment, of the project, or found in the folder;
and commands that are printed to be typed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
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


def test_all_commands_take_it_in_all_ways(folder: Path) -> None:
    write(folder, "shop.py")
    assert command("migrate", "up", "shop.py").exit_code == 0
    for arguments in (
        ("jobs", "list", "-a", "shop.py"),
        ("-a", "shop.py", "jobs", "list"),
        ("--app", "shop:app", "stats"),
        ("jobs", "list"),
        ("stats",),
    ):
        result = command(*arguments)
        assert result.exit_code == 0, result.stderr
        found = "using shop.py, found in this folder" in result.stderr
        assert found is (arguments in (("jobs", "list"), ("stats",)))


def test_then_the_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this folder or one above it; paths and modules are those beside pyproject.toml."""
    write(folder, "shop.py")
    write(folder, "other.py")
    project = folder / "pyproject.toml"
    project.write_text('[tool.headway]\napp = "shop.py"\n')
    assert settings()["target"] == ("shop.py", "pyproject.toml")
    below = folder / "docs" / "guides"
    below.mkdir(parents=True)
    (below / "pyproject.toml").write_text("[tool.other]\n")
    monkeypatch.chdir(below)
    shown = settings()
    assert shown["target"] == ("../../shop.py", "../../pyproject.toml")
    assert shown["store"][0] == "SQLite file shop.db"
    project.write_text('[tool.headway]\napp = "other:app"\n')
    assert settings()["store"][0] == "SQLite file other.db"
    assert settings(HEADWAY_APP="memory://")["target"][1] == "HEADWAY_APP"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[tool.headway]\nap = 'shop.py'\n", "has one setting, a text: app ="),
        ("[tool.headway]\napp = 7\n", "has one setting, a text: app ="),
        ("[tool]\nheadway = 'shop.py'\n", "has one setting, a text: app ="),
        ("[tool.headway\n", "is not valid TOML"),
        ("[tool.headway]\napp = 'gone.py'\n", "no file gone.py here (named by pyproject.toml)"),
        ("[tool.headway]\napp = 'gone:app'\n", "no module 'gone' here"),
    ],
)
def test_a_project_that_is_wrong(folder: Path, text: str, sentence: str) -> None:
    write(folder, "shop.py")
    (folder / "pyproject.toml").write_text(text)
    result = command("stats")
    assert (result.exit_code, sentence in result.stderr) == (2, True), result.stderr
    assert settings("shop.py")["target"][0] == "shop.py"  # it is not read


@pytest.mark.parametrize(
    "line",
    [
        "from headway import Headway\nq: Headway = Headway('sqlite:///q.db')",
        "from headway import Headway as App\nif True:\n    q = App('sqlite:///q.db')",
        "import headway\nq = headway.Headway('sqlite:///q.db')",
        "import headway as h\ntry:\n    q = h.Headway('sqlite:///q.db')\nfinally:\n    pass",
    ],
)
def test_then_the_only_app_of_this_folder(folder: Path, line: str) -> None:
    """Found by reading the files, not by running them."""
    (folder / "queues.py").write_text(f"{line}\n")
    (folder / "app.py").write_text("raise SystemExit('headway, but not ours')")
    (folder / "user.py").write_text("from queues import q as app  # headway\nraise SystemExit\n")
    (folder / "script.py").write_text(
        "from headway import Headway\n\ndef main():\n    app = Headway()\n\n"
        "if __name__ == '__main__':\n    app = Headway()\n"
    )
    for name in ("test_shop.py", "shop_test.py", "conftest.py"):
        write(folder, name)
    assert settings()["target"] == ("queues.py", "found in this folder")


def test_a_file_with_a_mistake_is_found_too(folder: Path) -> None:
    (folder / "shop.py").write_text(f"{APP}\ndef what is this\n")
    result = command("stats")
    assert result.exit_code == 1
    line = len((folder / "shop.py").read_text().splitlines())
    assert f"shop cannot be imported (shop.py:{line})" in result.stderr
    assert "SyntaxError" in result.stderr


def test_several_apps_are_listed_with_the_commands_to_type(folder: Path) -> None:
    write(folder, "shop.py")
    (folder / "two.py").write_text(APP.format(name="two") + "mail = Headway('memory://')\n")
    result = command("jobs", "list", "args.city:New York")
    assert result.exit_code == 2
    assert "this folder has 3 apps; name one:" in result.stderr
    offered = re.findall(r"^  headway (.*)$", result.stderr, re.MULTILINE)
    assert offered == [
        f"jobs list 'args.city:New York' -a {app}"
        for app in ("shop.py", "two.py:app", "two.py:mail")
    ]
    assert command("migrate", "up", "shop.py").exit_code == 0
    assert command(*shlex.split(offered[0])).exit_code == 0
    secret = command("dashboard", "--user", "me", "--password", "hunter2")
    assert "--password '***' -a shop.py" in secret.stderr


def test_then_the_default_database(folder: Path) -> None:
    assert command("migrate", "up", "sqlite:///headway.db").exit_code == 0
    assert settings()["target"] == ("sqlite:///headway.db", "found in this folder")


def test_nothing_found_says_what_to_write() -> None:
    result = command("stats")
    assert result.exit_code == 2
    assert "no app is named, and none was found; write: headway stats -a FILE.py" in result.stderr
    for tried in ("HEADWAY_APP", "[tool.headway] in pyproject.toml", ".py files", "headway.db"):
        assert tried in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("stats", "sqlite:///a.db", "-a", "sqlite:///b.db"),
        ("-a", "sqlite:///a.db", "stats", "sqlite:///b.db"),
        ("-a", "sqlite:///a.db", "jobs", "list", "-a", "sqlite:///b.db"),
    ],
)
def test_named_twice(arguments: tuple[str, ...]) -> None:
    result = command(*arguments)
    assert (result.exit_code, "name the app once" in result.stderr) == (2, True)


@pytest.mark.parametrize("words", [("jobs", "list"), ("why",), ("queues", "pause"), ("start",)])
def test_an_app_where_something_else_is_expected(folder: Path, words: tuple[str, ...]) -> None:
    write(folder, "shop.py")
    result = command(*words, "shop.py")
    assert result.exit_code == 2
    assert "shop.py is a file; name the app with -a shop.py" in result.stderr


def test_the_environment_is_blamed_for_its_target() -> None:
    result = command("stats", env={"HEADWAY_APP": "gone.py"})
    assert "there is no file gone.py here (named by HEADWAY_APP)" in result.stderr


@pytest.mark.parametrize(
    ("target", "given", "environment"),
    [
        ("my shop.py", " -a 'my shop.py'", None),
        (None, "", "my shop.py"),
        (None, "", None),
    ],
)
def test_commands_to_type_name_the_target_as_it_was_given(
    folder: Path, target: str | None, given: str, environment: str | None
) -> None:
    text = APP.format(name="shop").replace('.db"', '.db", migrate=False')
    (folder / "my shop.py").write_text(text)
    (folder / "shop.db").touch()
    named = () if target is None else ("-a", target)
    env = {"HEADWAY_APP": environment}

    def said(*arguments: str) -> str:
        result = command(*arguments, *named, env=env)
        return result.stderr + result.stdout

    assert f"create it with `headway migrate up{given}`" in said("stats")
    assert f"run: headway migrate up{given}\n" in said("migrate", "check")
    assert f"run: headway migrate up{given}\n" in said("health")
    assert f"Run: headway migrate up{given}\n" in said("doctor")
    (up,) = re.findall(r"run: headway (.*)\n", said("migrate", "check"))
    assert command(*shlex.split(up), env=env).exit_code == 0
    assert f"start one: headway worker{given}\n" in said("workers", "list")
    for _ in range(3):
        assert command("start", "ping", *named, env=env).exit_code == 0
    more = re.search(r"there may be more: headway (.*)\n", said("jobs", "list", "-n", "1"))
    assert more is not None
    again = command(*shlex.split(more[1]), env=env)
    assert again.exit_code == 0
    third = re.search(r"there may be more: headway (.*)\n", again.stderr)
    assert third is not None
    assert third[1].count("--cursor") == 1


def test_commands_to_type_run_code_and_keep_secrets(folder: Path) -> None:
    assert command("migrate", "up", "sqlite:///shop.db").exit_code == 0
    said = command("workers", "list", "sqlite:///shop.db").stderr
    assert "start one: headway worker -a FILE.py" in said
    refused = command("doctor", "postgresql://me:hunter2@127.0.0.1:1/shop")
    several = command("jobs", "list", "-a", "postgresql://me:hunter2@127.0.0.1:1/shop")
    assert "hunter2" not in refused.output + several.output


def test_worker_processes_find_the_app_once(folder: Path) -> None:
    write(folder, "shop.py")
    environment = {**os.environ}
    environment.pop("HEADWAY_APP", None)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headway", *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )

    run("migrate", "up")
    started = run("start", "ping").stdout.strip()
    worked = run("worker", "--drain", "--processes", "2")
    assert worked.stderr.count("using shop.py, found in this folder") == 1
    assert "completed" in run("why", started).stdout


def test_a_mistyped_file_is_not_made(folder: Path) -> None:
    result = command("jobs", "list", "-a", "sqlite:///typo.db")
    assert result.exit_code == 4
    assert "there is no file typo.db" in result.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("arguments", [("stats",), ("worker", "--drain")])
def test_another_file_than_the_apps_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """The path of an SQLite file is relative to the current folder, not to that of the app."""
    write(folder, "shop.py")
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    told = f"Warning: there is no shop.db in {folder / 'below'}; the app is in {folder}"
    assert told in command(*arguments, "-a", "../shop.py").stderr
    assert told not in command(*arguments, "-a", "../shop.py").stderr
    (folder / "below" / "shop.db").unlink()
    (folder / "pyproject.toml").write_text('[tool.headway]\napp = "shop:app"\n')
    assert told in command(*arguments).stderr


def test_the_apps_own_file_is_not_told(folder: Path) -> None:
    write(folder, "shop.py")
    assert command("stats").stderr == "using shop.py, found in this folder\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("retry", "headway jobs retry"),
        ("tree", "headway sequences tree"),
        ("drain", "headway queues drain"),
    ],
)
def test_a_command_without_its_group_is_named_in_full(typed: str, meant: str) -> None:
    result = command(typed, "8ab1c3a6")
    assert result.exit_code == 2
    assert f"there is no command '{typed}'; did you mean {meant}?" in result.stderr


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        ("nowhere.py", 2, "there is no file nowhere.py here"),
        ("nowhere:app", 2, "there is no module 'nowhere' here"),
        ("two.py", 2, "two should hold one Headway app (found: first, second)"),
        ("queue.py", 2, "queue.py has the name of another module, queue; rename it"),
        ("shop.v2.py", 2, "Python cannot import shop.v2.py: rename it, without a dot before .py"),
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
    for name in ("queue.py", "shop.v2.py"):
        write(folder, name)
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


@pytest.mark.parametrize(("begun", "word"), [("sta", "state:failed"), ("sch", "schedule:")])
def test_filters_are_completed(begun: str, word: str) -> None:
    result = command(
        env={
            "_HEADWAY_COMPLETE": "bash_complete",
            "COMP_WORDS": f"headway jobs list {begun}",
            "COMP_CWORD": "3",
        }
    )
    assert f"plain,{word}" in result.stdout
