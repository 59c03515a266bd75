"""At setup, Django imports the `jobs` module of every installed app, and the `tasks` module if
Headway runs tasks."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules

from headway.django.task_settings import is_used


class HeadwayConfig(AppConfig):
    name = "headway.django"
    label = "headway"
    verbose_name = "Headway"

    def ready(self) -> None:
        if is_used():
            import_module("headway.django.tasks")  # it needs Django's apps
            autodiscover_modules("tasks")
        autodiscover_modules("jobs")
