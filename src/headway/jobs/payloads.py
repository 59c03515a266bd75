"""Payloads that people give for a stored job: its output, or a new input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.domain.job import JobRecord
from headway.domain.request import AnyRequest, ContinuationRequest
from headway.errors import InvalidRequest
from headway.jobs.job_type import AnyType
from headway.jobs.registry import Registry
from headway.ports.codec import Codec


class Payloads:
    """Uses the coders of registered job types, and plain JSON for unknown ones."""

    def __init__(self, registry: Registry, codec: Codec) -> None:
        self._registry = registry
        self._codec = codec

    def encode_output(self, given: AnyType | None, name: str, value: Any) -> str | None:
        """The output of a job of type `name`, checked if that type is `given` or registered."""
        known = given if given is not None and given.name == name else self._registry.find(name)
        if known is not None:
            return known.definition.encode_result(value)
        if value is None:
            return None
        return self._codec.coder(Any, what=f"the output of job type {name!r}").encode(value)

    def encode_input(self, edited: AnyRequest | Mapping[str, Any], job: JobRecord) -> str:
        """The input that replaces the input of `job`."""
        if isinstance(edited, ContinuationRequest):
            if edited.type != job.type:
                raise InvalidRequest(
                    f"job {job.id} is of type {job.type!r}; "
                    f"it cannot be given the input of a {edited.type!r}"
                )
            return edited.input
        known = self._registry.find(job.type)
        if known is not None:
            return known.definition.arguments.encode((), dict(edited))
        return self._codec.coder(Any, what=f"the input of job type {job.type!r}").encode(
            dict(edited)
        )
