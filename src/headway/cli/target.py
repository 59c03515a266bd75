"""The target of a command: an app in a file or module, a database, or a dashboard.

Every command takes `--app TARGET`; commands without other arguments also take it as their argument.
Without it the target is HEADWAY_APP from the environment, else the app in this folder.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast
from urllib.parse import unquote

import click

from headway.app import Headway
from headway.cli.errors import Exit, Failed
from headway.errors import HeadwayError

F = TypeVar("F", bound=Callable[..., Any])

FILES = ("app.py", "main.py", "jobs.py")
"""Files that are searched for an app when no target is given."""
DATABASE = "headway.db"
"""File of the default store, the target if none of these files has an app."""
ENVIRONMENT = "HEADWAY_APP"
CODE = "file.py or module:app"
APPS = "file.py, module:app or a DSN"
PLACES = "file.py, module:app, a DSN, or http://host:port"


@dataclass(frozen=True)
class DashboardUrl:
    """The address of a dashboard."""

    url: str


@dataclass(frozen=True)
class Target:
    """A target as it was written, and where."""

    text: str
    source: str

    def load(self) -> Headway | DashboardUrl:
        """The app or the dashboard. Raises a usage error if it does not exist."""
        found = self._load()
        if self.text.startswith("sqlite:///"):
            path = unquote(self.text.removeprefix("sqlite:///"))
            if not Path(path).exists():  # a mistyped name must not create a file
                raise Failed(
                    f"there is no file {path}; name another, or create it: "
                    f"headway migrate up {self.text}",
                    Exit.UNREACHABLE,
                )
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

    def _load(self) -> Headway | DashboardUrl:
        try:
            return _load(self.text)
        except (HeadwayError, _NotFound) as error:
            raise click.UsageError(str(error)) from error


def app_argument(function: F) -> F:
    """`[TARGET]` or `--app TARGET`, as `app`: a Headway."""
    return _with_argument(function, Target.load_app, "app", APPS)


def target_argument(function: F) -> F:
    """`[TARGET]` or `--app TARGET`, as `target`: a Headway or a DashboardUrl."""
    return _with_argument(function, Target.load, "target", PLACES)


def unloaded_argument(function: F) -> F:
    """`[TARGET]` or `--app TARGET`, as `target`: not loaded yet."""
    return _with_argument(function, lambda named: named, "target", PLACES)


def code_argument(function: F) -> F:
    """`[TARGET]` or `--app TARGET`, as `target`: a file or a module, not loaded yet."""
    return _with_argument(function, _check_code, "target", CODE)


def app_option(function: F) -> F:
    """`--app TARGET`, as `app`: a Headway."""
    return _with_option(function, Target.load_app, "app", APPS)


def target_option(function: F) -> F:
    """`--app TARGET`, as `target`: a Headway or a DashboardUrl."""
    return _with_option(function, Target.load, "target", PLACES)


def find_target(given: str | None) -> Target:
    """The given target, else HEADWAY_APP, else the app or database in this folder."""
    if given is not None:
        return Target(given, "command line")
    if named := os.environ.get(ENVIRONMENT):
        return Target(named, ENVIRONMENT)
    if file := find_file():
        return Target(file, "found in this folder")
    if Path(DATABASE).is_file():
        return Target(f"sqlite:///{DATABASE}", "found in this folder")
    raise click.UsageError(
        f"name the app: --app app.py, --app module:app, a DSN, or set {ENVIRONMENT} "
        f"(there is no {', '.join(FILES)} with one here, and no {DATABASE})"
    )


def find_file() -> str | None:
    """The first of `FILES` in this folder that contains the word headway."""
    for name in FILES:
        path = Path(name)
        if path.is_file() and "headway" in path.read_text(encoding="utf-8", errors="replace"):
            return name
    return None


def _check_code(target: Target) -> Target:
    if "://" in target.text:
        raise click.UsageError("this command runs your code: name a file or a module:app")
    file, _, _ = target.text.partition(":")
    if file.endswith(".py") and not Path(file).is_file():
        raise click.UsageError(f"there is no file {file} here")
    return target


def _with_argument(function: F, load: Callable[[Target], Any], name: str, known: str) -> F:
    @functools.wraps(function)
    def wrapper(*args: Any, target: str | None, app_: str | None, **kwargs: Any) -> Any:
        if target is not None and app_ is not None:
            raise click.UsageError("name the app once: as the argument, or with --app")
        return function(*args, **{name: load(find_target(target or app_))}, **kwargs)

    argument = click.argument("target", required=False, type=click.Path())
    return cast("F", argument(_option(known)(wrapper)))


def _with_option(function: F, load: Callable[[Target], Any], name: str, known: str) -> F:
    @functools.wraps(function)
    def wrapper(*args: Any, app_: str | None, **kwargs: Any) -> Any:
        return function(*args, **{name: load(find_target(app_))}, **kwargs)

    return cast("F", _option(known)(wrapper))


def _option(known: str) -> Callable[[F], F]:
    return click.option(
        "-a",
        "--app",
        "app_",
        metavar="TARGET",
        type=click.Path(),
        help=f"{known}.  [env: {ENVIRONMENT}]",
    )


class _NotFound(Exception):
    pass


def _load(text: str) -> Headway | DashboardUrl:
    if text.startswith(("http://", "https://")):
        return DashboardUrl(text.rstrip("/"))
    if "://" in text:
        return Headway(text)
    module_name, _, attribute = text.partition(":")
    if module_name.endswith(".py"):
        path = Path(module_name)
        if not path.is_file():
            raise _NotFound(f"there is no file {module_name} here")
        sys.path.insert(0, str(path.parent.resolve()))
        module_name = path.stem
    else:
        sys.path.insert(0, os.getcwd())
    module = _import(module_name)
    if attribute:
        found = getattr(module, attribute, None)
        if not isinstance(found, Headway):
            raise _NotFound(f"{module_name} has no Headway app called {attribute!r}")
        return found
    apps = {name: value for name, value in vars(module).items() if isinstance(value, Headway)}
    if len({id(app) for app in apps.values()}) != 1:
        names = ", ".join(sorted(apps)) or "none"
        raise _NotFound(
            f"{module_name} should hold one Headway app (found: {names}); write {module_name}:NAME"
        )
    return next(iter(apps.values()))


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise _NotFound(
                f"there is no module {name!r} here; run the command where it can be imported "
                "and write module:app"
            ) from None
        raise _broken(name, error) from error
    except HeadwayError:
        raise
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> Failed:
    """The error with the traceback of the app's own code."""
    own = traceback.TracebackException.from_exception(error)
    for place, frame in enumerate(own.stack):
        if "importlib" not in frame.filename and frame.filename != __file__:
            del own.stack[:place]
            break
    else:
        own.stack.clear()  # a syntax error names its line itself
    shown = "".join(own.format()).rstrip()
    return Failed(f"{name} cannot be imported:\n{shown}", Exit.PROBLEM)
