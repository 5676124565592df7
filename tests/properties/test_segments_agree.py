"""A run judged in pieces gets the verdicts, counts and first witnesses of the same run judged at once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
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


def assert_agree(whole: Judgement, pieces: Judgement) -> None:
    """Verdict, count, instant and witness of every clause; situations, endings and class."""
    assert told(pieces) == told(whole)
    assert pieces.endings.to_pylist() == whole.endings.to_pylist()
    assert pieces.classes.to_pylist() == whole.classes.to_pylist()
    counts = [
        {row["situation"]: row["count"] for row in each.reach.to_pylist() if row["count"]} for each in (whole, pieces)
    ]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.long) for seed in range(12)])
def test_pieces_give_the_judgement_of_the_whole(history: History, seed: int) -> None:
    """The same judgement, in less memory. Where an event names what is not carried, no clause that broke is said to
    hold.
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
    assert_agree(whole, pieces)
    assert most < 0.7 * len(events)


@pytest.mark.long
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


def test_one_piece_is_the_whole(short: History) -> None:
    """A run that is no longer than a piece is judged as ever."""
    events, runs = short
    assert judge_in_segments(pieces_of(events, size=len(events)), runs).verdicts.equals(judge(events, runs).verdicts)


def test_damage_is_found_across_pieces(short: History) -> None:
    """An event that is missing between two pieces, or that came twice: no clause says anything."""
    events, runs = short
    for pieces, why in (
        ([events.slice(0, 100), events.slice(101, 100)], "event 100 is missing"),
        ([events.slice(0, 100), events.slice(99, 100)], "event 99 is recorded twice"),
        ([events, events.slice(0, 0)], None),
    ):
        judgement = judge_in_segments(pieces, runs)
        assert judgement.records["why"].to_pylist() == [why]
        if why is not None:
            assert set(judgement.verdicts["verdict"].to_pylist()) == {"inconclusive"}


