"""The shapes of everything that `--json` prints. `python -m tests.cli.schema` writes them down."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import msgspec

from headway.admin.json_answers import describe_payloads
from headway.cli.json_results import RESULTS

FILE = Path(__file__).parents[2] / "docs" / "command-schema.json"


def schema() -> str:
    """JSON Schema: under `commands` the shape of each command's result."""
    one_of = {name: _members(result) for name, result in RESULTS.items()}
    types = [each for members in one_of.values() for each in members]
    described, definitions = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    left = iter(described)
    shapes = {name: [next(left) for _ in members] for name, members in one_of.items()}
    describe_payloads(definitions)
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What `headway COMMAND --json` prints",
        "commands": {
            name: each[0] if len(each) == 1 else {"anyOf": each} for name, each in shapes.items()
        },
        "$defs": {name: _clean(definitions[name]) for name in sorted(definitions)},
    }
    return json.dumps(document, indent=2) + "\n"


def _members(result: Any) -> tuple[Any, ...]:
    """The types of a union; msgspec describes no union of structs without tags."""
    return get_args(result) if isinstance(result, UnionType) else (result,)


def _clean(definition: dict[str, Any]) -> dict[str, Any]:
    """Whether docstrings keep their indentation depends on the version of Python."""
    if "description" not in definition:
        return definition
    return {**definition, "description": inspect.cleandoc(definition["description"])}


if __name__ == "__main__":
    FILE.write_text(schema())
