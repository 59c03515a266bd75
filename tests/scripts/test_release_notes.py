"""A release needs a tag, a version and a section of the changelog that agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.release_notes import release_notes

CHANGELOG = """\
# Changelog

## [Unreleased]

## [0.2.0] - 2026-12-01

### Added

- Jobs.

## [0.1.0]

- The first release.
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_the_notes_of_a_release_are_its_section_of_the_changelog(project: Path) -> None:
    assert release_notes("v0.2.0", project) == "### Added\n\n- Jobs."


@pytest.mark.parametrize("tag", ["v0.1.0", "0.2.0", "v0.2.0rc1"])
def test_a_tag_other_than_the_version_is_refused(project: Path, tag: str) -> None:
    with pytest.raises(SystemExit, match=rf"The tag is {tag}, and pyproject.toml has .* 0\.2\.0"):
        release_notes(tag, project)


@pytest.mark.parametrize("section", ["", "## [0.2.0]\n\n", "## [0.2.00]\n\n- Other.\n"])
def test_a_version_that_the_changelog_leaves_out_is_refused(project: Path, section: str) -> None:
    (project / "CHANGELOG.md").write_text(f"# Changelog\n\n{section}## [0.1.0]\n\n- The first.\n")
    with pytest.raises(SystemExit, match=r"CHANGELOG.md tells nothing about version 0\.2\.0"):
        release_notes("v0.2.0", project)
