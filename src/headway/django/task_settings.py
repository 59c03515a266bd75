"""Django's Tasks framework: part of Django 6, the package django-tasks for those before it."""

from __future__ import annotations

import importlib
import inspect
from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.utils.module_loading import autodiscover_modules, import_string

from headway.errors import ConfigurationError

BACKEND = "headway.django.tasks.HeadwayBackend"


def is_used() -> bool:
    """Whether settings.TASKS names our backend, or a subclass."""
    return bool(_ours())


named_by_tasks: set[str] = set()
"""The queues of all tasks that were made in this process."""


def queue_names() -> list[str]:
    """The queues that settings.TASKS allows for tasks. Where it allows any, those that tasks of the
    project name."""
    allowed = [each.get("QUEUES", ["default"]) for each in _ours()]
    if not all(allowed):
        autodiscover_modules("tasks")
        allowed.append(["default", *sorted(named_by_tasks)])
    return [queue for queues in allowed for queue in queues]


def _ours() -> list[dict[str, Any]]:
    named: dict[str, dict[str, Any]] = getattr(settings, "TASKS", {})
    return [each for each in named.values() if _is_ours(each.get("BACKEND", ""))]


def _is_ours(path: str) -> bool:
    """Whether it names our backend or a subclass, found without importing ours."""
    if path == BACKEND:
        return True
    try:
        backend = import_string(path)
    except ImportError:  # Django says so when a task is made
        return False
    return any(
        f"{base.__module__}.{base.__qualname__}" == BACKEND for base in inspect.getmro(backend)
    )


def framework(module: str = "") -> Any:
    """The framework's module of this name."""
    for package in ("django.tasks", "django_tasks"):
        if find_spec(package) is not None:
            return importlib.import_module(f"{package}.{module}" if module else package)
    raise ConfigurationError(
        "Django's Tasks framework is not installed: use Django 6, or pip install django-tasks"
    )
