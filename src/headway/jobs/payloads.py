"""Encodes what people hand in for a job whose type is known by its name: outputs, edited inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.domain.job import JobRecord
from headway.domain.request import Step
from headway.errors import InvalidRequest
from headway.jobs.job_type import StepType
from headway.jobs.registry import Registry
from headway.ports.codec import Codec

AnyType = StepType[..., Any, *tuple[Any, ...]]


class Outputs:
    def __init__(self, registry: Registry, codec: Codec) -> None:
        self._registry = registry
        self._codec = codec

    def encode(self, given: AnyType | None, name: str, value: Any) -> str | None:
        """An output for a job of type `name`, checked if that type is `given` or registered."""
        known = given if given is not None and given.name == name else self._registry.find(name)
        if known is not None:
            return known.definition.encode_result(value)
        if value is None:
            return None
        return self._codec.coder(Any, what=f"the output of job type {name!r}").encode(value)

    def edited_input(
        self, edited: Step[Any, *tuple[Any, ...]] | Mapping[str, Any], job: JobRecord
    ) -> str:
        """The input that replaces a job's own."""
        if isinstance(edited, Step):
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
