"""The readers of a Delta table: how many objects of its log a query reads, and what fewer versions save.

The model, and what it leaves out. A *cold* query knows nothing of the table: it reads G(v) objects (`loading.gets`). A
*refresh* is a query of a reader that knows the version of its last query: it reads every entry that is new since then,
or starts from the newest checkpoint where that is less. Each query also sends one LIST of the log, which is not
counted, nor are data files: as many adds stand in few versions as in many. Checkpoints are visible at once.

With a checkpoint at each tenth version a cold query reads 11 objects at most, however many versions there are. So
coalescing saves a cold query little, and a reader that refreshes nearly everything.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from scenarios.delta.loading import gets

Landings = Mapping[str, Sequence[int]]
"""By table, when its versions landed: nanoseconds since the start, in order, the first one after `first_version`."""


def cold_gets(landings: Landings, *, first_version: int, until_ns: int) -> float:
    """GETs of one cold query: the mean over tables, and over all instants from the start to `until_ns`."""
    if not landings or until_ns <= 0:
        return 0.0
    total = 0
    for instants in landings.values():
        edges = [0, *(min(at_ns, until_ns) for at_ns in instants), until_ns]
        total += sum(
            (after - before) * gets(first_version + number)
            for number, (before, after) in enumerate(itertools.pairwise(edges))
        )
    return total / (until_ns * len(landings))


def refresh_gets(landings: Landings, *, first_version: int, until_ns: int, every_ns: int) -> float:
    """GETs of one refresh: the mean over tables, and over queries at each `every_ns` until `until_ns` is covered.

    The reader has read the table at the start.
    """
    assert every_ns > 0, "a reader refreshes after some time"
    queries = -(-until_ns // every_ns)
    if not landings or not queries:
        return 0.0
    total = 0
    for instants in landings.values():
        known = 0
        # Only queries that find something new: there may be very many queries.
        for query, group in itertools.groupby(instants, key=lambda at_ns: max(1, -(-at_ns // every_ns))):
            if query > queries:
                break
            there = known + sum(1 for _ in group)
            total += min(there - known, gets(first_version + there))
            known = there
    return total / (queries * len(landings))
