"""Hides payload fields by name, at any depth."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from headway.domain.filters import parse_filter, plain_name, render_filter
from headway.domain.job import JobRecord
from headway.domain.queries import ArgumentFilter, JobFilter, Page
from headway.domain.schedules.schedule_views import ScheduleDetail
from headway.domain.views import BY_FILTER, AuditPage, AuditRecord, CheckPage, JobDetail
from headway.errors import ConfigurationError, InvalidOption
from headway.web.problems import Refused

T = TypeVar("T")

ALWAYS = (
    "password", "passwd", "passphrase", "secret", "token", "credential", "authorization",
    "api_key", "apikey", "access_key", "private_key", "cookie", "cvv", "cvc", "card_number", "iban",
)  # fmt: skip
HIDDEN = "[redacted]"
UNTOLD = "the reason is not shown: it may quote a redacted field of the input"


class Redaction:
    """A field is hidden if its name holds one of the names; case, `-` and `_` do not matter:
    `password` hides `userPassword` and `db_password_hash`."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        if isinstance(names, str):
            raise ConfigurationError(f"redact takes a list of names: redact=[{names!r}]")
        self.names = tuple(sorted({plain_name(name) for name in (*ALWAYS, *names)}))
        """Parts of the names of hidden fields."""
        if "" in self.names:
            raise ConfigurationError("a name to redact needs a letter or a digit")
        self._pattern = re.compile("|".join(map(re.escape, self.names)))

    def hides(self, name: str) -> bool:
        return self._pattern.search(plain_name(name)) is not None

    def answer(self, answer: T) -> T:
        """An answer of `headway.ports.admin` without the values of hidden fields. All types of
        answers that hold payloads or filters are listed here."""
        match answer:
            case Page(jobs, cursor):
                return cast("T", Page([self.job(job) for job in jobs], cursor))
            case JobDetail(job=job):
                return cast("T", msgspec.structs.replace(answer, job=self.job(job)))
            case ScheduleDetail(job=scheduled):
                hidden = msgspec.structs.replace(scheduled, input=self.payload(scheduled.input))
                return cast("T", msgspec.structs.replace(answer, job=hidden))
            case AuditPage(records, cursor):
                return cast("T", AuditPage([self._record(each) for each in records], cursor))
            case _:
                return answer

    def check(self, checked: CheckPage, jobs: Sequence[JobRecord]) -> CheckPage:
        """The same for the check of these jobs: problems may quote their inputs."""
        plain = {job.id for job in jobs if self.payload(job.input) == job.input}
        incompatible = [
            each if each.job_id in plain else msgspec.structs.replace(each, problem=UNTOLD)
            for each in checked.incompatible
        ]
        return CheckPage(checked.examined, incompatible, checked.cursor)

    def checked_filter(self, which: JobFilter) -> JobFilter:
        """The filter, without a search in hidden fields. Refuses a condition on such a field:
        whether it matches would tell the value."""
        for argument in which.arguments:
            if self.asks(argument):
                raise Refused(
                    403,
                    "redacted",
                    f"args.{argument.path} is redacted or has redacted fields, so it cannot be "
                    "searched for.",
                )
        return msgspec.structs.replace(which, hidden=self.names) if which.words else which

    def payload(self, text: str) -> str:
        """The payload as JSON without the values of hidden fields. A payload that is not JSON has
        no fields, so all of it is hidden."""
        try:
            value: object = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return msgspec.json.encode(f"[not JSON: {len(text):,} characters]").decode()
        except RecursionError:
            return msgspec.json.encode("[nested too deeply to be shown]").decode()
        if not self._found_in(text):
            return text
        return msgspec.json.encode(self._cleaned(value)).decode()

    def reveals(self, text: str) -> bool:
        """Whether a text is JSON with a hidden field: a search for it would tell the value."""
        try:
            value: object = msgspec.json.decode(text)
            return self._has_hidden(value)
        except (msgspec.DecodeError, UnicodeError):
            return False
        except RecursionError:
            return True

    def filter(self, text: str) -> str:
        """A filter as it was typed, without the values of hidden fields."""
        try:
            which = parse_filter(text)
        except InvalidOption:  # cut short, or no filter
            return HIDDEN if self._found_in(text) else text
        if not any(map(self.asks, which.arguments)):
            return text
        arguments = tuple(
            ArgumentFilter(each.path, HIDDEN) if self.asks(each) else each
            for each in which.arguments
        )
        return render_filter(msgspec.structs.replace(which, arguments=arguments))

    def asks(self, argument: ArgumentFilter) -> bool:
        """Whether a condition is on a hidden field, or on a value that holds one."""
        return any(map(self.hides, argument.path.split("."))) or self.reveals(argument.value)

    def job(self, job: JobRecord) -> JobRecord:
        lease = job.lease and msgspec.structs.replace(job.lease, token=HIDDEN)
        output = None if job.output is None else self.payload(job.output)
        return msgspec.structs.replace(
            job, input=self.payload(job.input), output=output, lease=lease
        )

    def _record(self, record: AuditRecord) -> AuditRecord:
        """Filters of other operators may name hidden fields."""
        if not record.target.startswith(BY_FILTER):
            return record
        shown = self.filter(record.target.removeprefix(BY_FILTER))
        return msgspec.structs.replace(record, target=BY_FILTER + shown)

    def _found_in(self, text: str) -> bool:
        """A quick test: most payloads need no rewriting."""
        return "\\u" in text or self._pattern.search(plain_name(text)) is not None

    def _has_hidden(self, value: object) -> bool:
        if isinstance(value, Mapping):
            fields = cast("Mapping[str, Any]", value)
            return any(
                self.hides(name) or self._has_hidden(inner) for name, inner in fields.items()
            )
        return isinstance(value, list) and any(map(self._has_hidden, cast("list[object]", value)))

    def _cleaned(self, value: object) -> object:
        if isinstance(value, Mapping):
            fields = cast("Mapping[str, Any]", value)
            return {
                name: HIDDEN if self.hides(name) else self._cleaned(inner)
                for name, inner in fields.items()
            }
        if isinstance(value, list):
            return [self._cleaned(inner) for inner in cast("list[object]", value)]
        return value
