"""Which job is being run here: what a handler starts inherits its origin and root from it."""

from __future__ import annotations

from contextvars import ContextVar

from headway.domain.job import ClaimedJob

current_job: ContextVar[ClaimedJob | None] = ContextVar("headway_current_job", default=None)
"""Set by the worker in the context of each handler, in threads and child processes too; None
outside of handlers. A job started under it has `origin_id = parent.id` and
`root_id = parent.root_id`."""
