"""How often two contenders on one znode held at a time."""

from __future__ import annotations

import pytest

from tests.evidence.helix.one_znode import overlaps


@pytest.mark.parametrize(
    ("times", "count"),
    [
        ([], 0),
        ([[0, 5], [5, 9]], 0),
        ([[5, 9], [0, 6]], 1),
        ([[0, 9], [1, 2], [3, 4]], 2),
        ([[0, 2], [3, 8], [4, 5], [9, 10]], 1),
    ],
)
def test_whoever_begins_while_another_holds_is_counted(times: list[list[int]], count: int) -> None:
    """Also where the other one began long before, and somebody else has ended meanwhile. A touch is none."""
    assert overlaps(times) == count
