"""Footprints: the parts of a world that one step reads or changes.

Two steps that touch nothing in common may run in either order: what follows is the same. So a search over schedules
needs one order of the two only (partial-order reduction). A footprint that is too wide costs runs; one that is too
narrow would make the search miss schedules. In doubt a step has touched `EVERYTHING`.

Source: Flanagan, Godefroid, POPL 2005.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

StatePart = tuple[str, str]
"""A part of a world by kind and name: a node with all that its process remembers, or one key of one service."""

Footprint = tuple[tuple[StatePart, bool], ...]
"""The places that a step touches, each with whether it may change that place."""

NODE: Final = "node"
SERVICE: Final = "service"
COUNT: Final = "count"
"""Kinds of places. A count is a number in which requests of several clients take part, such as that of a fault."""

ALL: Final[StatePart] = ("all", "")
"""The place of a step of which nobody knows what it touches."""

EVERYTHING: Final[Footprint] = ((ALL, True),)

ReadFootprint = Callable[[Callable[[], object]], Footprint]
"""From a callback in the kernel's queue to what it will touch."""


def of_node(name: str) -> Footprint:
    """The footprint of a step in a process of that node; a task outside all nodes may look at everything."""
    return (((NODE, name), True),) if name else EVERYTHING


def conflict(one: Footprint, other: Footprint) -> bool:
    """True if the order of two steps may matter: both touch one place, and one of them may change it."""
    for place, changes in one:
        if place == ALL:
            return True
        for its_place, it_changes in other:
            if its_place == ALL or (place == its_place and (changes or it_changes)):
                return True
    return False
