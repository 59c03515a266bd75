"""Apps in files, modules and projects: found without running their code, and imported."""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
import sysconfig
import tomllib
import traceback
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import headway
from headway.app import Headway
from headway.cli.errors import Exit, Failed
from headway.errors import HeadwayError

PROJECT = "pyproject.toml"
MOST_FILES = 1_000
"""Python files of a folder that are searched; a folder with more is not one app's."""
LARGEST_FILE = 1_000_000
"""Bytes; a larger file is not searched."""

_TEST = re.compile(r"test_.*|.*_test\.py|conftest\.py")
_ASSIGNED = re.compile(rb"^(\w+)[ \t]*(?::[^=\n]+)?=[ \t]*(?:\w+\.)?Headway\(", re.MULTILINE)
_FRAME = re.compile(r'^[ |]*File "(?P<file>[^"\n]*)", line (?P<line>\d+)', re.MULTILINE)
_CHAINED = ("\nThe above exception was the direct cause", "\nDuring handling of the above")
_NOT_THE_USERS = (
    "<",
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")),
    os.path.dirname(headway.__file__) + os.sep,
)


class NotFound(Exception):
    """There is no such file, module or app."""


def find_apps(folder: Path) -> list[str]:
    """Targets of the apps in the Python files of a folder: `shop.py`, or `shop.py:mail` where a
    file has several. Tests are not searched."""
    found: list[str] = []
    for path in sorted(folder.glob("*.py"))[:MOST_FILES]:
        if not _TEST.fullmatch(path.name):
            names = sorted(_app_names(path))
            several = len(names) > 1
            found += [f"{path.name}:{name}" if several else path.name for name in names]
    return found


def project_app(folder: Path) -> tuple[str, Path] | None:
    """`app` of `[tool.headway]` in the nearest pyproject.toml that has the table, and the folder of
    this file. Raises NotFound if the table is wrong."""
    for parent in (folder, *folder.parents):
        file = parent / PROJECT
        try:
            settings = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError:
            continue
        except ValueError as error:
            raise NotFound(f"{file} is not valid TOML: {error}") from None
        match settings:
            case {"tool": {"headway": {"app": str(app), **others}}} if app and not others:
                return app, parent
            case {"tool": {"headway": _}}:
                raise NotFound(
                    f'[tool.headway] in {file} has one setting, a text: app = "shop.py" or '
                    'app = "shop.jobs:app"'
                )
            case _:
                pass
    return None


def import_app(text: str, folder: Path) -> Headway:
    """The app of `file.py`, `file.py:name`, `module` or `module:name`; modules are found in this
    folder too. Raises NotFound if it does not exist."""
    module_name, _, attribute = text.partition(":")
    if module_name.endswith(".py"):
        module = _import_file(Path(module_name))
        module_name = module.__name__
    else:
        sys.path.insert(0, str(folder))
        module = _import(module_name)
    if attribute:
        found = getattr(module, attribute, None)
        if not isinstance(found, Headway):
            raise NotFound(f"{module_name} has no Headway app called {attribute!r}")
        return found
    apps = {name: value for name, value in vars(module).items() if isinstance(value, Headway)}
    if len({id(app) for app in apps.values()}) != 1:
        names = ", ".join(sorted(apps)) or "none"
        raise NotFound(
            f"{module_name} should hold one Headway app (found: {names}); write {module_name}:NAME"
        )
    return next(iter(apps.values()))


def code_line(trace: str) -> str | None:
    """`shop.py:14`: the line of the user's code that a traceback ends in, or else its last line."""
    last_error = max(0, *(trace.rfind(sentence) for sentence in _CHAINED))
    frames = [*_FRAME.finditer(trace, last_error)] or [*_FRAME.finditer(trace)]
    if not frames:
        return None
    own = [each for each in frames if not each["file"].startswith(_NOT_THE_USERS)]
    file, line = (own or frames)[-1].group("file", "line")
    near = os.path.relpath(file)
    return f"{file if near.startswith(os.pardir) else near}:{line}"


def _app_names(path: Path) -> set[str]:
    """Names to which a module assigns `Headway(...)`."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            return set()
        source = path.read_bytes()
    except OSError:
        return set()
    if b"headway" not in source:
        return set()
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # It is found all the same: its import says what is wrong.
        return {name.decode() for name in _ASSIGNED.findall(source)}
    statements = list(_statements(tree.body))
    classes, modules = set[str](), set[str]()
    for each in statements:
        match each:
            case ast.ImportFrom(module="headway" | "headway.app"):
                classes |= _bound(each, "Headway")
            case ast.Import():
                modules |= _bound(each, "headway")
            case _:
                pass

    def makes_app(value: ast.expr | None) -> bool:
        match value:
            case ast.Call(func=ast.Name(id=name)):
                return name in classes
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="Headway")):
                return name in modules
            case _:
                return False

    found: set[str] = set()
    for each in statements:
        match each:
            case ast.Assign() if makes_app(each.value):
                found |= {target.id for target in each.targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)) if makes_app(each.value):
                found.add(name)
            case _:
                pass
    return found


def _bound(statement: ast.Import | ast.ImportFrom, name: str) -> set[str]:
    """Names that the import gives to this one."""
    return {each.asname or name for each in statement.names if each.name == name}


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """All that an import runs, without functions and classes."""
    for statement in body:
        yield statement
        match statement:
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                pass
            case ast.If():
                yield from _statements([*statement.body, *statement.orelse])
            case ast.Try():
                caught = [each for handler in statement.handlers for each in handler.body]
                yield from _statements([*statement.body, *caught, *statement.orelse])
            case ast.With():
                yield from _statements(statement.body)
            case _:
                pass


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise NotFound(f"there is no file {path} here")
    if "." in path.stem:
        raise NotFound(f"Python cannot import {path}: rename it, without a dot before .py")
    sys.path.insert(0, str(path.parent.resolve()))
    module = _import(path.stem)
    imported = getattr(module, "__file__", None)
    if imported is None or not path.samefile(imported):
        raise NotFound(f"{path} has the name of another module, {path.stem}; rename it")
    return module


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise NotFound(
                f"there is no module {name!r} here; run the command where it can be imported "
                "and write module:app"
            ) from None
        raise _broken(name, error) from error
    except HeadwayError:
        raise
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> Failed:
    """The line and the error, with the traceback of the app's own code."""
    own = traceback.TracebackException.from_exception(error)
    for place, frame in enumerate(own.stack):
        if "importlib" not in frame.filename and frame.filename != __file__:
            del own.stack[:place]
            break
    else:
        own.stack.clear()  # a syntax error names its line itself
    shown = "".join(own.format()).rstrip()
    line = code_line(shown)
    at = "" if line is None else f" ({line})"
    return Failed(f"{name} cannot be imported{at}:\n{shown}", Exit.PROBLEM)
