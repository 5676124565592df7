"""L1 without records: the search for an unserved wait, against the plain definition of one."""

from __future__ import annotations

import random

from reports.checks.clauses.answers import FOREVER
from reports.checks.clauses.waiting import _Uses


def plainly(uses: list[tuple[int, int, int]], call: int, since: int, until: int, limit: int) -> tuple[int, int] | None:
    """Every use but the call's own, one after the other, by their beginning."""
    free_from = since
    others = sorted((begin, end) for who, begin, end in uses if who != call)
    for begin, end in [*others, (until, until)]:
        used_from = min(begin, until)
        if used_from - free_from > limit:
            return free_from, used_from
        free_from = max(free_from, end)
    return None


def test_the_indexed_search_finds_what_the_plain_one_finds():
    """L1: random uses full of ties and overlaps; a call's own use is left out, wherever it reaches."""
    rng = random.Random(5)
    found = 0
    for _ in range(4_000):
        limit = rng.randint(0, 4)
        uses = []
        windows = []
        for call in range(rng.randint(1, 8)):
            begin = rng.randint(0, 30)
            until = begin + rng.randint(0, 15)
            windows.append((call, begin + rng.choice([0, 0, 3]), until))
            kind = rng.random()
            if kind < 0.4:
                uses.append((call, begin, until))
            elif kind < 0.8:
                uses.append((call, until, rng.choice([until + rng.randint(-2, 9), FOREVER])))
        indexed = _Uses(
            [who for who, _, _ in uses], [begin for _, begin, _ in uses], [end for _, _, end in uses], limit
        )
        for call, since, until in windows:
            expected = plainly(uses, call, since, until, limit)
            assert indexed.free_stretch(call, since, until, limit) == expected, (uses, call, since, until, limit)
            found += expected is not None
    assert found > 1_000
