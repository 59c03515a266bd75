"""Set SHOP_DATABASE to the URL of a PostgreSQL database to keep the shop there, not in a file."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SECRET_KEY = "only an example"
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
USE_TZ = True
TIME_ZONE = "UTC"
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["headway.django", "shop"]

TASKS = {
    "default": {
        "BACKEND": "headway.django.tasks.HeadwayBackend",
        "QUEUES": ["default", "mail"],
    }
}


def _database(url: str) -> dict[str, Any]:
    if not url:
        here = Path(os.environ.get("SHOP_FOLDER", "."))
        # A worker in a test is another connection: it cannot see a database in memory.
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": here / "shop.sqlite3",
            "OPTIONS": {"transaction_mode": "IMMEDIATE"},
            "TEST": {"NAME": here / "test.sqlite3"},
        }
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": parts.hostname or "",
        "PORT": parts.port or "",
    }


DATABASES = {"default": _database(os.environ.get("SHOP_DATABASE", ""))}
