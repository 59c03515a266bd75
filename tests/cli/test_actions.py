"""How many jobs an action says that it is about."""

from __future__ import annotations

import pytest

from headway.cli.actions import COUNTED, many_jobs
from headway.domain.views import Count


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (Count(1), "1 job"),
        (Count(1_234), "1,234 jobs"),
        (Count(0, exact=False), "an unknown number of jobs"),
        (Count(COUNTED, exact=False), "10,000 or more jobs"),
        (Count(123_456, exact=False), "about 123 k jobs"),
    ],
)
def testmany_jobs(count: Count, said: str) -> None:
    assert many_jobs(count) == said
