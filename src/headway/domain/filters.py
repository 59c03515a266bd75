"""Filters as people type them, in a terminal and in a browser: `state:failed type:charge`.

    filter  = word (space word)*             an empty filter matches everything
    word    = key ":" value, or a value alone
    value   = text without spaces and quotes, or "text in quotes" (\\" and \\\\ inside)

    state:failed           also scheduled, which is a pending job that is not due yet
    type:charge            type:mail.*  for all that begin with mail.
    queue:mail             worker:host-17
    key:tenant-7           key for limits; dedup:order-7 is a deduplication key
    schedule:vat           of the sequences that this schedule started
    id:099a8057            sequence:099a8057  root:099a8057   whole ids, or endings of ids
    args.order_id:7        a value in the input; args.address.city:"New York", args.items.0:x
    error:timeout          a part of the last error's type or message, upper or lower case
    fingerprint:ab12       of a failed job, or its beginning
    created:<1h            less than an hour ago; finished:>2d longer ago than two days
                           (s, m, h, d, w, and together: 1h30m)
    timeout                anything: an id or its ending, a part of the type, queue, worker, key or
                           error, or a value in the input; "of two words" in quotes

The same key again means "or" (`state:failed state:cancelled`); other keys, and values alone, mean
"and". `sequence` and `root` may be given once, `created` and `finished` once in each direction.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple, cast

import msgspec

from headway.domain.failure import decode_failure
from headway.domain.job import JobRecord, JobState
from headway.domain.queries import Age, ArgumentFilter, JobFilter
from headway.domain.validation import SHORTEST_ENDING, check_id_or_ending
from headway.domain.views import ShownState
from headway.errors import InvalidName, InvalidOption

MAX_FILTER = 4_000
MAX_WORDS = 100
MAX_AGE = 100 * 365 * 86_400.0

KEYS = (
    "state", "type", "queue", "id", "sequence", "root", "worker", "key", "dedup", "schedule",
    "error", "fingerprint", "created", "finished", "args.<name>",
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
_ALONE = re.compile(r'"(?P<quoted>(?:[^"\\]|\\.)*)"(?=\s|$)|(?P<bare>[^\s":]+)(?=\s|$)')
_BARE = re.compile(r'[^\s":]+')
_ALONE_NEEDLE = re.compile(r"""[^\x00-\x1f"\\/<>&':\x7f-\U0010ffff]+""")
_NAME_PARTS = re.compile(r"[^a-z0-9]+")


class JobText(NamedTuple):
    """The texts of a job that a filter may search; a JobRecord has them, too."""

    id: str
    type: str
    queue: str
    worker: str | None
    dedup_key: str | None
    key: str | None
    input: str
    last_error: str | None


def parse_filter(text: str) -> JobFilter:
    """Read a filter. Raises InvalidOption with one sentence that names the word that is wrong."""
    if len(text) > MAX_FILTER:
        raise InvalidOption(f"a filter has at most {MAX_FILTER} characters, this one {len(text)}")
    values: dict[str, list[str]] = {}
    arguments: list[ArgumentFilter] = []
    words: list[str] = []
    for count, (key, value) in enumerate(_words(text), start=1):
        if count > MAX_WORDS:
            raise InvalidOption(f"a filter has at most {MAX_WORDS} words")
        if key is None:
            words += [value] if value else []
        elif key.startswith("args."):
            arguments.append(ArgumentFilter(key.removeprefix("args."), value))
        elif key not in KEYS:
            raise InvalidOption(
                f"a filter has no key {_shown(key)}; there are {', '.join(KEYS)}; text with a "
                "colon in it needs quotes"
            )
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
        dedup_keys=_each(values, "dedup"),
        schedules=_each(values, "schedule"),
        fingerprints=_each(values, "fingerprint", _fingerprint),
        arguments=tuple(dict.fromkeys(arguments)),
        errors=_each(values, "error"),
        words=tuple(dict.fromkeys(words)),
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
    words += [("dedup", each) for each in which.dedup_keys]
    words += [("schedule", each) for each in which.schedules]
    words += [("fingerprint", each) for each in which.fingerprints]
    words += [(f"args.{each.path}", each.value) for each in which.arguments]
    words += [("error", each) for each in which.errors]
    for key, age in (("created", which.created), ("finished", which.finished)):
        words += [(key, f"<{_seconds(age.under)}")] if age.under is not None else []
        words += [(key, f">{_seconds(age.over)}")] if age.over is not None else []
    alone = [each if _BARE.fullmatch(each) else _in_quotes(each) for each in which.words]
    return " ".join([*(f"{key}:{_quoted(value)}" for key, value in words), *alone])


