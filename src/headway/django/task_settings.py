"""settings.TASKS, and Django's Tasks framework: in Django 6, or the package django-tasks."""

from __future__ import annotations

import importlib
import inspect
from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from headway.errors import ConfigurationError

BACKEND = "headway.django.tasks.HeadwayBackend"


def is_used() -> bool:
    """Whether settings.TASKS names Headway's backend, or a subclass."""
    return bool(_headway_backends())


named_by_tasks: set[str] = set()
"""The queues of all tasks defined in this process."""


def queue_names() -> list[str]:
    """The queues that settings.TASKS allows; if it allows any, those of the project's tasks."""
    allowed = [each.get("QUEUES", ["default"]) for each in _headway_backends()]
    if not all(allowed):
        allowed.append(["default", *sorted(named_by_tasks)])
    return [queue for queues in allowed for queue in queues]


def _headway_backends() -> list[dict[str, Any]]:
    named: dict[str, dict[str, Any]] = getattr(settings, "TASKS", {})
    return [each for each in named.values() if _is_headway(each.get("BACKEND", ""))]


def _is_headway(path: str) -> bool:
    """Whether the path names Headway's backend or a subclass, without importing the backend."""
    if path == BACKEND:
        return True
    try:
        backend = import_string(path)
    except ImportError:  # Django raises it when a task is defined
        return False
    return any(
        f"{base.__module__}.{base.__qualname__}" == BACKEND for base in inspect.getmro(backend)
    )


def framework_module(module: str = "") -> Any:
    """A module of the framework."""
    for package in ("django.tasks", "django_tasks"):
        if find_spec(package) is not None:
            return importlib.import_module(f"{package}.{module}" if module else package)
    raise ConfigurationError(
        "Django's Tasks framework is not installed: use Django 6, or pip install django-tasks"
    )
