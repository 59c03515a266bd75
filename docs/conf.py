"""The site is made from the Markdown files of this folder, which stay readable where they are: what
Sphinx needs to know besides is read from them when it is built (`make docs`)."""

from __future__ import annotations

import pydoc
import re
import shutil
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
exclude_patterns = ["README.md"]  # what code hosts show for this folder: it leads to index.md
suppress_warnings = [
    "misc.highlighting_failure",  # snippets leave things out with an ellipsis
    "ref.python",  # `type` in a signature could be any class's attribute, if one is to guess
]

myst_enable_extensions = ["tasklist"]
myst_heading_anchors = 4  # the anchors that code hosts make too
myst_links_external_new_tab = False

highlight_language = "text"  # of blocks that do not name theirs

default_role = "literal"  # docstrings say `name`, as everywhere else
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
html_copy_source = False  # the pages themselves are copied, see below
html_extra_path = ["llms.txt"]
pygments_style = "default"
pygments_dark_style = "github-dark"

_HIDDEN = re.compile(r"^<!-- (?:setup|check)\n.*?^-->\n", re.DOTALL | re.MULTILINE)
_PAGE = re.compile(r"\]\((?P<page>[\w/\-]+)\.md\)")
_NAMES = re.compile(r"^`[\w.]+`(?:, `[\w.]+`)*$", re.MULTILINE)
_CONTENTS = ("index", "decisions/README")
"""Pages whose links are the site's contents, section by section."""


def read_page(_app: Any, page: str, source: list[str]) -> None:
    text = _HIDDEN.sub("", source[0])
    if page in _CONTENTS:
        text += "".join(contents(text))
    if page == "api":
        text = _NAMES.sub(lambda match: documented(re.findall(r"[\w.]+", match[0])), text)
    source[0] = text


def contents(text: str) -> list[str]:
    """A table of contents for each section that lists pages; shown at the side, not in the page."""
    tables: list[str] = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        title, _, body = section.partition("\n")
        caption = "" if title.startswith("#") else f":caption: {title}\n"
        if pages := dict.fromkeys(match["page"] for match in _PAGE.finditer(body)):
            listed = "\n".join(pages)
            tables.append(f"\n```{{toctree}}\n:hidden:\n{caption}\n{listed}\n```\n")
    return tables


def documented(names: list[str]) -> str:
    """The docstrings of these names, which may have a module: `errors.JobNotFound`."""
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
    """Each page as Markdown beside its HTML, for those who read that; llms.txt leads to them."""
    if error is None and app.builder.format == "html":
        for page in app.env.found_docs:
            target = Path(app.outdir, f"{page}.md")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(HERE / f"{page}.md", target)


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", read_page)
    app.connect("build-finished", copy_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
