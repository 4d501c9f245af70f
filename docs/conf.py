"""The documentation's build: ``make docs``."""

project = "latecomer"
author = "the latecomer authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "latecomer"
