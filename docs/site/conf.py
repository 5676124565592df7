"""Configuration of the documentation site: Sphinx reads docs/*.md through MyST, and asks for nothing over the network.

The pages are the Markdown files of `docs`, as a code host shows them. What the site adds to them is in the modules
beside this file; which page stands where is in `navigation.yml`.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

project = "lockref"
author = "The lockref maintainers"
copyright = author  # noqa: A001

extensions = ["myst_parser", "sphinx_external_toc", "docs.site.marks", "docs.site.id_links"]
external_toc_path = str(HERE / "navigation.yml")
source_suffix = {".md": "markdown"}
exclude_patterns = ["examples/**", "site/**"]

smartquotes = False  # `--seeds` stays what it is, and so do quoted messages.

# Headings down to the fourth level have the anchors that a code host gives them, so links to them hold in both places.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "fieldlist"]

toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "lockref"
html_static_path = [str(HERE / "static")]
html_css_files = ["lockref.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
# The same sources give the same bytes.
html_last_updated_fmt = None
pygments_style = "friendly"
pygments_dark_style = "github-dark"
