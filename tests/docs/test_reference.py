"""The reference mentions every public name, setting and option, and links lead somewhere."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import headway
from headway import Client, WorkerSettings, errors, records
from headway.client.schedules import Schedules
from headway.domain.request import Options, RequestOptions
from headway.errors import HeadwayError
from headway.jobs.job_type import EntryOptions
from headway.jobs.schedule_definition import ScheduleOptions
from tests.docs.pages import ROOT

REFERENCE = (ROOT / "docs" / "reference.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)


def missing(names: list[str]) -> list[str]:
    return [name for name in names if not re.search(rf"\b{re.escape(name)}\b", REFERENCE)]


def test_every_public_name_is_mentioned() -> None:
    assert missing([*headway.__all__, *records.__all__]) == []


def test_every_setting_of_a_worker_is_mentioned_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", REFERENCE, flags=re.MULTILINE))
    for field in dataclasses.fields(WorkerSettings):
        assert field.name in rows, field.name
        if isinstance(field.default, bool):
            assert rows[field.name] == f"`{field.default}`", field.name
        elif isinstance(field.default, int | float):
            assert rows[field.name] == f"{field.default:.10g}", field.name


def test_every_option_and_every_verb_is_mentioned() -> None:
    options = [*EntryOptions.__annotations__, *RequestOptions.__annotations__]
    assert missing([*options, *Options.__struct_fields__, *ScheduleOptions.__annotations__]) == []
    for client in (Client, Schedules):
        verbs = [name for name, _ in inspect.getmembers(client, callable) if name[0] != "_"]
        assert missing(verbs) == []


def errors_by_name() -> dict[str, type[HeadwayError]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, HeadwayError)
    }


def test_the_error_tree_is_as_it_is() -> None:
    found = errors_by_name()
    tree = REFERENCE[REFERENCE.index("```text\nHeadwayError") :]
    parents: list[str] = []
    for line in tree.splitlines()[1:]:
        match = re.match(r"(?P<indent>[├└│─ ]*)(?P<name>\w+)", line)
        if match is None:
            break
        depth = len(match["indent"]) // 4
        parents[depth:] = [match["name"]]
        if depth:
            assert found[match["name"]].__bases__[0].__name__ == parents[depth - 1], match["name"]
        found.pop(match["name"])
    assert found == {}, "errors that the tree does not show"


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for match in _LINK.finditer(page.read_text()):
            target = match["target"]
            if "://" in target or target.startswith("../../actions/"):  # a page of GitHub
                continue
            path, _, heading = target.partition("#")
            found = (page.parent / path).resolve() if path else page
            assert found.exists(), f"{page.name}: {target}"
            if heading:
                assert heading in headings(found), f"{page.name}: {target}"


def headings(page: Path) -> set[str]:
    titles = (match["title"] for match in _HEADING.finditer(page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_public_error_is_raised_by_something() -> None:
    found = errors_by_name().values()
    bases = {base for error in found for base in error.__mro__[1:]}
    code = "".join(path.read_text() for path in (ROOT / "src" / "headway").rglob("*.py"))
    for error in found:
        if error not in bases and error is not headway.Unrecoverable:  # that is for handlers
            assert re.search(rf"(?<!class )\b{error.__name__}\(", code), error.__name__
