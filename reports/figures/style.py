"""The style of every plot, and its conversion to bytes.

Colours are those of Okabe and Ito, told apart with any colour vision; the
vermilion is kept for violations and limits and never stands alone: a hatch, a
shape or words say the same. Ink and grid are two fixed greys, so that a page
can replace them with its own in dark surroundings.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1b1f24"
GRID = "#d0d7de"
VIOLATION = "#d55e00"
SERIES = ("#0072b2", "#009e73", "#cc79a7", "#8a6d00")
MARKERS = ("o", "s", "^", "D")
SIZE_INCHES = (7.2, 3.2)
PNG_DPI = 160

_RC: Any = {
    "svg.hashsalt": "lockref",
    # Text stays text: smaller, searchable, in the page's font.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "sans-serif"],
    "font.size": 9,
    # A dollar sign in a name is a dollar sign.
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "lines.markersize": 4,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


@contextmanager
def canvas(*, height: float = SIZE_INCHES[1]) -> Iterator[tuple[Figure, Axes]]:
    """A figure of the house's size with one set of axes, drawn without a display and without global state."""
    with panels(1, width=SIZE_INCHES[0], height=height) as (figure, (axes,)):
        yield figure, axes


@contextmanager
def panels(count: int, *, width: float, height: float) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure with `count` sets of axes side by side, all with the same limits. Inches. Otherwise as `canvas`."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(_RC):
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        row = figure.subplots(1, count, sharex=True, sharey=True, squeeze=False)[0]
        yield figure, list(row)


def as_images(figure: Figure) -> tuple[str, bytes]:
    """The figure as SVG text and as PNG on white; equal figures give equal bytes. Call inside `canvas`, once.

    It is laid out once, for both, because finding room for the text takes as long as drawing. So the canvases write
    by themselves: `Figure.savefig` would draw each picture twice, and the first time only to lay it out.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    dpi = figure.dpi
    svg = FigureCanvasSVG(figure)
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
    figure.set_layout_engine("none")
    text = io.StringIO()
    patches = [figure.patch, *(axes.patch for axes in figure.axes)]
    colours = [patch.get_facecolor() for patch in patches]
    for patch in patches:
        patch.set_facecolor("none")
    # Laying out for SVG has changed it. Marks that are drawn as dots in the SVG need the one that was set.
    figure.set_dpi(dpi)
    svg.print_svg(text, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    for patch, colour in zip(patches, colours, strict=True):
        patch.set_facecolor(colour)
    figure.set_dpi(PNG_DPI)
    figure.set_facecolor("white")
    picture = io.BytesIO()
    FigureCanvasAgg(figure).print_png(picture, metadata={"Software": None})  # type: ignore[no-untyped-call]
    return text.getvalue(), picture.getvalue()


def inline(svg: str, *, prefix: str, label: str) -> str:
    """SVG text to put into a page: no prolog, unique ids by `prefix`, the page's ink and grid, `label` as its name.

    label: plain text; escaped here.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r"url\(#", f"url(#{prefix}-", body)
    body = re.sub(r'xlink:href="#', f'xlink:href="#{prefix}-', body)
    body = body.replace(INK, f"var(--ink, {INK})").replace(GRID, f"var(--grid, {GRID})")
    # The size in points would keep the picture from shrinking with the page.
    body = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", body, count=1)
    body = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", body, count=1)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    return body.replace("<svg", f'<svg role="img" aria-label="{attribute(label)}"', 1)


def attribute(text: str) -> str:
    """Text for a double-quoted XML attribute."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
