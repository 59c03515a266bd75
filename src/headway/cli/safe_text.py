"""Text from outside, made safe to show in a terminal.

Whatever is stored may hold escape sequences, control characters, marks that turn the direction of
writing, or a megabyte. People are shown none of it: such characters are written as escapes.
"""

from __future__ import annotations

import re
import unicodedata

from headway.domain.text import visible

LONGEST = 2_000
"""Characters of one value that are shown; `--json` has all of them."""

_IN_JSON = re.compile("[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def harmless(text: str, *, longest: int = LONGEST, keep_lines: bool = False) -> str:
    """The text with hidden characters as escapes, in one line unless `keep_lines`, and cut."""
    if keep_lines:
        return visible(text.expandtabs(4), longest=longest, keep="\n")
    return visible(text, longest=longest)


def harmless_json(encoded: str) -> str:
    """JSON whose strings hold no raw character that a terminal could act on; it means the same."""
    return _IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded)


def width(text: str) -> int:
    """Columns that it takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(character)
        else 2
        if unicodedata.east_asian_width(character) in "WF"
        else 1
        for character in text
    )


def cut(text: str, columns: int) -> str:
    """At most so many columns of it, with an ellipsis where it goes on."""
    if width(text) <= columns:
        return text
    kept, taken = "", 0
    for character in text:
        taken += width(character)
        if taken > columns - 1:
            break
        kept += character
    return kept + "…"
