"""A picture of our own as a file.

On a page a picture takes colours and size from that page. A file is shown as an image, where it gets neither, so it
brings both along: the colours of our pages for light and dark surroundings, a ground, and the size at which its letters
are as large as those of a text.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

_TEMPLATES: Final = Path(__file__).parent / "templates"
_DARK: Final = re.compile(r"@media \(prefers-color-scheme: dark\) \{.*?\}\s*\}", re.DOTALL)
_BOX: Final = re.compile(r'viewBox="0 0 (\d+) (\d+)"')
_GROUND: Final = 'style="fill:var(--page,#fff)"'


def picture_file(svg: str) -> str:
    """The text of an SVG file. svg: one `<svg>` element with a `viewBox` from 0 0 and a `<style>`, as for a page.

    ValueError for any other text.
    """
    box = _BOX.search(svg)
    if box is None or "</style>" not in svg:
        raise ValueError("is no picture of ours: it has no viewBox from 0 0, or no style")
    size = f'width="{box[1]}" height="{box[2]}"'
    ground = "" if _GROUND in svg else f"\n<rect {size} {_GROUND}/>"
    svg = svg.replace("</style>", f"{dark_colours()}\n</style>{ground}", 1)
    return (svg if f"{size} viewBox" in svg else svg.replace(box[0], f"{size} {box[0]}", 1)) + "\n"


@cache
def dark_colours() -> str:
    """The rules of our pages for dark surroundings, for a picture."""
    texts = [(_TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "explanation.html.j2")]
    return "\n".join(" ".join(rule.split()) for text in texts for rule in _DARK.findall(text))
