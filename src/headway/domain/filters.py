"""Filters as people type them, in a terminal and in a browser: `state:failed type:charge`.

    filter  = word (space word)*             an empty filter matches everything
    word    = key ":" value
    value   = text without spaces and quotes, or "text in quotes" (\\" and \\\\ inside)

    state:failed           also scheduled, which is a pending job that is not due yet
    type:charge            type:mail.*  for all that begin with mail.
    queue:mail             worker:host-17     key:order-7 (of deduplication)
    id:0198f2…             sequence:0198f2…   root:0198f2…
    args.order_id:7        a value in the input; args.address.city:"New York", args.items.0:x
    error:timeout          a part of the last error's type or message, upper or lower case
    fingerprint:ab12       of a failed job, or its beginning
    created:<1h            less than an hour ago; finished:>2d longer ago than two days
                           (s, m, h, d, w, and together: 1h30m)

The same key again means "or" (`state:failed state:cancelled`), other keys mean "and". `sequence`
and `root` may be given once, `created` and `finished` once in each direction.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import msgspec

from headway.domain.failure import decode_failure
from headway.domain.job import JobRecord, JobState
from headway.domain.queries import Age, ArgumentFilter, JobFilter
from headway.domain.validation import check_id
from headway.domain.views import ShownState
from headway.errors import InvalidName, InvalidOption

MAX_FILTER = 4_000
MAX_WORDS = 100
MAX_AGE = 100 * 365 * 86_400.0

KEYS = (
    "state", "type", "queue", "id", "sequence", "root", "worker", "key", "error", "fingerprint",
    "created", "finished", "args.<name>",
)  # fmt: skip
STATES = tuple(ShownState)

_WORD = re.compile(r'(?P<key>[^\s:"]+):(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"]*))(?=\s|$)')
_PLAIN = re.compile(r'[^\s"]+')
_UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_AGE = re.compile(r"([<>])((?:\d+(?:\.\d+)?[smhdw])+)", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])", re.ASCII)
_PATTERN = re.compile(r"[^*]*\*?")
_HEXADECIMAL = re.compile(r"[0-9a-f]{1,64}")
_NEEDLE = re.compile(r"[A-Za-z0-9_. -]+")


def parse_filter(text: str) -> JobFilter:
    """Read a filter. Raises InvalidOption with one sentence that names the word that is wrong."""
    if len(text) > MAX_FILTER:
        raise InvalidOption(f"a filter has at most {MAX_FILTER} characters, this one {len(text)}")
    values: dict[str, list[str]] = {}
    arguments: list[ArgumentFilter] = []
    for count, (key, value) in enumerate(_words(text), start=1):
        if count > MAX_WORDS:
            raise InvalidOption(f"a filter has at most {MAX_WORDS} words")
        if key.startswith("args."):
            arguments.append(ArgumentFilter(key.removeprefix("args."), value))
        elif key not in KEYS:
            raise InvalidOption(f"a filter has no key {_shown(key)}; there are {', '.join(KEYS)}")
        elif not value:
            raise InvalidOption(f"{key}: in a filter needs a value, as in {_EXAMPLES[key]}")
        else:
            values.setdefault(key, []).append(value)
    states, due = _states(values.get("state", ()))
    return JobFilter(
        states=states,
        due=due,
        types=_each(values, "type", _type),
        queues=_each(values, "queue"),
        ids=_each(values, "id", _id),
        sequence_id=_once(values, "sequence"),
        root_id=_once(values, "root"),
        workers=_each(values, "worker"),
        keys=_each(values, "key"),
        fingerprints=_each(values, "fingerprint", _fingerprint),
        arguments=tuple(dict.fromkeys(arguments)),
        errors=_each(values, "error"),
        created=_age("created", values.get("created", ())),
        finished=_age("finished", values.get("finished", ())),
    )


def render_filter(which: JobFilter) -> str:
    """The filter as `parse_filter` reads it."""
    words: list[tuple[str, str]] = []
    for state in which.states:
        if state is not JobState.PENDING:
            words.append(("state", state))
            continue
        if which.due is not False:
            words.append(("state", "pending"))
        if which.due is not True:
            words.append(("state", "scheduled"))
    words += [("type", each) for each in which.types]
    words += [("queue", each) for each in which.queues]
    words += [("id", each) for each in which.ids]
    words += [("sequence", which.sequence_id)] if which.sequence_id else []
    words += [("root", which.root_id)] if which.root_id else []
    words += [("worker", each) for each in which.workers]
    words += [("key", each) for each in which.keys]
    words += [("fingerprint", each) for each in which.fingerprints]
    words += [(f"args.{each.path}", each.value) for each in which.arguments]
    words += [("error", each) for each in which.errors]
    for key, age in (("created", which.created), ("finished", which.finished)):
        words += [(key, f"<{_seconds(age.under)}")] if age.under is not None else []
        words += [(key, f">{_seconds(age.over)}")] if age.over is not None else []
    return " ".join(f"{key}:{_quoted(value)}" for key, value in words)


def has_text(which: JobFilter) -> bool:
    """Whether a filter has conditions for `matches_text`."""
    return bool(which.arguments or which.errors)


def matches_text(which: JobFilter, input: str, last_error: str | None) -> bool:
    """Whether a job matches the conditions on text, which databases compare differently."""
    return _has_arguments(which, input) and _has_error(which, last_error)


def input_needles(which: JobFilter) -> list[str]:
    """Texts that the stored input of every matching job contains: a store may search for them
    first. Only texts that all encoders write alike; strings with their quotes, so that the
    search does not reveal how a longer string begins."""
    paths: dict[str, list[str]] = {}
    for each in which.arguments:
        paths.setdefault(each.path, []).append(each.value)
    needles: list[str] = []
    for path, values in paths.items():
        needles += [
            part for part in path.split(".") if _NEEDLE.fullmatch(part) and not part.isdigit()
        ]
        if len(values) == 1 and _NEEDLE.fullmatch(values[0]):
            needles.append(values[0] if _may_be_bare(values[0]) else f'"{values[0]}"')
    return needles


def _may_be_bare(value: str) -> bool:
    """Whether JSON may hold this value without quotes, as a number, true, false or null."""
    try:
        msgspec.json.decode(value)
    except msgspec.DecodeError:
        return False
    return True


def error_needles(which: JobFilter) -> list[str]:
    """Texts in lower case: the stored error of a matching job contains one of them, unless the
    list is empty."""
    # `Type: message` is stored without the space; and errors that Headway did not write are shown
    # as `Error`, with or without that word in the stored text.
    parts = [each.lower().strip() for each in which.errors]
    usable = all(_NEEDLE.fullmatch(part) and part not in "error" for part in parts)
    return parts if usable else []


def matches(which: JobFilter, job: JobRecord, now: Any) -> bool:
    """Whether a job matches; for stores that have no query language."""
    return (
        (not which.states or job.state in which.states)
        and (
            which.due is None
            or job.state is not JobState.PENDING
            or (job.run_at <= now) is which.due
        )
        and (not which.types or any(matches_type(each, job.type) for each in which.types))
        and (not which.queues or job.queue in which.queues)
        and (not which.ids or job.id in which.ids)
        and (which.sequence_id is None or job.sequence_id == which.sequence_id)
        and (which.root_id is None or job.root_id == which.root_id)
        and (not which.workers or job.worker in which.workers)
        and (not which.keys or job.dedup_key in which.keys)
        and (not which.fingerprints or (job.fingerprint or "").startswith(which.fingerprints))
        and _is_of_age(which.created, job.created_at, now)
        and _is_of_age(which.finished, job.finished_at, now)
        and matches_text(which, job.input, job.last_error)
    )


def matches_type(pattern: str, type: str) -> bool:
    if pattern.endswith("*"):
        return type.startswith(pattern[:-1])
    return pattern == type


def _is_of_age(age: Age, moment: Any, now: Any) -> bool:
    if not age.restricts:
        return True
    if moment is None:
        return False
    seconds = (now - moment).total_seconds()
    return (age.under is None or seconds < age.under) and (age.over is None or seconds >= age.over)


def _has_arguments(which: JobFilter, input: str) -> bool:
    if not which.arguments:
        return True
    try:
        given = msgspec.json.decode(input)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    wanted: dict[str, set[str]] = {}
    for each in which.arguments:
        wanted.setdefault(each.path, set()).add(each.value)
    return all(_at(given, path.split(".")) in values for path, values in wanted.items())


def _at(value: Any, path: list[str]) -> str | None:
    """The value at the path as text; None if there is none."""
    for name in path:
        if isinstance(value, dict) and name in value:
            value = value[name]  # pyright: ignore[reportUnknownVariableType] - JSON
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):  # pyright: ignore[reportUnknownArgumentType] - JSON
            value = value[int(name)]  # pyright: ignore[reportUnknownVariableType] - JSON
        else:
            return None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _has_error(which: JobFilter, last_error: str | None) -> bool:
    if not which.errors:
        return True
    if last_error is None:
        return False
    said = str(decode_failure(last_error)).lower()
    return any(part.lower() in said for part in which.errors)


_EXAMPLES = {
    "state": "state:failed",
    "type": "type:charge",
    "queue": "queue:mail",
    "id": "id:01890a5d-ac96-774b-bcce-b302099a8057",
    "sequence": "sequence:01890a5d-ac96-774b-bcce-b302099a8057",
    "root": "root:01890a5d-ac96-774b-bcce-b302099a8057",
    "worker": "worker:host-17",
    "key": "key:order-7",
    "error": "error:timeout",
    "fingerprint": "fingerprint:ab12",
    "created": "created:<1h",
    "finished": "finished:>2d",
}


def _words(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        word = _WORD.match(text, place)
        if word is None:
            raise InvalidOption(
                f"{_shown(text[place:].split(maxsplit=1)[0])} is no word of a filter; "
                'write key:value, as in state:failed or key:"with spaces"'
            )
        quoted = word["quoted"]
        value = word["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.S)
        if "\0" in value or any("\ud800" <= char <= "\udfff" for char in word[0]):
            raise InvalidOption(
                f"the value of {_shown(word['key'])} in a filter must not hold NUL or unpaired "
                "surrogate characters"
            )
        yield word["key"], value
        place = word.end()


def _states(names: Any) -> tuple[tuple[JobState, ...], bool | None]:
    states: dict[JobState, None] = {}
    due: set[bool] = set()
    for name in names:
        if name not in STATES:
            raise InvalidOption(
                f"there is no state {_shown(name)} to filter by; there are {', '.join(STATES)}"
            )
        if name in ("scheduled", "pending"):
            due.add(name == "pending")
            states[JobState.PENDING] = None
        else:
            states[JobState(name)] = None
    return tuple(states), due.pop() if len(due) == 1 else None


def _each(
    values: dict[str, list[str]], key: str, check: Callable[[str], str] | None = None
) -> tuple[str, ...]:
    found = values.get(key, ())
    return tuple(dict.fromkeys(found if check is None else map(check, found)))


def _once(values: dict[str, list[str]], key: str) -> str | None:
    found = _each(values, key, _id)
    if len(found) > 1:
        raise InvalidOption(f"{key}: can be given once in a filter; use id: for several jobs")
    return found[0] if found else None


def _id(value: str) -> str:
    try:
        return check_id(value)
    except InvalidName:
        raise InvalidOption(f"{_shown(value)} is not an id to filter by; ids are UUIDs") from None


def _type(value: str) -> str:
    if not _PATTERN.fullmatch(value):
        raise InvalidOption(
            f"{_shown(value)} has a * that is not at its end; write type:mail.* for all types that "
            "begin with mail."
        )
    return value


def _fingerprint(value: str) -> str:
    if not _HEXADECIMAL.fullmatch(value):
        raise InvalidOption(
            f"{_shown(value)} is not a fingerprint; they are hexadecimal, as in fingerprint:ab12"
        )
    return value


def _age(key: str, values: Any) -> Age:
    bounds: dict[str, float] = {}
    for value in values:
        word = _AGE.fullmatch(value)
        if word is None:
            raise InvalidOption(
                f"{key}:{_shown(value)} is not an age; write {key}:<1h for less than an hour ago, "
                f"or {key}:>2d for more than two days (s, m, h, d, w)"
            )
        seconds = math.fsum(float(n) * _UNITS[unit] for n, unit in _PART.findall(word[2]))
        if seconds > MAX_AGE:
            raise InvalidOption(f"{key}: reaches back a hundred years at most")
        if word[1] in bounds:
            raise InvalidOption(f"{key}:{word[1]} can be given once in a filter")
        bounds[word[1]] = seconds
    return Age(under=bounds.get("<"), over=bounds.get(">"))


def _seconds(seconds: float) -> str:
    """In the largest unit that gives a whole number."""
    for unit in ("w", "d", "h", "m"):
        if seconds and seconds % _UNITS[unit] == 0:
            return f"{int(seconds // _UNITS[unit])}{unit}"
    return f"{format(Decimal(repr(seconds)), 'f').removesuffix('.0')}s"


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
