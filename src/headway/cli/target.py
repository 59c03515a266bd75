"""The target of a command: an app in a file or module, a database, or a dashboard.

Every command takes `--app TARGET`; commands without other arguments also take it as their argument.
Without it the target is HEADWAY_APP from the environment, else `app` of `[tool.headway]` in
pyproject.toml, else the only app in this folder. Commands that are printed for the user to type
name the same target.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import unquote

import click

from headway.app import Headway
from headway.cli.apps import PROJECT, NotFound, find_apps, import_app, project_app
from headway.cli.errors import Exit, Failed
from headway.cli.output import say
from headway.errors import HeadwayError
from headway.stores.sqlite import SqliteStore

F = TypeVar("F", bound=Callable[..., Any])

DATABASE = "headway.db"
"""File of the default store, the target if the folder has no app."""
ENVIRONMENT = "HEADWAY_APP"
COMMAND_LINE = "command line"
FOUND = "found in this folder"
CODE = "file.py or module:app"
APPS = "file.py, module:app or a DSN"
PLACES = "file.py, module:app, a DSN, or http://host:port"

# Keys of click's `Context.meta`
_TYPED = "headway.typed"
_GIVEN = "headway.given"
_TARGET = "headway.target"

_SECRET = re.compile(
    r"(?P<before>://[^:/@\s]*:)\S*(?=@)|(?P<name>(?:password|token|secret)=)[^&\s]*"
)
_SECRET_OPTIONS = ("--password", "--token")
_MIGRATION = re.compile(r"`headway (migrate \w+(?: --after \d+)?)`")


@dataclass(frozen=True)
class DashboardUrl:
    """The address of a dashboard."""

    url: str


@dataclass(frozen=True)
class Target:
    """A target as it was written, and where."""

    text: str
    source: str
    folder: Path | None = None
    """Where its module is found; None for the current folder."""

    def load(self) -> Headway | DashboardUrl:
        """The app or the dashboard. Raises a usage error if it does not exist."""
        found = self._load()
        self._check_file(f", or create it: {command_line('migrate up')}")
        return found

    def load_app(self) -> Headway:
        """The app, or one on its database, which need not exist yet."""
        found = self._load()
        if isinstance(found, DashboardUrl):
            raise click.UsageError(
                "this command needs the app or its database, not a server: name a file, a "
                "module:app or a DSN"
            )
        return found

    def load_source(self) -> Headway:
        """The app, or one on its database, which jobs are taken from."""
        found = self.load_app()
        self._check_file()
        return found

    def check_code(self) -> Target:
        """Raises a usage error if it is not the app's code."""
        if "://" in self.text:
            raise click.UsageError(
                f"this command runs your code: name a file or a module:app, not {self._named()}"
            )
        file, _, _ = self.text.partition(":")
        if file.endswith(".py") and not Path(file).is_file():
            raise click.UsageError(f"there is no file {file} here{self._origin()}")
        return self

    def _load(self) -> Headway | DashboardUrl:
        if self.source == FOUND:
            say(f"using {self.text}, {self.source}")
        if self.text.startswith(("http://", "https://")):
            return DashboardUrl(self.text.rstrip("/"))
        try:
            if "://" in self.text:
                return Headway(self.text)
            app = import_app(self.text, self.folder or Path.cwd())
        except (HeadwayError, NotFound) as error:
            raise click.UsageError(f"{error}{self._origin()}") from error
        self._tell_if_elsewhere(app)
        return app

    def _tell_if_elsewhere(self, app: Headway) -> None:
        """From another folder the app's relative path means another, empty file."""
        file, _, _ = self.text.partition(":")
        home = (self.folder or Path.cwd()) / (Path(file).parent if file.endswith(".py") else "")
        if (
            home.resolve() != Path.cwd()
            and isinstance(app.store, SqliteStore)
            and not Path(app.store.path).exists()
        ):
            say(
                f"Warning: there is no {app.store.path} in {Path.cwd()}; "
                f"the app is in {home.resolve()}"
            )

    def _check_file(self, hint: str = "") -> None:
        """A mistyped name must not create a file."""
        if self.text.startswith("sqlite:///"):
            path = unquote(self.text.removeprefix("sqlite:///"))
            if not Path(path).exists():
                raise Failed(f"there is no file {path}; name another{hint}", Exit.UNREACHABLE)

    def _named(self) -> str:
        return masked(self.text) + self._origin()

    def _origin(self) -> str:
        return "" if self.source in (COMMAND_LINE, FOUND) else f" (named by {self.source})"


def app_argument(function: F) -> F:
    """`[TARGET]` or `--app TARGET`, as `app`: a Headway."""
    return _with_target(function, Target.load_app, "app", APPS, as_argument=True)


def target_argument(function: F) -> F:
    """`[TARGET]` or `--app TARGET`, as `target`: a Headway or a DashboardUrl."""
    return _with_target(function, Target.load, "target", PLACES, as_argument=True)


def unloaded_argument(function: F) -> F:
    """`[TARGET]` or `--app TARGET`, as `target`: not loaded yet."""
    return _with_target(function, lambda named: named, "target", PLACES, as_argument=True)


def code_argument(function: F) -> F:
    """`[TARGET]` or `--app TARGET`, as `target`: a file or a module, not loaded yet."""
    return _with_target(function, Target.check_code, "target", CODE, as_argument=True)


def app_option(function: F) -> F:
    """`--app TARGET`, as `app`: a Headway."""
    return _with_target(function, Target.load_app, "app", APPS)


