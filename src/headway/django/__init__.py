"""Headway in a Django project: jobs in Django's database, started on Django's connections.

Add "headway.django" to INSTALLED_APPS. `from headway.django import app` is the project's app, on
the database named in settings.HEADWAY, or the default one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.django.project import DjangoHeadway

    app: DjangoHeadway
    """The project's app. Django imports the `jobs` modules of installed apps at setup."""

__all__ = ["app"]


def __getattr__(name: str) -> Any:
    # Made at first use: Django imports this package before its settings can be read.
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headway.django.project import project_app  # noqa: PLC0415 - reads the settings

    return project_app()
