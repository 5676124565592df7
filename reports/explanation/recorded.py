"""The causes of failures in a recorded history of which nobody has the fault plan: a real server, or any file.

A stored failure of a simulation is run again from its plan, and shrunk, so that each fault of it is known to matter. A
recorded history has neither. Told is what it shows by itself: who held the lock until when, who took it over, whether a
client stood still meanwhile, who wrote then. Where that would be a guess, nothing is told.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reports.checks import judge
from reports.checks.summary import Finding
from reports.explanation.explain import cause_in
from reports.explanation.facts import RunFacts

UNSURE_NS: Final = 1_000_000_000
"""A grant whose begin is less certain than that has no instant that a sentence could name."""
_GRANTS_NAMED: Final = 3
"""So many of the last grants before a failure may be named in its sentence."""


class RecordedCauses:
    """The causes of the findings of one history, each told when somebody asks for it."""

    def __init__(self, events: pa.Table, runs: pa.Table, *, grants: pa.Table | None = None) -> None:
        """events, runs: the history. grants: as the judge found them; None for judging the runs of findings anew."""
        self._events = events
        self._runs = runs
        self._grants = grants

    def sentence_of(self, finding: Finding) -> str:
        """The cause of a finding in one line of at most `SENTENCE_MAX` characters.

        Empty where the history does not show the cause, or shows no more than what the failure says of itself.
        """
        rows = self._of_run(self._runs, finding.run)
        if not len(rows):
            return ""
        events = self._of_run(self._events, finding.run)
        grants = judge(events, rows).grants if self._grants is None else self._of_run(self._grants, finding.run)
        facts = RunFacts(events, grants, rows.to_pylist()[0], finding, None)
        if _is_unsure(facts):
            return ""
        cause = cause_in(facts)
        # A cause of one part is the broken clause once more.
        return cause.sentence if sum(bool(words) for _, words in cause.parts) > 1 else ""

    @staticmethod
    def _of_run(table: pa.Table, run: int) -> pa.Table:
        return table.filter(pc.equal(table["run"], run))


def _is_unsure(facts: RunFacts) -> bool:
    """True where a grant that the sentence may name began at an instant that is not known well enough."""
    begun = [row for row in facts.grants if row["begin_hi_ns"] <= facts.moment_ns]
    return any(row["begin_hi_ns"] - row["begin_lo_ns"] > UNSURE_NS for row in begun[-_GRANTS_NAMED:])
