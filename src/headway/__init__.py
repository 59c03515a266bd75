"""A job queue for Python that lives in your database.

Errors are in `headway.errors`, stored jobs and other records in `headway.records`.
"""

from headway.app import Headway
from headway.client.client import Client, Sequence
from headway.client.completion import Completion, SyncCompletion
from headway.client.sync_client import SyncClient, SyncSequence
from headway.domain.due_time import After, At
from headway.domain.job import JobState
from headway.domain.limits.rate import Rate
from headway.domain.request import Continuation, ContinuationRequest, Dedup, Request
from headway.domain.retry import Backoff, Fixed, RetryPolicy
from headway.domain.schedules.catch_up import CatchUp
from headway.domain.schedules.timetable import Cron, Every
from headway.errors import Unrecoverable
from headway.jobs.job import Job
from headway.jobs.job_type import ContinuationType, JobType, declare
from headway.runtime.public_names import publish as _publish
from headway.worker.settings import Retention, WorkerSettings, WorkQueue
from headway.worker.worker import Worker

__all__ = [
    "After",
    "At",
    "Backoff",
    "CatchUp",
    "Client",
    "Completion",
    "Continuation",
    "ContinuationRequest",
    "ContinuationType",
    "Cron",
    "Dedup",
    "Every",
    "Fixed",
    "Headway",
    "Job",
    "JobState",
    "JobType",
    "Rate",
    "Request",
    "Retention",
    "RetryPolicy",
    "Sequence",
    "SyncClient",
    "SyncCompletion",
    "SyncSequence",
    "Unrecoverable",
    "WorkQueue",
    "Worker",
    "WorkerSettings",
    "declare",
]

_publish(__name__, __all__)
