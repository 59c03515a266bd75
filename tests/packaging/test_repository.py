"""Workflows, hooks, forms and badges name commands, versions and files that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.processes import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in read(workflow)["jobs"].values() for step in job.get("steps", ())]


def supported_pythons() -> list[str]:
    prefix = "Programming Language :: Python :: "
    versions = [each.removeprefix(prefix) for each in PROJECT["classifiers"]]
    return [each for each in versions if re.fullmatch(r"3\.\d+", each)]


def matrix() -> list[dict[str, str]]:
    return read(GITHUB / "workflows" / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]["include"]


def test_the_hooks_of_pre_commit_run_the_commands_of_make_check() -> None:
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert recipe is not None
    commands = recipe[1].replace("$(PYTHON)", ".venv/bin/python").splitlines()
    (local,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [hook["entry"] for hook in local["hooks"]] == [each.strip() for each in commands]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_and_scripts_that_exist(workflow: Path) -> None:
    commands = "\n".join(step.get("run", "") for step in steps(workflow))
    targets = set(re.findall(r"\bmake ([a-z-]+)", commands))
    assert targets
    assert targets - set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE)) == set()
    for module in re.findall(r"python -m (scripts\.\w+)", commands):
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_of_others_are_pinned_by_commit(workflow: Path) -> None:
    used = re.findall(r"uses: (\S+)", workflow.read_text())
    others = [action for action in used if not action.startswith("./")]
    assert others
    assert [each for each in others if not re.search(r"@[0-9a-f]{40}$", each)] == []


def test_every_supported_python_is_tried() -> None:
    supported = supported_pythons()
    assert PROJECT["requires-python"] == f">={supported[0]}"
    assert [each["python"] for each in matrix()] == supported
    (found,) = re.findall(r'^supported="(.*)"', (ROOT / "scripts" / "pythons").read_text(), re.M)
    assert sorted(found.split()) == supported
    workflow = GITHUB / "workflows" / "ci.yml"
    (together,) = (
        step["with"]["python-version"].split()
        for step in steps(workflow)
        if "\n" in step.get("with", {}).get("python-version", "")
    )
    assert sorted(together) == supported


def test_the_stability_page_names_the_versions_that_are_tried() -> None:
    page = (ROOT / "docs" / "stability.md").read_text()
    pythons = supported_pythons()
    postgres = [each["postgres"] for each in matrix()]
    assert f"| Python | {pythons[0]} to {pythons[-1]} |" in page
    assert f"| PostgreSQL | {postgres[0]} to {postgres[-1]} |" in page


@pytest.mark.parametrize("form", ["bug", "idea", "question"])
def test_an_issue_form_asks_something(form: str) -> None:
    fields = read(GITHUB / "ISSUE_TEMPLATE" / f"{form}.yml")["body"]
    required = [each["id"] for each in fields if each.get("validations", {}).get("required")]
    assert required
    if form == "bug":
        labels = {each["id"]: each["attributes"]["label"] for each in fields if "id" in each}
        assert "doctor" in required
        assert "`headway doctor --json`" in labels["doctor"]


def test_badges_are_true() -> None:
    """A badge is about a workflow of this repository, or says what pyproject.toml says."""
    true = {
        f"https://img.shields.io/badge/Python-{'_%7C_'.join(supported_pythons())}-blue",
        "https://img.shields.io/badge/licence-MIT-blue",
        *(f"../../actions/workflows/{workflow.name}/badge.svg" for workflow in WORKFLOWS),
    }
    images = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    badges = {image for image in images if "badge" in image}
    assert badges - true == set()
