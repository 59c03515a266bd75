"""The picture of the packages is the one that the source draws."""

from __future__ import annotations

from scripts import house_picture


def test_the_picture_is_up_to_date() -> None:
    """If it is not: `make picture`."""
    edges = house_picture.imports()
    assert house_picture.SVG.read_text("utf-8") == house_picture.draw(edges)
    assert house_picture.PAGE.read_text("utf-8") == house_picture.page(edges)
