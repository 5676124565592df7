"""A run judged in pieces gets the verdicts, counts and first witnesses of the same run judged at once."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from lockref.lab.loading import load_provider
from reports.checks import Judgement, judge
from reports.checks.segments.joining import BEYOND, IN_SEGMENTS, OF_THE_WHOLE
from reports.checks.segments.judging import SegmentJudge, judge_in_segments, pieces_of
from reports.checks.spec import CLAUSES
from scenarios.batch import Batch, run_seeds
from scenarios.definition.load import catalogue, parse_scenario

GRANTS = 12
"""Grants that are carried here: fewer than by default, so that short runs show what carrying does."""

LONG = {
    "contention": {"duration: 5s": "duration: 30s", "clients: 8": "clients: 4", "0ms..20ms": "0ms..900ms"},
    "swarm": {"duration: 45s": "duration: 450s", "heal_at: 30s": "heal_at: 420s", "cycles: 3": "cycles: 20"},
}
"""Scenarios of the catalogue, made longer: no moment of theirs is quiet for all clients."""

History = tuple[pa.Table, pa.Table]


@pytest.fixture(scope="module", params=list(LONG))
def history(request: pytest.FixtureRequest) -> History:
    text = next(path for path in catalogue() if path.stem == request.param).read_text(encoding="utf-8")
    for before, after in LONG[request.param].items():
        assert before in text
        text = text.replace(before, after)
    batch = Batch(outcomes=tuple(run_seeds(parse_scenario(text), load_provider("hudi"), [5])))
    row = {**batch.runs.to_pylist(maps_as_pydicts="strict")[0], "digest": None}
    return batch.events, pa.Table.from_pylist([row], batch.runs.schema)


def planted(events: pa.Table, rng: random.Random) -> pa.Table:
    """The same history with a few events as a broken lock, or a lying store, would have left them."""
    rows = events.to_pylist()
    writes = [
        number
        for number, row in enumerate(rows)
        if row["outcome"] == "applied" and row["kind"] == "applied" and row["op"] in ("acquire", "renew", "release")
    ]
    returns = [number for number, row in enumerate(rows) if row["kind"] == "return"]
    beliefs = [number for number, row in enumerate(rows) if row["kind"] in ("believed", "effect")]
    for _ in range(rng.randrange(1, 5)):
        write = rows[rng.choice(writes)]
        match rng.randrange(6):
            case 0:
                rows[rng.choice(returns)]["outcome"] = rng.choice(["applied", "precondition_failed", "ambiguous"])
            case 1:
                write["node"] = rng.choice(["n1", "n2", "n3"])
            case 2:
                write["valid_until_ns"] = (write["valid_until_ns"] or 0) + rng.choice([-1, 1]) * 10 ** rng.randrange(
                    8, 12
                )
            case 3:
                chosen = rng.randrange(len(beliefs) - 20)
                rows[beliefs[chosen + rng.randrange(1, 20)]]["request"] = rows[beliefs[chosen]]["request"]
            case 4:
                write["owner"] = rows[rng.choice(writes)]["owner"]
            case 5:
                write["outcome"] = "precondition_failed"
    return pa.Table.from_pylist(rows, events.schema)


def in_pieces(events: pa.Table, runs: pa.Table, rng: random.Random) -> tuple[Judgement, int]:
    """The judgement of pieces that are cut at random, and the most events that were judged at once."""
    judging = SegmentJudge(runs, grants=GRANTS)
    start = 0
    while start < len(events):
        length = rng.randrange(1, len(events) // 5)
        judging.add(events.slice(start, length))
        start += length
    return judging.end(), judging.most


def told(judgement: Judgement) -> dict[str, tuple[Any, ...]]:
    """By clause: verdict, count, first instant, and the witness, but for what S4's sums up over a whole run."""
    found = {}
    for row in judgement.verdicts.to_pylist():
        witness = json.loads(row["witness"] or "{}")
        shown = {"kind": witness.get("kind")} if row["clause"] == "S4" else witness
        # The store's first fault may lie far before the stretch in which another clause breaks.
        shown.pop("after_store_fault", None)
        found[row["clause"]] = (row["verdict"], row["count"], row["at_ns"], shown)
    return found


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))])
def test_pieces_give_the_judgement_of_the_whole(history: History, seed: int) -> None:
    """Verdict, count, instant and witness of every clause; situations, endings and class; in less memory.

    Where an event names what is not carried, no clause that broke is said to hold.
    """
    events, runs = history
    rng = random.Random(seed)
    events = planted(events, rng) if seed else events
    whole = judge(events, runs)
    pieces, most = in_pieces(events, runs, rng)
    expected, found = told(whole), told(pieces)
    if any(witness.get("reason") == BEYOND for *_, witness in found.values()):
        held = [name for name, (verdict, *_) in found.items() if verdict == "held"]
        assert not [name for name in held if expected[name][0] == "violated"]
        return
    assert found == expected
    assert pieces.endings.to_pylist() == whole.endings.to_pylist()
    assert pieces.classes.to_pylist() == whole.classes.to_pylist()
    counts = [
        {row["situation"]: row["count"] for row in each.reach.to_pylist() if row["count"]} for each in (whole, pieces)
    ]
    assert counts[0] == counts[1]
    assert most < 0.7 * len(events)


def test_a_planted_violation_is_among_the_histories(history: History) -> None:
    """The test above is about something: most of its histories break clauses."""
    events, runs = history
    rngs = [random.Random(seed) for seed in (1, 2)]
    broken = [
        {row["clause"] for row in judge(planted(events, rng), runs).verdicts.to_pylist() if row["count"]}
        for rng in rngs
    ]
    assert len(set().union(*broken)) >= 2


def test_every_clause_is_asked_in_pieces_or_of_the_whole() -> None:
    assert sorted([*IN_SEGMENTS, *OF_THE_WHOLE]) == sorted(CLAUSES)


def test_one_piece_is_the_whole(history: History) -> None:
    """A run that is no longer than a piece is judged as ever."""
    events, runs = history
    assert judge_in_segments(pieces_of(events, size=len(events)), runs).verdicts.equals(judge(events, runs).verdicts)


def test_damage_is_found_across_pieces(history: History) -> None:
    """An event that is missing between two pieces, or that came twice: no clause says anything."""
    events, runs = history
    for pieces, why in (
        ([events.slice(0, 100), events.slice(101, 100)], "event 100 is missing"),
        ([events.slice(0, 100), events.slice(99, 100)], "event 99 is recorded twice"),
        ([events, events.slice(0, 0)], None),
    ):
        judgement = judge_in_segments(pieces, runs)
        assert judgement.records["why"].to_pylist() == [why]
        if why is not None:
            assert set(judgement.verdicts["verdict"].to_pylist()) == {"inconclusive"}


def test_a_run_that_is_cut_off_is_judged_up_to_there(history: History) -> None:
    """Fewer events than were recorded: cut off, as `judge` says."""
    events, runs = history
    part = events.slice(0, len(events) // 2)
    judgement = judge_in_segments(pieces_of(part, size=len(part) // 3), runs)
    assert judgement.records.to_pylist() == judge(part, runs).records.to_pylist()
