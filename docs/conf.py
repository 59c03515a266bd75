"""Makes the site from the Markdown files of this folder (`make docs`). The pages hold no
directives, so that they can be read in the repository too: contents and API are derived here."""

from __future__ import annotations

import pydoc
import re
import shutil
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import headway
import headway.errors
import headway.records

HERE = Path(__file__).parent

project = "Headway"
author = "The Headway authors"
copyright = author
release = version = metadata.version("headway")
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "index"
exclude_patterns = ["README.md"]  # shown by code hosts for this folder; it links to index.md
suppress_warnings = [
    "misc.highlighting_failure",  # snippets leave things out with an ellipsis
    "ref.python",  # `type` in a signature is an attribute of many classes
]

myst_enable_extensions = ["tasklist"]
myst_heading_anchors = 4  # the same anchors as on code hosts
myst_links_external_new_tab = False

highlight_language = "text"  # of blocks without a language

default_role = "literal"  # of `name` in docstrings
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "separated"
autodoc_default_options = {"members": True, "undoc-members": True}
add_module_names = False
maximum_signature_line_length = 90

html_theme = "furo"
html_title = f"Headway {release}"
html_static_path = ["_static"]
html_css_files = ["headway.css"]
html_js_files = ["copy.js"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False  # copy_pages copies the pages
html_extra_path = ["llms.txt"]
pygments_style = "default"
pygments_dark_style = "github-dark"

_HIDDEN = re.compile(r"^<!-- (?:setup|check)\n.*?^-->\n", re.DOTALL | re.MULTILINE)
_PAGE = re.compile(r"\]\((?P<page>[\w/\-]+)\.md\)")
_NAMES = re.compile(r"^`[\w.]+`(?:, `[\w.]+`)*$", re.MULTILINE)
_ROW = re.compile(r"^\| (?P<words>[^|]+) \| (?P<meaning>.+) \|$", re.MULTILINE)
_PLACE = re.compile(r"\]\((?P<page>[\w/\-]+)\.md(?:#(?P<anchor>[\w\-]+))?\)")
_HEADING = re.compile(r"^#+ (?P<title>.+)\n", re.MULTILINE)
_CONTENTS = ("index", "decisions/README")
"""Pages whose links are the site's contents, section by section."""


def read_page(_app: Any, page: str, source: list[str]) -> None:
    text = _HIDDEN.sub("", source[0])
    for anchor, words in words_of_other_queues().get(page, {}).items():
        text = indexed(text, anchor, words)
    if page in _CONTENTS:
        text += "".join(contents(text))
    if page == "api":
        text = _NAMES.sub(lambda match: documented(re.findall(r"[\w.]+", match[0])), text)
    source[0] = text


def contents(text: str) -> list[str]:
    """A table of contents for each section with links to pages, shown in the sidebar only."""
    tables: list[str] = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        title, _, body = section.partition("\n")
        caption = "" if title.startswith("#") else f":caption: {title}\n"
        if pages := dict.fromkeys(match["page"] for match in _PAGE.finditer(body)):
            listed = "\n".join(pages)
            tables.append(f"\n```{{toctree}}\n:hidden:\n{caption}\n{listed}\n```\n")
    return tables


@cache
def words_of_other_queues() -> dict[str, dict[str, list[str]]]:
    """Words by page and anchor, from the table in concepts.md: the search finds them there."""
    places: dict[str, dict[str, list[str]]] = {}
    _, _, table = (HERE / "concepts.md").read_text().partition("## Words from other queues")
    for row in _ROW.finditer(table):
        words = re.findall(r"[A-Za-z][\w -]*", re.sub(r"`[^`]*`", "", row["words"]))
        for place in _PLACE.finditer(row["meaning"]):
            page = places.setdefault(place["page"], {})
            page.setdefault(place["anchor"] or "", []).extend(words)
    return places


def indexed(text: str, anchor: str, words: list[str]) -> str:
    """The page with index entries at this heading; without an anchor, below its title."""
    entry = f"\n```{{index}} {', '.join(f'!{word}' for word in words)}\n```\n\n"
    for heading in _HEADING.finditer(text):
        slug = re.sub(r"[^\w\- ]", "", heading["title"].lower()).replace(" ", "-")
        if anchor in ("", slug):
            place = heading.start() if anchor else heading.end()
            return text[:place] + entry + text[place:]
    raise LookupError(f"no heading {anchor!r}")


def documented(names: list[str]) -> str:
    """The docstrings of these names, with or without a module: `errors.JobNotFound`."""
    parts: list[str] = []
    public = {*headway.__all__, *headway.records.__all__, *vars(headway.errors)}
    for name in names:
        thing = pydoc.locate(f"headway.{name}")
        kind = "autoclass" if isinstance(thing, type) else "autofunction"
        bases = {base.__name__ for base in getattr(thing, "__bases__", ())}
        option = "   :show-inheritance:\n" if bases & public else ""
        parts.append(f".. {kind}:: headway.{name}\n{option}")
    return "```{eval-rst}\n" + "\n".join(parts) + "```"


def copy_pages(app: Any, error: Exception | None) -> None:
    """Copies each page's Markdown beside its HTML; llms.txt links to it."""
    if error is None and app.builder.format == "html":
        for page in app.env.found_docs:
            target = Path(app.outdir, f"{page}.md")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(HERE / f"{page}.md", target)


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", read_page)
    app.connect("build-finished", copy_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
