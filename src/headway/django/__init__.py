"""Headway in a Django project: jobs in Django's own database, started on Django's own connections.

Put "headway.django" into INSTALLED_APPS. `from headway.django import app` is the project's app, on
the database that settings.HEADWAY names, or the default one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.django.project import DjangoHeadway

    app: DjangoHeadway
    """The project's app. Its `jobs` modules are imported when Django is set up."""

__all__ = ["app"]


def __getattr__(name: str) -> Any:
    # Made when first asked for: this package is imported before Django's settings can be read.
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headway.django.project import project_app  # noqa: PLC0415 - reads the settings

    return project_app()
