"""Finding the app a command is meant for: `module:app`, or a DSN."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import click

from headway.app import Headway
from headway.domain.errors import HeadwayError


class Target(click.ParamType[Headway]):
    """`module:attribute`, `path/to/file.py`, or a DSN; the current directory can be imported."""

    name = "target"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Headway:
        if isinstance(value, Headway):
            return value
        try:
            return _load(str(value))
        except HeadwayError as error:
            self.fail(str(error), param, ctx)
        except _NotFound as error:
            self.fail(str(error), param, ctx)


class _NotFound(Exception):
    pass


def _load(text: str) -> Headway:
    if "://" in text:
        return Headway(text)
    module_name, _, attribute = text.partition(":")
    if module_name.endswith(".py"):
        path = Path(module_name)
        sys.path.insert(0, str(path.parent.resolve()))
        module_name = path.stem
    else:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # the module was found, something that it needs was not
        raise _NotFound(
            f"there is no module {module_name!r} here; run the command where it can be imported "
            "and write module:app"
        ) from None
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
