"""The admin API as a table: the address of every question and action of `headway.ports.admin`.

The dashboard serves and describes the table, the command line calls it. Parameters, their bounds
and the answer are those of the method.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, get_type_hints
from urllib.parse import quote

import msgspec
from msgspec import Meta

from headway.domain.filters import MAX_FILTER, parse_filter, render_filter
from headway.domain.queries import JobFilter
from headway.domain.validation import check_id_or_ending
from headway.ports.admin import Actions, Questions

PREFIX = "/api/v1"

FilterText = Annotated[str, Meta(max_length=MAX_FILTER, description="state:failed type:charge")]
Input = Annotated[dict[str, Any] | str, Meta(description="Its arguments, or their JSON as text.")]


class Problem(msgspec.Struct, frozen=True):
    """`code` is the error's name in snake case: `job_not_found`, `invalid_option`."""

    code: str
    message: str


class ProblemAnswer(msgspec.Struct, frozen=True):
    """The answer to every refused or failed request."""

    error: Problem


@dataclass(frozen=True)
class AdminEndpoint:
    """One address of the API. A GET has its parameters in the query, a POST in a JSON body; a
    filter is the parameter `q`, an id in the path. Names are no part of a path: they may hold
    `/`."""

    method: str
    path: str
    function: Callable[..., Any]
    """A method of `Questions` or `Actions`."""
    summary: str
    status: int = 200

    @property
    def name(self) -> str:
        return self.function.__name__

    @cached_property
    def answer(self) -> Any:
        """The type of the answer."""
        return get_type_hints(self.function)["return"]

    @cached_property
    def parameters(self) -> type[msgspec.Struct]:
        """What is sent, besides the id in the path."""
        types = get_type_hints(self.function, include_extras=True)
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for name, parameter in self._signature.parameters.items():
            if name == "self" or f"{{{name}}}" in self.path:
                continue
            if types[name] is JobFilter:
                fields.append(("q", FilterText, "") if self.method == "GET" else ("q", FilterText))
            elif name == "input":
                fields.append((name, Input))
            elif parameter.default is inspect.Parameter.empty:
                fields.append((name, types[name]))
            else:
                fields.append((name, types[name], parameter.default))
        title = self.name.title().replace("_", "")
        return msgspec.defstruct(
            title, fields, frozen=True, kw_only=True, forbid_unknown_fields=True
        )

    def decode(self, path: Mapping[str, Any], sent: msgspec.Struct) -> dict[str, Any]:
        """The arguments of the function. Raises InvalidOption if the filter is wrong."""
        given = {**path, **msgspec.structs.asdict(sent)}
        if isinstance(given.get("input"), dict):
            given["input"] = msgspec.json.encode(given["input"]).decode()
        if "q" in given:
            given["which"] = parse_filter(given.pop("q"))
        return given

    def encode(self, *args: Any, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        """The path and the parameters of a call; those with their defaults may be left out."""
        given = self._signature.bind(None, *args, **kwargs).arguments
        del given["self"]
        path = self.path
        if "{id}" in path:
            path = path.replace("{id}", quote(check_id_or_ending(given.pop("id")), safe=""))
        if "which" in given:
            given["q"] = render_filter(given.pop("which"))
        parameters = self._signature.parameters
        return path, {
            name: value
            for name, value in given.items()
            if name == "q" or value is not parameters[name].default
        }

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.function)


ENDPOINTS = (
    AdminEndpoint(
        "GET", "/overview", Questions.overview, "Counts, throughput, waiting and running times"
    ),
    AdminEndpoint("GET", "/queues", Questions.queues, "Queues and their jobs"),
    AdminEndpoint("GET", "/queues/detail", Questions.queue, "A queue with its keys"),
    AdminEndpoint("GET", "/types", Questions.types, "Job types and their jobs"),
    AdminEndpoint("GET", "/jobs", Questions.jobs, "Jobs that match a filter, newest first"),
    AdminEndpoint("GET", "/jobs/count", Questions.count, "Number of jobs that match a filter"),
    AdminEndpoint(
        "GET", "/jobs/{id}", Questions.job, "A job with its attempts, blockers and progress"
    ),
    AdminEndpoint(
        "GET", "/jobs/{id}/why", Questions.why, "Why a job is not running, or what it does"
    ),
    AdminEndpoint("GET", "/sequences", Questions.sequences, "Sequences with their current jobs"),
    AdminEndpoint(
        "GET", "/sequences/{id}/graph", Questions.graph, "All jobs under the root of a sequence"
    ),
    AdminEndpoint("GET", "/failures", Questions.failures, "Failed jobs by fingerprint"),
    AdminEndpoint("GET", "/workers", Questions.workers, "Workers, living or not"),
    AdminEndpoint("GET", "/schedules", Questions.schedules, "Schedules by name"),
    AdminEndpoint(
        "GET", "/schedules/detail", Questions.schedule, "A schedule with its next and last ticks"
    ),
    AdminEndpoint(
        "GET", "/schedules/why", Questions.explain_schedule, "Why a schedule starts no job now"
    ),
    AdminEndpoint(
        "GET", "/schedules/backfill", Questions.plan_backfill, "What a backfill would start"
    ),
    AdminEndpoint("GET", "/audit", Questions.audit, "Actions of operators, newest first"),
    AdminEndpoint("GET", "/check", Questions.check, "Waiting jobs that this code cannot run"),
    AdminEndpoint("POST", "/jobs", Actions.start, "Start a job of a type known here", 201),
    AdminEndpoint("POST", "/jobs/act", Actions.act, "Retry, cancel, trigger or delete jobs"),
    AdminEndpoint(
        "POST", "/jobs/act-on-all", Actions.act_on_all, "The same for all jobs that match a filter"
    ),
    AdminEndpoint("POST", "/queues/pause", Actions.pause, "Start no more jobs of a queue"),
    AdminEndpoint("POST", "/queues/resume", Actions.resume, "Start the jobs of a queue again"),
    AdminEndpoint(
        "POST", "/queues/limit", Actions.limit_queue, "Override limits that the code declares"
    ),
    AdminEndpoint(
        "POST", "/queues/clear-limits", Actions.clear_limits, "Take the overrides of limits back"
    ),
    AdminEndpoint(
        "POST", "/queues/release", Actions.release_hold, "End the holds of a queue and its keys"
    ),
    AdminEndpoint(
        "POST", "/schedules/pause", Actions.pause_schedule, "Fire no more ticks of a schedule"
    ),
    AdminEndpoint(
        "POST", "/schedules/resume", Actions.resume_schedule, "Fire the ticks of a schedule again"
    ),
    AdminEndpoint(
        "POST",
        "/schedules/trigger",
        Actions.trigger_schedule,
        "Start the job of a schedule now",
        201,
    ),
    AdminEndpoint(
        "POST",
        "/schedules/backfill",
        Actions.backfill_schedule,
        "Start jobs for ticks of the past that have none",
    ),
    AdminEndpoint(
        "POST", "/schedules/delete", Actions.delete_schedule, "Delete a schedule; its jobs stay"
    ),
)
