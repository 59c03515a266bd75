"""At setup, Django imports the `jobs` module of every installed app, and the `tasks` module if
Headway runs tasks."""

from __future__ import annotations

import logging
from importlib import import_module

from django.apps import AppConfig, apps
from django.utils.module_loading import autodiscover_modules, module_has_submodule

from headway.django.task_settings import is_used

_log = logging.getLogger("headway")


class HeadwayConfig(AppConfig):
    name = "headway.django"
    label = "headway"
    verbose_name = "Headway"

    def ready(self) -> None:
        if is_used():
            import_module("headway.django.tasks")  # it needs Django's apps
            _import_tasks()
        autodiscover_modules("jobs")


def _import_tasks() -> None:
    """Not `autodiscover_modules`: the `tasks` module of somebody else's app may need a package that
    is not installed, such as Celery, and must not stop the project."""
    for config in apps.get_app_configs():
        if config.module is None or not module_has_submodule(config.module, "tasks"):
            continue
        try:
            import_module(f"{config.name}.tasks")
        except ModuleNotFoundError as error:
            _log.warning("the tasks of %s are not job types of their own: %s", config.name, error)
