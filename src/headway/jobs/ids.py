"""New ids of jobs (UUIDs of version 7, which sort by creation time) and new lease tokens."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from uuid import uuid4, uuid7
else:
    from uuid_utils import uuid4, uuid7


def new_id() -> str:
    """A new id of a job, in canonical form."""
    return str(uuid7())


def new_token() -> str:
    """A new lease token: a random UUID in canonical form, as stores return it."""
    return str(uuid4())
