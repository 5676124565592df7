"""Pictures of results: plots through matplotlib, the holder timeline as our own SVG.

`draw(results)` makes every plot that the results have data for. Equal results
give equal bytes: fixed hash salt, no date, no randomness.
"""

from reports.figures.plots import Figure, draw
from reports.figures.timeline import timeline_svg

__all__ = ["Figure", "draw", "timeline_svg"]
