"""Whatever is stored, a terminal is shown plain text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.cli.safe_text import cut, harmless, harmless_json, width


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größer 日本 👍", "größer 日本 👍"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b31m", "\\x9b31m"),
        ("one\ntwo\ttabs\r", "one\\ntwo\\ttabs\\r"),
        ("user\u202ecod.exe", "user\\u202ecod.exe"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("bell\x07 back\x08", "bell\\x07 back\\x08"),
        ("a\xa0b\u3000c", "a b c"),
    ],
)
def test_hidden_characters_are_shown(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_lines_may_be_kept() -> None:
    assert harmless("one\n\ttwo\x1b", keep_lines=True) == "one\n    two\\x1b"


def test_a_megabyte_is_cut() -> None:
    shown = harmless("x" * 2**20)
    assert len(shown) < 2_100
    assert shown.endswith("(1,046,576 more characters)")


@given(st.text())
def test_nothing_acts_on_the_terminal(text: str) -> None:
    assert harmless(text).isprintable()


@given(st.text())
def test_json_means_the_same_and_is_plain(text: str) -> None:
    encoded = harmless_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(encoded) == text
    assert not any(ord(character) in range(0x7F, 0xA0) for character in encoded)
    assert not any(mark in encoded for mark in "\u200f\u202e\u2028\u2066\ufeff\u061c")


@given(st.text(st.characters(categories=["L", "Nd", "Po"])), st.integers(1, 30))
def test_cut_text_fits(text: str, columns: int) -> None:
    assert width(cut(text, columns)) <= columns
    if width(text) <= columns:
        assert cut(text, columns) == text
