"""What the pages and the API have in common: one per dashboard, found through the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from headway.app import Headway
from headway.domain.views import Overview
from headway.ports.admin import Operating
from headway.web.access import Doorkeeper
from headway.web.event_stream import Broadcast
from headway.web.redacted import GuardedInsight


@dataclass(frozen=True)
class Desk:
    app: Headway
    insight: GuardedInsight
    doorkeeper: Doorkeeper
    allow_writes: bool
    live: Broadcast[Overview]

    def operator(self, request: Request) -> Operating:
        """The levers, in the name of whoever sent the request."""
        return self.app.operator(cast("str", request.scope["headway.actor"]))


def desk_of(request: Request) -> Desk:
    return cast("Desk", request.app.state.desk)
