"""The documentation's build: ``make docs``.

The pages are Markdown without directives, so that they read as well on a repository's
web page. The navigation is made of the lists of links in the index pages.
"""

import re
from pathlib import Path
from typing import Any

project = "latecomer"
author = "the latecomer authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "latecomer"
# The search lists pages of background behind all others.
html_search_scorer = str(Path(__file__).with_name("search_order.js"))


def _add_navigation(app: Any, name: str, source: list[str]) -> None:
    """Gives an index page the tables of contents that its lists of links are."""
    if not name.endswith("index"):
        return
    caption, entries = "", {}
    for line in source[0].splitlines():
        if line.startswith("## "):
            caption = line.removeprefix("## ")
        found = re.match(r"(?:-|\d+\.) \[[^\]]*\]\((\S+)\.md\)(?:$|: )", line)
        if found:
            entries.setdefault(caption, []).append(found[1])
    for title, pages in entries.items():
        option = f":caption: {title}\n" if title else ""
        table = "\n".join(pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n{option}\n{table}\n```\n"


def setup(app: Any) -> None:
    """Sphinx calls this."""
    app.connect("source-read", _add_navigation)
