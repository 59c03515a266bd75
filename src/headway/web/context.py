"""What the pages and the API have in common: one per dashboard, found through the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from headway.app import Headway
from headway.domain.views import Overview
from headway.ports.admin import Actions
from headway.web.access import Doorkeeper
from headway.web.event_stream import Broadcast
from headway.web.redacted import GuardedInsight


@dataclass(frozen=True)
class Desk:
    app: Headway
    questions: GuardedInsight
    doorkeeper: Doorkeeper
    allow_writes: bool
    live: Broadcast[Overview]

    def actions(self, request: Request) -> Actions:
        """The levers, in the name of whoever sent the request."""
        return self.app.actions(cast("str", request.scope["headway.actor"]))


def desk_of(request: Request) -> Desk:
    return cast("Desk", request.app.state.desk)
