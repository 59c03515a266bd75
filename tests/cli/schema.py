"""The shapes of everything that `--json` prints. `python -m tests.cli.schema` writes them down."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

from headway.admin.json_answers import describe_payloads
from headway.cli.json_results import RESULTS

FILE = Path(__file__).parents[2] / "docs" / "command-schema.json"


def schema() -> str:
    """JSON Schema: under `commands` the shape of each command's result."""
    shapes, definitions = msgspec.json.schema_components(
        RESULTS.values(), ref_template="#/$defs/{name}"
    )
    describe_payloads(definitions)
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What `headway COMMAND --json` prints",
        "commands": dict(zip(RESULTS, shapes, strict=True)),
        "$defs": {name: _clean(definitions[name]) for name in sorted(definitions)},
    }
    return json.dumps(document, indent=2) + "\n"


def _clean(definition: dict[str, Any]) -> dict[str, Any]:
    """Whether docstrings keep their indentation depends on the version of Python."""
    if "description" not in definition:
        return definition
    return {**definition, "description": inspect.cleandoc(definition["description"])}


if __name__ == "__main__":
    FILE.write_text(schema())
