"""How a worker is, as those who watch over processes want to know it."""

from __future__ import annotations

import msgspec


class Health(msgspec.Struct, frozen=True, kw_only=True):
    live: bool
    """False: it is stuck, and only starting it anew will help."""
    ready: bool
    """It claims jobs and can store what becomes of them."""
    problems: tuple[str, ...] = ()
    """Why it is not one or the other, in sentences."""
