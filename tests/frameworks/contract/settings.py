"""The shop's settings, with the tasks of these tests and several backends for them."""

from shop.settings import *  # noqa: F403

INSTALLED_APPS = ["headway.django", "shop", "tests.frameworks.contract"]
TASKS = {
    "default": {
        "BACKEND": "headway.django.tasks.HeadwayBackend",
        "QUEUES": ["default", "other", "mail"],
        "OPTIONS": {"max_attempts": 1},
    },
    "patient": {
        "BACKEND": "headway.django.tasks.HeadwayBackend",
        "OPTIONS": {"max_attempts": 3},
    },
}
