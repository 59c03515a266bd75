"""A job queue for Python that lives in your database."""

from headway.app import Headway
from headway.client.client import Client, Sequence
from headway.client.completion import Completion, SyncCompletion
from headway.client.sync_client import SyncClient, SyncSequence
from headway.domain.job import AttemptRecord, JobRecord, JobState
from headway.domain.lease import Lease
from headway.domain.queries import JobCount, Page, QueueRecord, WorkerRecord
from headway.domain.request import (
    Continuation,
    ContinuationRequest,
    Dedup,
    Request,
    SequenceReference,
)
from headway.domain.retry import Backoff, Fixed, RetryPolicy
from headway.domain.schedule import After, At
from headway.errors import (
    ConfigurationError,
    DataRefused,
    DuplicateJob,
    Failure,
    HeadwayError,
    InvalidName,
    InvalidOption,
    InvalidPayload,
    InvalidRequest,
    JobInterrupted,
    JobNotFound,
    NotifierClosed,
    ResultCancelled,
    ResultError,
    ResultFailed,
    ResultTimeout,
    SchemaMissing,
    SchemaOutdated,
    SequencesNeeded,
    StoreClosed,
    StoreError,
    StoreRefused,
    StoreUnreachable,
    UnknownJobType,
    Unrecoverable,
    WrongState,
)
from headway.jobs.codec import JsonCodec
from headway.jobs.job import Job
from headway.jobs.job_type import ContinuationType, JobType, declare
from headway.notifiers.local import LocalNotifier
from headway.notifiers.none import NoNotifier
from headway.observers.logs import LogObserver
from headway.worker.settings import Retention, WorkerSettings, WorkQueue
from headway.worker.worker import Worker

__all__ = [
    "After",
    "At",
    "AttemptRecord",
    "Backoff",
    "Client",
    "Completion",
    "ConfigurationError",
    "Continuation",
    "ContinuationRequest",
    "ContinuationType",
    "DataRefused",
    "Dedup",
    "DuplicateJob",
    "Failure",
    "Fixed",
    "Headway",
    "HeadwayError",
    "InvalidName",
    "InvalidOption",
    "InvalidPayload",
    "InvalidRequest",
    "Job",
    "JobCount",
    "JobInterrupted",
    "JobNotFound",
    "JobRecord",
    "JobState",
    "JobType",
    "JsonCodec",
    "Lease",
    "LocalNotifier",
    "LogObserver",
    "NoNotifier",
    "NotifierClosed",
    "Page",
    "QueueRecord",
    "Request",
    "ResultCancelled",
    "ResultError",
    "ResultFailed",
    "ResultTimeout",
    "Retention",
    "RetryPolicy",
    "SchemaMissing",
    "SchemaOutdated",
    "Sequence",
    "SequenceReference",
    "SequencesNeeded",
    "StoreClosed",
    "StoreError",
    "StoreRefused",
    "StoreUnreachable",
    "SyncClient",
    "SyncCompletion",
    "SyncSequence",
    "UnknownJobType",
    "Unrecoverable",
    "WorkQueue",
    "Worker",
    "WorkerRecord",
    "WorkerSettings",
    "WrongState",
    "declare",
]
