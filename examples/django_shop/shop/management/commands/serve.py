"""The whole shop with one command: tables, a worker, and the server."""

import subprocess
import sys
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser


class Command(BaseCommand):
    help = "Makes the tables, starts a worker and serves the shop."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("address", nargs="?", default="127.0.0.1:8000")

    def handle(self, *args: Any, address: str, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        worker = subprocess.Popen(
            [sys.executable, sys.argv[0], "headway", "worker", "--processes", "2"]
        )
        try:
            call_command("runserver", address, use_reloader=False)
        finally:
            worker.terminate()
            worker.wait()
