"""The holding times of a recorded run: commit times for a plan, measured instead of assumed."""

from __future__ import annotations

import numpy as np

from lockref.errors import ConfigError
from reports.checks.facts.case import open_case
from reports.checks.facts.sources.grants import given_back
from reports.history_files import load_history
from scenarios.runs import open_run, require_recorded


def hold_times_ns(run: str) -> tuple[int, ...]:
    """Per grant that its holder gave back: from the write that granted it until the release took effect.

    run: a run folder, a history or "latest". Grants that expired or were never given back have no time.

    Raises HistoryUnreadable if there is no history, and ConfigError if no grant in it was released.
    """
    history = open_run(run).path
    require_recorded(history)
    events, runs, _ = load_history(history)
    grants = open_case(events, runs).truth.grants
    held_ns = (grants.end_hi_ns - grants.begin_hi_ns)[given_back(grants)]
    held_ns = held_ns[held_ns > 0]
    if not len(held_ns):
        raise ConfigError(f"{history} shows no lock that was granted and released: no commit time can be taken from it")
    return tuple(int(value) for value in np.sort(held_ns))