def has_text(which: JobFilter) -> bool:
    """Whether a filter has conditions for `matches_text`."""
    return bool(which.arguments or which.errors or which.words)


def matches_text(which: JobFilter, job: JobText | JobRecord) -> bool:
    """Whether a job matches the conditions on text, which databases compare differently."""
    return (
        _has_arguments(which, job.input)
        and _has_error(which, job.last_error)
        and all(_has_word(word, job, which.hidden) for word in which.words)
    )


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


def word_needles(which: JobFilter) -> list[tuple[str, str]]:
    """For each of `words` that a store may search for first: a text that the id, the type, the
    queue, the worker, a key or the stored error of every matching job contains in any case, or
    else a text that its stored input contains."""
    return [
        (word, word if _may_be_bare(word) else f'"{word}"')
        for word in which.words
        if _ALONE_NEEDLE.fullmatch(word) and word.lower() not in "error"
    ]


def plain_name(name: str) -> str:
    """The name of a field without the signs between its words, in lower case."""
    return _NAME_PARTS.sub("", name.lower())


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
        and (not which.keys or job.key in which.keys)
        and (not which.dedup_keys or job.dedup_key in which.dedup_keys)
        and (not which.schedules or job.schedule in which.schedules)
        and (not which.fingerprints or (job.fingerprint or "").startswith(which.fingerprints))
        and _is_of_age(which.created, job.created_at, now)
        and _is_of_age(which.finished, job.finished_at, now)
        and matches_text(which, job)
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
    return _as_text(value)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _has_error(which: JobFilter, last_error: str | None) -> bool:
    if not which.errors:
        return True
    if last_error is None:
        return False
    said = str(decode_failure(last_error)).lower()
    return any(part.lower() in said for part in which.errors)


def _has_word(word: str, job: JobText | JobRecord, hidden: tuple[str, ...]) -> bool:
    part = word.lower()
    shown = "" if job.last_error is None else str(decode_failure(job.last_error))
    keys = (job.dedup_key or "", job.key or "")
    texts = (job.type, job.queue, job.worker or "", *keys, shown)
    return (
        any(part in text.lower() for text in texts)
        or (len(part) >= SHORTEST_ENDING and job.id.endswith(part.removeprefix("…")))
        or _has_value(job.input, word, hidden)
    )


def _has_value(input: str, word: str, hidden: tuple[str, ...]) -> bool:
    """Whether the input has this value, at any depth."""
    try:
        ahead: list[Any] = [msgspec.json.decode(input)]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    while ahead:
        value = ahead.pop()
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            for name, inner in fields.items():
                plain = plain_name(name)
                if not any(each in plain for each in hidden):
                    ahead.append(inner)
        elif isinstance(value, list):
            ahead.extend(value)  # pyright: ignore[reportUnknownArgumentType] - JSON
        elif _as_text(value) == word:
            return True
    return False


_EXAMPLES = {
    "state": "state:failed",
    "type": "type:charge",
    "queue": "queue:mail",
    "id": "id:01890a5d-ac96-774b-bcce-b302099a8057",
    "sequence": "sequence:01890a5d-ac96-774b-bcce-b302099a8057",
    "root": "root:01890a5d-ac96-774b-bcce-b302099a8057",
    "worker": "worker:host-17",
    "key": "key:tenant-7",
    "dedup": "dedup:order-7",
    "schedule": "schedule:vat",
    "error": "error:timeout",
    "fingerprint": "fingerprint:ab12",
    "created": "created:<1h",
    "finished": "finished:>2d",
}


def _words(text: str) -> Iterator[tuple[str | None, str]]:
    """Keys and values; None for a value alone."""
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        word = _WORD.match(text, place) or _ALONE.match(text, place)
        if word is None:
            raise InvalidOption(
                f"{_shown(text[place:].split(maxsplit=1)[0])} is no word of a filter; "
                'write key:value, as in state:failed or key:"with spaces"'
            )
        key = word["key"] if word.re is _WORD else None
        quoted = word["quoted"]
        value = word["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.S)
        if "\0" in value or any("\ud800" <= char <= "\udfff" for char in word[0]):
            raise InvalidOption(
                f"the value of {_shown(key or value)} in a filter must not hold NUL or unpaired "
                "surrogate characters"
            )
        yield key, value
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
        return check_id_or_ending(value)
    except InvalidName as error:
        raise InvalidOption(str(error)) from None


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
    return value if _PLAIN.fullmatch(value) else _in_quotes(value)


def _in_quotes(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