def target_option(function: F) -> F:
    """`--app TARGET`, as `target`: a Headway or a DashboardUrl."""
    return _with_target(function, Target.load, "target", PLACES)


def root_option(function: F) -> F:
    """`headway --app TARGET COMMAND`: for any command."""

    def remember(context: click.Context, _: click.Parameter, given: str | None) -> None:
        context.meta[_GIVEN] = given

    return _option(PLACES, callback=remember, expose_value=False)(function)


def remember_typed(context: click.Context, arguments: list[str]) -> None:
    """Keep the arguments of the whole command, for `typed_again`."""
    context.meta[_TYPED] = tuple(arguments)


def find_target(given: str | None) -> Target:
    """The given target, else that of the environment, of the project, or of this folder."""
    if given is not None:
        return Target(given, COMMAND_LINE)
    if named := os.environ.get(ENVIRONMENT):
        return Target(named, ENVIRONMENT)
    here = Path.cwd()
    try:
        project = project_app(here)
    except NotFound as error:
        raise click.UsageError(str(error)) from error
    if project is not None:
        text, folder = project
        source = os.path.relpath(folder / PROJECT)
        if text.partition(":")[0].endswith(".py"):
            text = os.path.relpath(folder / text)
        return Target(text, source, folder)
    found = find_apps(here)
    if len(found) > 1:
        commands = "".join(f"\n  {typed_again('-a', each)}" for each in found)
        raise click.UsageError(f"this folder has {len(found)} apps; name one:{commands}")
    if found:
        return Target(found[0], FOUND)
    if Path(DATABASE).is_file():
        return Target(f"sqlite:///{DATABASE}", FOUND)
    raise click.UsageError(
        f"no app is named, and none was found; write: {typed_again('-a', 'FILE.py')}\n"
        f"Searched: {ENVIRONMENT} (not set), [tool.headway] in {PROJECT} (not in this folder, nor "
        f"above), app = Headway(…) in the .py files of this folder, {DATABASE} in this folder."
    )


def command_line(command: str, *, runs_code: bool = False) -> str:
    """`headway COMMAND` as it works for the user: with the target of this command, if that was
    typed. Commands that run code need the app, not a database or a dashboard."""
    context = click.get_current_context(silent=True)
    if context is None:
        return f"headway {command}"
    target = cast("Target | None", context.meta.get(_TARGET))
    line = f"{context.find_root().info_name} {command}"
    if target is None:
        return line
    if runs_code and "://" in target.text:
        return f"{line} -a FILE.py"
    if target.source != COMMAND_LINE:
        return line
    return f"{line} -a {shlex.quote(masked(target.text))}"


def typed_again(option: str, value: str) -> str:
    """This command as it was typed, with another value of an option; secrets are masked."""
    context = click.get_current_context()
    words = iter(cast("tuple[str, ...]", context.meta.get(_TYPED, ())))
    kept: list[str] = []
    for word in words:
        if word == option:
            next(words, None)
        elif word in _SECRET_OPTIONS:
            next(words, None)
            kept += [word, "***"]
        elif not word.startswith(f"{option}="):
            kept.append(masked(word))
    return f"{context.find_root().info_name} {shlex.join([*kept, option, value])}"


def with_target(message: str) -> str:
    """The message of an error, with the target in the commands that it names."""
    return _MIGRATION.sub(lambda match: f"`{command_line(match[1])}`", message)


def target_environment() -> dict[str, str]:
    """For child processes that run the same command: a target that was found is not searched, nor
    announced, again."""
    target = cast("Target | None", click.get_current_context().meta.get(_TARGET))
    return {} if target is None or target.source != FOUND else {ENVIRONMENT: target.text}


def masked(text: str) -> str:
    """A URL without its secrets."""
    return _SECRET.sub(lambda match: f"{match['before'] or match['name']}***", text)


def _with_target(
    function: F,
    load: Callable[[Target], Any],
    name: str,
    known: str,
    *,
    as_argument: bool = False,
) -> F:
    @functools.wraps(function)
    def wrapper(*args: Any, app_: str | None, **kwargs: Any) -> Any:
        context = click.get_current_context()
        named = [context.meta.get(_GIVEN), app_]
        if as_argument:
            named.append(kwargs.pop("target"))
        else:
            _check_words(kwargs)
        given = [each for each in named if each is not None]
        if len(given) > 1:
            raise click.UsageError("name the app once: as the argument, or with --app")
        target = find_target(given[0] if given else None)
        context.meta[_TARGET] = target
        return function(*args, **{name: load(target)}, **kwargs)

    optional = _option(known)(wrapper)
    if as_argument:
        optional = click.argument("target", required=False, type=click.Path())(optional)
    return cast("F", optional)


def _check_words(arguments: dict[str, Any]) -> None:
    """Raises a usage error for an app among the filters, ids or names of a command."""
    for value in arguments.values():
        for word in cast("tuple[object, ...]", value if isinstance(value, tuple) else (value,)):
            if isinstance(word, str) and word.endswith(".py") and Path(word).is_file():
                raise click.UsageError(f"{word} is a file; name the app with -a {word}")


def _option(known: str, **settings: Any) -> Callable[[F], F]:
    return click.option(
        "-a",
        "--app",
        "app_",
        metavar="TARGET",
        type=click.Path(),
        allow_from_autoenv=False,
        help=f"{known}.  [env: {ENVIRONMENT}]",
        **settings,
    )
