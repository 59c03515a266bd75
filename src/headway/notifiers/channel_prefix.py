"""The prefix of Redis channels and NATS subjects: it separates apps on one server."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from headway.domain.validation import check_parameters
from headway.errors import ConfigurationError


def split_prefix(url: str, known: Iterable[str] = ()) -> tuple[str, str]:
    """The URL without its parameter `prefix`, and the prefix (default: headway). Refuses unknown
    parameters."""
    parts = urlsplit(url)
    check_parameters(f"a {parts.scheme} URL", parts.query, ("prefix", *known))
    query = parse_qs(parts.query)
    prefix = query.pop("prefix", ["headway"])[-1]
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", prefix):
        raise ConfigurationError(
            f"the notifier's prefix {prefix!r} is not allowed: use letters, digits, _ and -"
        )
    return urlunsplit(parts._replace(query=urlencode(query, doseq=True))), prefix
