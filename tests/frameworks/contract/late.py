"""Tasks in a module that Django does not import at setup."""

from __future__ import annotations

from tests.frameworks.contract.tasks import ran, task


@task
def late(text: str) -> None:
    ran.append(text)


def hidden() -> None: ...


misnamed = task(hidden)
