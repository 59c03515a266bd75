"""How many jobs an action says that it is about."""

from __future__ import annotations

import pytest

from headway.cli.actions import COUNTED, many_jobs
from headway.domain.views import Counted


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (Counted(1), "1 job"),
        (Counted(1_234), "1,234 jobs"),
        (Counted(0, exact=False), "an unknown number of jobs"),
        (Counted(COUNTED, exact=False), "10,000 or more jobs"),
        (Counted(123_456, exact=False), "about 123 k jobs"),
    ],
)
def testmany_jobs(count: Counted, said: str) -> None:
    assert many_jobs(count) == said
