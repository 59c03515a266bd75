"""Bugs to plant into the memory store and the rules that it follows: each of their comparisons of a
token or an expiry goes missing, and of a state that a change asks for."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

from headway.domain import lifecycle
from headway.stores.memory import claim
from headway.stores.memory.audit import MemoryAudit
from headway.stores.memory.claim import MemoryClaim
from headway.stores.memory.manage import MemoryManage
from headway.stores.memory.read import MemoryRead
from headway.stores.memory.settle import MemorySettle
from headway.stores.memory.table import JobTable

FENCES: list[tuple[Any, str, str]] = [
    (lifecycle.judge_lease, "if until <= now:", "if False:"),
    (lifecycle.judge_lease, "if token != claimed:", "if False:"),
    (lifecycle._judge_loss, "if token != settlement.token:", "if False:"),
    (lifecycle._judge_loss, "if until > now:", "if False:"),
    (MemorySettle._settle_one, "if verdict is not Verdict.APPLIED:", "if False:"),
    (JobTable._extend_one, "if verdict is not Verdict.APPLIED:", "if False:"),
    (JobTable._extend_one, "if place.token == lease.token:", "if True:"),
    (
        MemoryClaim._taken_before,
        "self._extend_one(Held(row.id, order.token), until, now)",
        "Verdict.APPLIED",
    ),
    (MemoryRead.expired, "and row.until <= now", "and True"),
    (MemoryAudit.save_progress, "verdict is Verdict.APPLIED", "True"),
    (MemorySettle._free, "and row.state is JobState.BLOCKED", "and True"),
    (MemoryManage._cancel_one, "if row.state not in ALLOWED[JobAction.CANCEL]:", "if False:"),
    (MemoryManage._retry_one, "if row.state not in ALLOWED[JobAction.RETRY]:", "if False:"),
    (MemoryManage._trigger_one, "if row.state not in ALLOWED[JobAction.TRIGGER]:", "if False:"),
    (MemoryManage.delete_ended, "and last.state in TERMINAL", "and True"),
    (MemoryManage._is_free, "waiter.state is JobState.COMPLETED", "True"),
    (MemorySettle._charge, "row.losses = 0", "pass"),
    (MemorySettle._settle_one, "row.losses = 0", "pass"),
    (MemorySettle._settle_one, "row.losses += settlement.charged", "row.losses += 1"),
    (claim._lost_at_most, "if row.losses <= losses:", "if True:"),
]
"""Where it stands, how it reads, and what it is without."""


def rewriting(function: FunctionType, line: str, without: str) -> Callable[[], None]:
    def plant() -> None:
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(line) != 1:
            raise RuntimeError(f"{line!r} is not once in {function.__qualname__}")
        names = dict(vars(sys.modules[function.__module__]))
        future = "from __future__ import annotations\n"
        exec(compile(future + source.replace(line, without), function.__module__, "exec"), names)
        # Whoever has imported the function by its name has the bug, too.
        damaged = names[function.__name__]
        function.__code__ = (damaged.fget if isinstance(damaged, property) else damaged).__code__

    return plant


SEEN_BY_CONFORMANCE: dict[str, Callable[[], None]] = {
    f"memory: {function.__name__.strip('_')} without `{line}`": rewriting(function, line, without)
    for function, line, without in FENCES
}
