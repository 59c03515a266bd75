"""Errors as answers: a status, a code for programs and a sentence for people."""

from __future__ import annotations

import logging
import re
from http import HTTPStatus

from starlette.exceptions import HTTPException

from headway.admin.endpoints import Problem
from headway.errors import (
    HeadwayError,
    InvalidRequest,
    JobNotFound,
    ScheduleNotFound,
    SequencesNeeded,
    StoreError,
    WrongState,
)

logger = logging.getLogger("headway.web")


class Refused(Exception):
    """A request that is refused before it reaches the store."""

    def __init__(
        self, status: int, code: str, message: str, *, retry_after: int | None = None
    ) -> None:
        self.status = status
        self.code = code
        self.retry_after = retry_after
        super().__init__(message)


def problem_of(error: Exception) -> tuple[int, Problem]:
    """The status and the problem. Unexpected errors are logged and answered without details."""
    match error:
        case Refused():
            return error.status, Problem(error.code, str(error))
        case InvalidRequest():
            return 400, Problem(_code(error), str(error))
        case JobNotFound() | ScheduleNotFound():
            return 404, Problem(_code(error), str(error))
        case WrongState() | SequencesNeeded():
            return 409, Problem(_code(error), str(error))
        case StoreError():
            logger.warning("the store did not answer: %s", error)
            return 503, Problem(_code(error), str(error))
        case HeadwayError():
            return 400, Problem(_code(error), str(error))
        case HTTPException():
            phrase = HTTPStatus(error.status_code).phrase
            code = re.sub(r"[^a-z]+", "_", phrase.lower())
            return error.status_code, Problem(code, _SENTENCES.get(error.status_code, phrase))
        case _:
            logger.error("a request failed", exc_info=error)
            return 500, Problem(
                "internal", "Internal error; the log of the dashboard has the details."
            )


_SENTENCES = {
    404: "There is no such page.",
    405: "This address does not support that method.",
}


def _code(error: Exception) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()
