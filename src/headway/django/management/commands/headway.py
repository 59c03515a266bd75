"""`manage.py headway worker`, `manage.py headway jobs list`: the headway command with the project's
app."""

from __future__ import annotations

import os
import sys
from argparse import REMAINDER
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from headway.cli import main


class Command(BaseCommand):
    help = (
        "Runs the headway command with this project's app; its help: `manage.py headway -- --help`."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arguments", nargs=REMAINDER, help="as in: worker --concurrency 10")

    def handle(self, *args: Any, arguments: list[str], **options: Any) -> None:
        # Worker processes run as `python -m headway` and need the same app and import path.
        paths = [path for path in (sys.path[0], os.environ.get("PYTHONPATH")) if path]
        ours = {"HEADWAY_APP": "headway.django:app", "PYTHONPATH": os.pathsep.join(paths)}
        before, argv = {name: os.environ.get(name) for name in ours}, sys.argv
        os.environ.update(ours)
        sys.argv = [argv[0], *(each for each in arguments if each != "--")]
        try:
            main("python manage.py headway")
        except SystemExit as end:
            if end.code:
                raise
        finally:
            sys.argv = argv
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value
