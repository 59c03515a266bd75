"""Filters survive what shells do to their quotes."""

from __future__ import annotations

import pytest

from headway.cli.filters import read_filter
from headway.domain.filters import parse_filter


@pytest.mark.parametrize(
    ("words", "same_as"),
    [
        ((), ""),
        (("state:failed", "type:charge"), "state:failed type:charge"),
        (("state:failed type:charge",), "state:failed type:charge"),
        (('args.city:"New York"',), 'args.city:"New York"'),
        (("args.city:New York", "state:failed"), 'args.city:"New York" state:failed'),
        (("error:it is\\gone",), 'error:"it is\\\\gone"'),
    ],
)
def test_words(words: tuple[str, ...], same_as: str) -> None:
    assert read_filter(words) == parse_filter(same_as)
