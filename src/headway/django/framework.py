"""Django's Tasks framework: part of Django 6, the package django-tasks for those before it."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

from django.conf import settings

from headway.domain.errors import ConfigurationError

BACKEND = "headway.django.tasks.HeadwayBackend"


def is_used() -> bool:
    """Whether settings.TASKS names our backend."""
    return bool(_ours())


def queue_names() -> list[str]:
    """The queues that settings.TASKS allows for tasks."""
    return [queue for each in _ours() for queue in each.get("QUEUES", ["default"])]


def _ours() -> list[dict[str, Any]]:
    named: dict[str, dict[str, Any]] = getattr(settings, "TASKS", {})
    return [each for each in named.values() if each.get("BACKEND") == BACKEND]


def framework(module: str = "") -> Any:
    """The framework's module of this name."""
    for package in ("django.tasks", "django_tasks"):
        if find_spec(package) is not None:
            return importlib.import_module(f"{package}.{module}" if module else package)
    raise ConfigurationError(
        "Django's Tasks framework is not installed: use Django 6, or pip install django-tasks"
    )
