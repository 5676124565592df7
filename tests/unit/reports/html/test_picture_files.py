"""A picture as a file has its size, its ground and its colours itself."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from reports.html.picture_files import dark_colours, picture_file

BARE = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 40"><style>.a{fill:red}</style><text>x</text></svg>'


def test_a_file_brings_along_what_a_page_would_give() -> None:
    """Width and height of its box; a ground below all else; rules for dark surroundings."""
    picture = ElementTree.fromstring(picture_file(BARE))
    assert (picture.attrib["width"], picture.attrib["height"]) == ("300", "40")
    style, ground, text = list(picture)
    assert dark_colours() in (style.text or "")
    assert ground.attrib == {"width": "300", "height": "40", "style": "fill:var(--page,#fff)"}
    assert text.text == "x"


def test_a_ground_of_its_own_is_enough() -> None:
    """No second one hides what the picture has drawn."""
    grounded = BARE.replace("</style>", '</style><rect style="fill:var(--page,#fff)"/>')
    assert picture_file(grounded).count("<rect") == 1


def test_the_colours_are_those_of_the_pages() -> None:
    """Ink and ground of the report, and the lines of the diagram."""
    assert all(f"--{name}: #" in dark_colours() for name in ("page", "ink", "trace"))


@pytest.mark.parametrize("text", ["<svg><style></style></svg>", '<svg viewBox="0 0 1 1"></svg>'])
def test_another_text_is_refused(text: str) -> None:
    """A picture without a box, or without a style."""
    with pytest.raises(ValueError, match="no picture of ours"):
        picture_file(text)
