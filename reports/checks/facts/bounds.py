"""The bounds that clauses about time use, per run, in true nanoseconds.

They come from the runs table and are promised in local seconds, so they are
stretched by 1/(1-ρ). A real run is allowed one second more.
"""

from __future__ import annotations

import numpy as np

from lockref.words import ABSENT
from reports.checks.facts.case import Case
from reports.checks.facts.clocks import FOREVER, PPM, or_zero
from reports.checks.facts.columns import Ints

RELEASE_REQUESTS, RELEASE_NS_MIN = 3, 1_000_000_000
"""An unlock may try for as long as so many requests may take, and at least so long (L5)."""

REAL_SLACK_NS = 1_000_000_000
"""What a real run is allowed beyond any bound: threads of one process wait for each other there."""


class Bounds:
    """The bounds of every run, in true nanoseconds.

    faults_end_ns: from when on nothing disturbed the run. outages_end_ns: the same, where the end of a client's process
    counts for nothing. think_ns: how long a client may pause between two calls and still be one that waits.
    watch_ns: for how long a waiter must see an unchanged record; 0 where records tell when they end.
    """

    def __init__(self, case: Case) -> None:
        runs = case.runs
        ppm = np.minimum(or_zero(runs.integers("rate_error_ppm")), PPM - 1)
        names = ("validity_ns", "poll_interval_ns", "request_timeout_ns", "wait_timeout_ns")
        known = {name: runs.integers(name) for name in names}
        slack = np.array([REAL_SLACK_NS if world == "real" else 0 for world in runs.texts("world")], dtype=np.int64)

        def stretched(span: Ints) -> Ints:
            longer: Ints = span * PPM // (PPM - ppm) + slack
            return longer

        validity, poll, request, wait = (known[name] for name in names)
        faults_end = case.calm_from_ns
        self.has_end = faults_end != ABSENT
        self.faults_end_ns = np.where(self.has_end, faults_end, FOREVER)
        outages_end = case.outages_end_ns
        self.outages_end_ns = np.where(outages_end != ABSENT, outages_end, FOREVER)
        self.has_handover = (poll != ABSENT) & (request != ABSENT)
        self.has_validity = self.has_handover & (validity != ABSENT)
        self.has_wait = (wait != ABSENT) & (request != ABSENT)
        self.drift_ns = or_zero(runs.integers("drift_bound_ns"))
        self.handover_ns = stretched(or_zero(poll) + 2 * or_zero(request))
        self.validity_ns = stretched(or_zero(validity))
        # A client that asks again after so long, and no longer, went on waiting.
        self.think_ns = stretched(or_zero(runs.integers("think_ns")) + or_zero(poll))
        watch = runs.integers("watch_ns")
        # A record that tells a duration says nothing about when it ends: whoever comes late counts from its first look.
        self.is_watched = watch != ABSENT
        keeps = np.where(self.is_watched, stretched(or_zero(watch)), self.validity_ns + 2 * self.drift_ns)
        self.watch_ns = np.where(self.is_watched, keeps, 0)
        self.grant_ns = keeps + self.handover_ns
        self.request_ns = stretched(or_zero(request))
        # L5: no request begins after the call's own time, and the last one takes one request timeout.
        patience = np.maximum(or_zero(wait), or_zero(request))
        self.acquire_ns = stretched(patience + or_zero(request))
        patience = np.maximum(patience, np.maximum(RELEASE_REQUESTS * or_zero(request), RELEASE_NS_MIN))
        self.release_ns = stretched(patience + or_zero(request))
