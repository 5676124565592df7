"""XML in the bodies of requests and answers, as strangers write it."""

from __future__ import annotations

from xml.etree import ElementTree


def parsed(body: bytes) -> ElementTree.Element | None:
    """The root of a document; None for what is no XML.

    An encoding that is unknown, or that the parser cannot read, is an error of another type than a misplaced tag.
    """
    try:
        return ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError, LookupError):
        return None


def local_name(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def text_inside(element: ElementTree.Element, name: str) -> str:
    """The text of the first descendant of that name, whatever its namespace; "" for none."""
    return next((each.text or "" for each in element.iter() if local_name(each) == name), "")
