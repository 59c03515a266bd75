"""What Headway returns: stored jobs, schedules, queues and workers, and answers to questions of
operators.

The classes are defined in `headway.domain`; import them from here. `Failure` is one of
`headway.errors`, too.
"""

from headway.domain.job import AttemptRecord, JobRecord
from headway.domain.lease import Lease
from headway.domain.queries import JobCount, Page, QueueRecord, WorkerRecord
from headway.domain.schedules.schedule import (
    ScheduleDefinition,
    ScheduledJob,
    ScheduleRecord,
    ScheduleRun,
)
from headway.domain.views import (
    AuditPage,
    AuditRecord,
    Batch,
    CheckPage,
    Count,
    Explanation,
    FailureGroup,
    JobDetail,
    Overview,
    Progress,
    QueueSummary,
    SequenceGraph,
    SequencePage,
    SequenceView,
    TypeSummary,
    WorkerSummary,
)
from headway.errors import Failure
from headway.runtime.public_names import publish as _publish

__all__ = [
    "AttemptRecord",
    "AuditPage",
    "AuditRecord",
    "Batch",
    "CheckPage",
    "Count",
    "Explanation",
    "Failure",
    "FailureGroup",
    "JobCount",
    "JobDetail",
    "JobRecord",
    "Lease",
    "Overview",
    "Page",
    "Progress",
    "QueueRecord",
    "QueueSummary",
    "ScheduleDefinition",
    "ScheduleRecord",
    "ScheduleRun",
    "ScheduledJob",
    "SequenceGraph",
    "SequencePage",
    "SequenceView",
    "TypeSummary",
    "WorkerRecord",
    "WorkerSummary",
]

_publish(__name__, (name for name in __all__ if name != "Failure"))
