"""One run of an evaluation: what is kept of it, in one word, and what its requests would cost.

"Held" alone would be green beside starvation: a lock under which one client works and the others wait breaks no safety
clause. So the word of a run also asks who was served, and whether enough was granted to say anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lockref.words import Kind, Op, Outcome
from reports.checks.situation_names import GRANT
from reports.checks.verdicts import THRESHOLD
from reports.formats.results import Results

HELD: Final = "held"
VIOLATED: Final = "violated"
NOT_LIVE: Final = "not live"
NOTHING: Final = "nothing granted"
STARVED: Final = "starved"
FEW: Final = "too few grants"
FEW_HANDOFFS: Final = "too few hand-offs"
OPEN: Final = "inconclusive"
WORDS: Final = {
    HELD: "held", VIOLATED: "violated", NOT_LIVE: "violated", NOTHING: "inconclusive", STARVED: "inconclusive",
    FEW: "inconclusive", FEW_HANDOFFS: "inconclusive", OPEN: "inconclusive",
}  # fmt: skip
"""By the word of a run, the badge of the style sheet."""


_HANDOFF: Final = "handoff"
"""The situation that a contention run demands beside grants, in the words of scenarios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """The requests of one run by what they cost. refused: of the writes and deletes, those that failed a condition."""

    reads: int = 0
    writes: int = 0
    deletes: int = 0
    refused: int = 0

    def cost(self, price: Mapping[str, Any], *, cycles: int) -> float | None:
        """US dollars for 1,000 cycles at a list price for 1,000 requests; None where there was no cycle.

        price: `read`, `write`, `delete` and `charges_refused`. Where refused requests are not billed, they are taken
        for writes: what a lock is refused is a write, hardly ever a delete.
        """
        if not cycles:
            return None
        billed = self.writes - (0 if price["charges_refused"] else min(self.refused, self.writes))
        return float(self.reads * price["read"] + billed * price["write"] + self.deletes * price["delete"]) / cycles


_WRITES: Final = (Op.ACQUIRE, Op.RENEW, Op.RELEASE, Op.WRITE)


def count_requests(events: pa.Table) -> Requests:
    """Count the requests of a history. One request that tells of several locks has several rows, and counts once."""
    sent = _of(events, Kind.SENT)
    return Requests(
        reads=_different(sent, (Op.READ,)),
        writes=_different(sent, _WRITES),
        deletes=_different(sent, (Op.DELETE,)),
        refused=_different(
            (replied := _of(events, Kind.REPLIED)).filter(
                pc.equal(replied["outcome"], Outcome.PRECONDITION_FAILED.name.lower())
            ),
            (*_WRITES, Op.DELETE),
        ),
    )


def _of(events: pa.Table, kind: Kind) -> pa.Table:
    return events.filter(pc.equal(events["kind"], kind.name.lower()))


def _different(rows: pa.Table, ops: tuple[Op, ...]) -> int:
    names = pa.array([op.name.lower() for op in ops])
    return int(
        pc.count_distinct(rows.filter(pc.is_in(rows["op"].cast(pa.string()), value_set=names))["request"]).as_py()
    )


def run_facts(results: Results, requests: Requests | None = None) -> dict[str, Any]:
    """The account of one run for the document and the page of an evaluation.

    word: see `word_of`. broken: the clauses that broke. limits: each limit that was demanded, with its verdict.
    """
    speed = results.speed
    return {
        "word": word_of(results),
        "verdict": results.worst,
        "safety": results.verdict,
        "broken": list(results.broken),
        "statement": results.statement,
        "reasons": results.reasons,
        "notices": results.notices,
        "limits": limits_in(results),
        "speed": None if speed is None else speed.model_dump(mode="json", exclude={"per_client"}),
        "requests": None if requests is None else asdict(requests),
    }


def word_of(results: Results) -> str:
    """A run in one word. What was demanded of its figures (`--require`) is told apart from it."""
    if results.verdict == "violated":
        return VIOLATED
    if any(clause.startswith(("L", "F")) for clause in results.broken):
        return NOT_LIVE
    speed = results.speed
    if speed is not None and not speed.grants:
        return NOTHING
    if speed is not None and speed.clients_served < speed.clients:
        return STARVED
    for situation, word in ((GRANT, FEW), (_HANDOFF, FEW_HANDOFFS)):
        if any(each.situation == situation and each.count < each.least for each in results.reach):
            return word
    return HELD if results.verdict == "held" else OPEN


def limits_in(results: Results) -> list[dict[str, str]]:
    """The limits of a run, from its notices: the text of each, its verdict, and the figure in words."""
    found = []
    for notice in results.notices:
        if notice.startswith(THRESHOLD):
            verdict, _, rest = notice.removeprefix(THRESHOLD).partition(": ")
            text, _, figure = rest.partition(": ")
            found.append({"limit": text, "verdict": verdict, "told": figure})
    return found
