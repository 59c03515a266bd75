"""The providers that come with Headway, imported only when a connection of theirs is passed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from headway.ports.provider import Provider

_AT_HOME_IN = {
    "aiosqlite": ("sqlite", "aiosqlite", ("Aiosqlite",)),
    "django": (None, "django", ("Django",)),
    "sqlalchemy": (None, "sqlalchemy", ("SqlAlchemySync", "SqlAlchemyAsync")),
}
"""By the package in which a connection's class, or one it inherits from, is defined: the database
it is made for (None: it has to be told), the module here, and the classes in it."""


def providers_for(tx: object, database: str) -> Sequence[Provider]:
    """Those that might know `tx`, for a store on this database."""
    for ancestor in type(tx).__mro__:
        package = ancestor.__module__.partition(".")[0]
        if package in _AT_HOME_IN:
            only, module, names = _AT_HOME_IN[package]
            found = import_module(f"headway.providers.{module}")
            if only is None:
                return [getattr(found, name)(database) for name in names]
            return [getattr(found, name)() for name in names] if only == database else ()
    return ()