def test_a_run_that_is_cut_off_is_judged_up_to_there(short: History) -> None:
    """Fewer events than were recorded: cut off, as `judge` says."""
    events, runs = short
    part = events.slice(0, len(events) // 2)
    judgement = judge_in_segments(pieces_of(part, size=len(part) // 3), runs)
    assert judgement.records.to_pylist() == judge(part, runs).records.to_pylist()


Rows = list[dict[str, Any]]


def test_an_assigned_lock_is_judged_in_pieces_as_in_one() -> None:
    """All of it is carried, so nothing is gone: a version that nobody wrote on record, such as that of a cluster's
    configuration, is as good as in one piece.
    """
    text = next(path for path in catalogue() if path.stem == "contention").read_text(encoding="utf-8")
    text = text.replace("clients: 8", "clients: 3")
    batch = Batch(outcomes=tuple(run_seeds(parse_scenario(text), load_provider("helix"), [5])))
    row = {**batch.runs.to_pylist(maps_as_pydicts="strict")[0], "digest": None}
    runs = pa.Table.from_pylist([row], batch.runs.schema)
    written = [event["version"] for event in batch.events.to_pylist() if event["kind"] == "applied"]
    shown = [event["version"] for event in batch.events.to_pylist() if event["op"] == "read" and event["version"]]
    assert set(shown) - set(written)
    whole = judge(batch.events, runs)
    pieces = judge_in_segments(pieces_of(batch.events, size=len(batch.events) // 3), runs)
    assert told(pieces) == told(whole)


def places(rows: Rows, kind: str, op: str) -> list[int]:
    """Where events of this kind and operation stand; of writes, those that took effect."""
    wanted = (kind, op, "applied") if kind in ("applied", "return", "effect") else (kind, op, "none")
    return [number for number, row in enumerate(rows) if (row["kind"], row["op"], row["outcome"]) == wanted]


def raised_token(rows: Rows) -> None:
    """An early grant with a token that no later one reaches."""
    rows[places(rows, "applied", "acquire")[2]]["token"] = 1_000_000


def endless_belief(rows: Rows) -> None:
    """An early tenure that its node neither gave back nor knew to be lost, and in which it writes long after."""
    begin = places(rows, "call", "acquire")[2]
    node, request = rows[begin]["node"], rows[begin]["request"]
    end = next(n for n in places(rows, "return", "release") if n > begin and rows[n]["node"] == node)
    given_back = [n for n in range(begin, end + 1) if rows[n]["node"] == node]
    for number in given_back:
        rows[number]["node"] = "late"
    write = next(n for n in places(rows, "effect", "append") if n > len(rows) // 2)
    rows[write] |= {"node": "late", "request": request}
    told = ("disbelieved", "call", "return")
    for number in reversed(given_back):
        if rows[number]["kind"] in told and rows[number]["op"] == "release":
            del rows[number]


def long_call(rows: Rows) -> None:
    """An early call that returns late, and says that it was granted what it never got."""
    called = places(rows, "call", "acquire")[2]
    returned = places(rows, "return", "acquire")[-3]
    who = {"node": "late", "task": "main", "request": 1_000_000}
    rows.insert(returned + 1, {**rows[returned], **who})
    rows.insert(called + 1, {**rows[called], **who})


def revived_grant(rows: Rows) -> None:
    """A late heartbeat that brings an early grant back, after somebody else had released the lock."""
    early = rows[places(rows, "applied", "acquire")[0]]
    released = places(rows, "applied", "release")[-3]
    before, beat = rows[released]["version"], {"task": "beat", "request": 1_000_000, "op": "renew"}
    for row in rows[released + 1 :]:
        if row["if_version"] == before and row["kind"] in ("sent", "applied", "replied"):
            row["if_version"] = "revived"
    told = {name: early[name] for name in ("node", "owner", "token", "valid_until_ns", "lock", "run")}
    row = {**rows[released], **told, **beat, "if_version": before}
    sent = {**row, "kind": "sent", "outcome": "none", "version": None}
    applied = {**row, "kind": "applied", "task": "store", "version": "revived"}
    rows[released + 1 : released + 1] = [sent, applied, {**row, "kind": "replied", "version": "revived"}]


@pytest.fixture(scope="module")
def short() -> History:
    """About a thousand events of a lock with tokens."""
    text = next(path for path in catalogue() if path.stem == "contention").read_text(encoding="utf-8")
    for before, after in {**LONG["contention"], "duration: 5s": "duration: 8s"}.items():
        assert before in text
        text = text.replace(before, after)
    batch = Batch(outcomes=tuple(run_seeds(parse_scenario(text), load_provider("hardened"), [5])))
    row = {**batch.runs.to_pylist(maps_as_pydicts="strict")[0], "digest": None, "event_count": None}
    return batch.events, pa.Table.from_pylist([row], batch.runs.schema)


def judged_twice(history: History, plant: Callable[[Rows], None]) -> tuple[Judgement, Judgement]:
    """The judgement of the whole, and of short pieces with the last two grants carried, after an event was planted."""
    events, runs = history
    rows = events.to_pylist()
    plant(rows)
    for number, row in enumerate(rows):
        row["seq"] = number
    events = pa.Table.from_pylist(rows, events.schema)
    judging = SegmentJudge(runs, grants=2)
    for piece in pieces_of(events, size=120):
        judging.add(piece)
    return judge(events, runs), judging.end()


@pytest.mark.parametrize(
    ("plant", "clause"),
    [(raised_token, "S2"), (endless_belief, "S4"), (long_call, "S7")],
    ids=["token", "belief", "call"],
)
def test_what_is_open_goes_from_piece_to_piece(short: History, plant: Callable[[Rows], None], clause: str) -> None:
    """What an early piece began breaks a clause in a late one, once."""
    whole, pieces = judged_twice(short, plant)
    assert told(whole)[clause][0] == "violated"
    assert_agree(whole, pieces)


def test_a_late_event_of_what_is_gone_leaves_nothing_said_to_hold(short: History) -> None:
    """Only the whole run shows that the grant is one of long ago."""
    whole, pieces = (told(each) for each in judged_twice(short, revived_grant))
    assert whole["S6"][0] == "violated"
    assert "held" not in [verdict for name, (verdict, *_) in pieces.items() if whole[name][0] == "violated"]
    assert pieces["S1"][3] == {"reason": BEYOND}
