"""The page: one self-contained `report.html`, and the same account as Markdown.

`render(results, out_dir)` writes both and the figures as files.
"""

from reports.html.render import render

__all__ = ["render"]
