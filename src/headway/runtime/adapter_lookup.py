"""What the URLs of stores and notifiers have in common: a port to check, and a class to import."""

from __future__ import annotations

import importlib
from typing import Any
from urllib.parse import urlsplit

from headway.errors import ConfigurationError


def check_ports(kind: str, url: str) -> None:
    """Refuse a URL with a port that is no number. It may name several servers."""
    try:
        for place in urlsplit(url).netloc.rpartition("@")[2].split(","):
            _ = urlsplit(f"//{place}").port
    except ValueError:
        raise ConfigurationError(
            f"the port in the {kind}'s URL is not a number; special characters in user and "
            "password must be percent-encoded"
        ) from None


def load_adapter(kind: str, module: str, name: str) -> Any:
    """The class of a store or notifier. Its module, which imports a driver, is imported here."""
    try:
        return getattr(importlib.import_module(f"headway.{kind}s.{module}"), name)
    except ImportError as error:
        if (error.name or "headway").partition(".")[0] == "headway":
            raise
        raise ConfigurationError(
            f"the {module} {kind} needs a driver that is not installed ({error.name}): "
            f"pip install 'headway[{module}]'"
        ) from error
