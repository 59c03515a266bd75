"""A backend for Django's Tasks framework: every task is a job type under its own name.

TASKS = {"default": {"BACKEND": "headway.django.tasks.HeadwayBackend"}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from django.apps import apps
from django.utils import timezone
from django.utils.module_loading import import_string

from headway.django import app
from headway.django.task_settings import framework_module, named_by_tasks
from headway.domain.due_time import At
from headway.domain.job import AttemptRecord, JobRecord, JobState
from headway.errors import (
    ConfigurationError,
    Failure,
    HeadwayError,
    InvalidName,
    InvalidRequest,
)
from headway.jobs.job import Job
from headway.jobs.job_type import JobType
from headway.worker.tracebacks import describe, users_part

if TYPE_CHECKING:

    class BaseTaskBackend:
        """The used part of the framework's class, in Django 6 and in django-tasks."""

        alias: str
        options: dict[str, Any]

        def validate_task(self, task: Any) -> None: ...

else:
    BaseTaskBackend = framework_module("backends.base").BaseTaskBackend

_base: Any = framework_module("base")
_signals: Any = framework_module("signals")
_exceptions: Any = framework_module("exceptions")

_STATUS = {
    JobState.BLOCKED: "READY",
    JobState.PENDING: "READY",
    JobState.RUNNING: "RUNNING",
    JobState.COMPLETED: "SUCCESSFUL",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "FAILED",
}


class _TaskCall(msgspec.Struct, omit_defaults=True):
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    backend: str
    run_after: datetime | None = None


TaskType = JobType[[_TaskCall], Any]


def _run_task(job: Job, given: _TaskCall) -> Any:
    """Run a Django task, in a thread."""
    result = _result(app.sync.get(job.id), given)
    sender: Any = result.task.get_backend().__class__
    _signals.task_started.send(sender=sender, task_result=result)
    context = (_base.TaskContext(task_result=result),) if result.task.takes_context else ()
    try:
        value = result.task.call(*context, *given.args, **given.kwargs)
        value = _base.normalize_json(value)
    except BaseException as error:
        error.__traceback__ = users_part(error.__traceback__, "django", "django_tasks", "asgiref")
        result.errors.append(_task_error(describe(error)))
        _set(result, status="FAILED", finished_at=timezone.now())
        _signals.task_finished.send(sender=sender, task_result=result)
        raise
    _set(result, status="SUCCESSFUL", finished_at=timezone.now(), _return_value=value)
    _signals.task_finished.send(sender=sender, task_result=result)
    return value


def _type_named(name: str) -> TaskType:
    decorate: Any = app.job(name=name)
    made: TaskType = decorate(_run_task)
    return made


OTHER_TASKS = _type_named("django.task")
"""The type of tasks that are defined after Django's setup, in modules that a worker may not have
imported."""
_types: dict[str, TaskType] = {OTHER_TASKS.name: OTHER_TASKS}


def task_type(task: Any) -> TaskType:
    """The job type of a task."""
    return _types.get(task.module_path, OTHER_TASKS)


def _register(task: Any) -> None:
    """Give the task a job type of its own name, if it is defined during Django's setup: then every
    process has it, and workers can run its jobs."""
    name = task.module_path
    if not apps.ready and name not in _types:
        with suppress(InvalidName):  # too long, or with letters that only Python allows
            _types[name] = _type_named(name)


class HeadwayBackend(BaseTaskBackend):
    """Enqueues tasks on Django's connection, in its open transaction.

    OPTIONS are job options for all tasks: `max_attempts`, `max_losses`, `timeout`.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Any) -> None:
        super().validate_task(task)
        named_by_tasks.add(task.queue_name)
        _register(task)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self.validate_task(task)
        _check_importable(task)
        options = {**self.options, "queue": task.queue_name, "priority": task.priority}
        if task.run_after is not None:
            options["schedule"] = At(_aware(task.run_after))
        given = _TaskCall(
            task.module_path,
            _base.normalize_json(list(args)),
            _base.normalize_json(dict(kwargs)),
            self.alias,
            task.run_after,
        )
        try:
            started = app.sync.start(task_type(task).request(given), **options)
        except InvalidRequest as error:
            raise TypeError(str(error)) from error
        result = _result(app.sync.get(started), given, task)
        _signals.task_enqueued.send(sender=type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        try:
            job = app.sync.get(result_id)
        except HeadwayError as error:
            raise _exceptions.TaskResultDoesNotExist(result_id) from error
        if job.type not in _types:
            raise _exceptions.TaskResultDoesNotExist(result_id)
        (given,), _ = OTHER_TASKS.definition.arguments.decode(job.input)
        return _result(job, given)


def _result(job: JobRecord, given: _TaskCall, task: Any = None) -> Any:
    """The framework's TaskResult: everything known of a task."""
    if task is None:
        task = _imported(given.task).using(
            priority=job.priority,
            queue_name=job.queue,
            run_after=given.run_after,
            backend=given.backend,
        )
    past: list[AttemptRecord] = []
    if job.attempts or job.losses or job.lease_version > 1:
        past = app.sync.attempts(job.id)
    workers = [attempt.worker or "" for attempt in past]
    if job.worker is not None and len(past) < job.lease_version:
        workers.append(job.worker)
    errors = [_task_error(attempt.failure) for attempt in past]
    if job.state is JobState.CANCELLED:
        errors.append(_task_error(Failure("asyncio.CancelledError", "it was cancelled")))
    result = _base.TaskResult(
        task=task,
        id=job.id,
        status=_base.TaskResultStatus[_STATUS[job.state]],
        enqueued_at=job.created_at,
        started_at=past[0].started_at if past else job.started_at,
        finished_at=job.finished_at,
        last_attempted_at=job.started_at or (past[-1].started_at if past else None),
        args=given.args,
        kwargs=given.kwargs,
        backend=given.backend,
        errors=errors,
        worker_ids=workers,
    )
    if job.state is JobState.COMPLETED and job.output is not None:
        _set(result, _return_value=msgspec.json.decode(job.output))
    return result


def _imported(path: str) -> Any:
    """The task of this name."""
    try:
        found = import_string(path)
    except ImportError as error:
        raise ConfigurationError(
            f"the task {path} cannot be imported ({error}); deploy its code to the workers"
        ) from error
    if not isinstance(found, _base.Task):
        raise ConfigurationError(
            f"{path} is not a task but a {type(found).__name__}; give the task the name of its "
            "function, as @task does"
        )
    return found


def _check_importable(task: Any) -> None:
    """Refuse a task that no worker can find by its name."""
    if task.func.__module__ == "__main__":
        raise ConfigurationError(
            f"the task {task.func.__qualname__} is defined in a script, which workers cannot "
            "import; move it to a module, such as the `tasks` module of an app"
        )
    _imported(task.module_path)


def _set(result: Any, **values: Any) -> None:
    """Results are frozen dataclasses."""
    if "status" in values:
        values["status"] = _base.TaskResultStatus[values["status"]]
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _task_error(failure: Failure) -> Any:
    path = failure.type if "." in failure.type else f"builtins.{failure.type}"
    return _base.TaskError(exception_class_path=path, traceback=failure.traceback or str(failure))


def _aware(moment: datetime) -> datetime:
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment
