"""Foreign text, made safe for a terminal.

Stored text may hold escape sequences, control characters, marks that change the direction of
writing, or a megabyte. Such characters are printed as escapes, and long text is cut.
"""

from __future__ import annotations

import re
import unicodedata

from headway.domain.text import visible

LONGEST = 2_000
"""Characters shown of one value; `--json` prints all."""

_IN_JSON = re.compile("[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def harmless(text: str, *, longest: int = LONGEST, keep_lines: bool = False) -> str:
    """The text with hidden characters as escapes, in one line unless `keep_lines`, and cut."""
    if keep_lines:
        return visible(text.expandtabs(4), longest=longest, keep="\n")
    return visible(text, longest=longest)


def harmless_json(encoded: str) -> str:
    """The same JSON with characters that a terminal could act on as escapes."""
    return _IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded)


def width(text: str) -> int:
    """Columns of a text in a terminal."""
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
    """At most so many columns of a text, with an ellipsis if it is longer."""
    if width(text) <= columns:
        return text
    kept, taken = "", 0
    for character in text:
        taken += width(character)
        if taken > columns - 1:
            break
        kept += character
    return kept + "…"
