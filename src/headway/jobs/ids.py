"""Ids of jobs (UUIDs of version 7, which sort by when they were made) and lease tokens."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from uuid import uuid4, uuid7
else:
    from uuid_utils import uuid4, uuid7


def new_id() -> str:
    """A fresh id, in canonical form."""
    return str(uuid7())


def new_token() -> str:
    """A fresh lease token: a random UUID in canonical form, as stores give it back."""
    return str(uuid4())
