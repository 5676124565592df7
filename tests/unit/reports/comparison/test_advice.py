"""Which store to take: never a winner that the data do not tell, and a sentence about each store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lockref.runtime import NS_PER_S
from reports.comparison.advice import Advice, advise
from reports.comparison.carrying import NO, NOT_REACHED, UNKNOWN, YES, carrying
from reports.comparison.comparison import Cell
from reports.comparison.differences import known, ratio_of
from reports.comparison.standing import RATE, Crowd, Standing, Struck
from reports.comparison.store_runs import HELD, STARVED, VIOLATED
from reports.comparison.store_table import HEAD, dollars, rows
from reports.comparison.subjects import STRETCHES, Figure, Subject
from tests.unit.reports.comparison.test_comparison import fingerprint


def measured(name: str, rate: float, *, runs: int = 1) -> Subject:
    """A subject with this many grants per second, which vary by a tenth from stretch to stretch."""
    grants = rate * (1 + 0.1 * np.sin(np.arange(STRETCHES)))
    drawn = ratio_of(grants, np.ones(STRETCHES))
    figure = Figure(name=RATE, unit="1/s", drawn=drawn, is_less_better=False)
    blocks: tuple[int, ...] = ()
    if runs > 1:
        blocks = tuple(range(1, runs + 1))
        figure = Figure(
            name=RATE, unit="1/s", drawn=known(rate), is_less_better=False, has_interval=False,
            runs={block: rate * (1 + 0.01 * block) for block in blocks},
        )  # fmt: skip
    return Subject(
        title=name, path=Path(name), verdict="held", statement="", facts={}, shares={}, figures=[figure], blocks=blocks
    )


def crowd(rate: float = 50.0, *, word: str = HELD, served: int = 100, contenders: int = 100, **more: object) -> Crowd:
    figure = Cell(value=rate, low=rate * 0.95, high=rate * 1.05)
    return Crowd(
        contenders=contenders, runs=1, word=word, rate=figure, handoff_99=Cell(value=2e8),
        served=served, jain=0.9, requests=4.0, cost=0.01, **{"handoff": Cell(), **more},
    )  # fmt: skip


def store(name: str, rate: float = 50.0, *, runs: int = 1, carries: str = YES, **more: object) -> Standing:
    about = {"crowds": (crowd(rate),), "subjects": {100: measured(name, rate, runs=runs)}, "most": 100, **more}
    return Standing(name=name, carries=carries, **about)


def advised(*stores: Standing, has_limits: bool = False) -> Advice:
    return advise(stores, lock="hardened", has_limits=has_limits, lasting_ns=20 * NS_PER_S)


def test_a_store_that_is_faster_by_a_factor_is_taken() -> None:
    """Five times the rate, in one run of each: beyond what runs of one store differ by."""
    found = advised(store("slow", 10.0), store("quick", 50.0))
    assert (found.take, found.serves) == (("quick",), ("slow",))
    assert found.headline.startswith("Take quick for hardened")
    assert found.reasons[0].startswith("slow can be taken, too, and is slower")


def test_two_stores_whose_intervals_meet_have_no_winner() -> None:
    found = advised(store("a", 50.0), store("b", 48.0))
    assert set(found.take) == {"a", "b"}
    assert "a and b cannot be told apart in this run" in found.headline
    assert "Take either of them" in found.headline


def test_a_difference_of_one_run_that_another_run_may_undo_has_no_winner() -> None:
    """Half as fast again, with intervals that do not meet: two runs of one store differ by as much."""
    assert set(advised(store("a", 60.0), store("b", 40.0)).take) == {"a", "b"}


def test_repeats_tell_what_one_run_does_not() -> None:
    """The same rates, in six runs of each, none of which comes near the others."""
    found = advised(store("a", 60.0, runs=6), store("b", 40.0, runs=6))
    assert (found.take, found.serves) == (("a",), ("b",))


def test_a_store_that_starves_clients_is_not_advised_however_quick() -> None:
    """ "Held" is not enough: 12 of 100 were served, and the slower store is taken."""
    starving = store("quick", 500.0, crowds=(crowd(500.0, word=STARVED, served=12),))
    found = advised(starving, store("slow", 10.0))
    assert found.take == ("slow",)
    assert "quick served 12 of 100 clients." in found.reasons
    [cells, _] = rows([starving, store("slow")], found)
    run, served = cells[HEAD.index("run")], cells[HEAD.index("served")]
    assert (run.badge, served.badge) == ("inconclusive", "inconclusive"), "never green beside starvation"
    assert cells[0].below == "not advised"
    assert rows([starving], found)[0][0].below == "", "alone it has no place among others"


def test_clients_that_only_waited_their_turn_are_told_of() -> None:
    """Nobody served all of a hundred: what was served under ten, and that a longer run may tell more."""
    found = advised(store("a", crowds=(crowd(20.0, contenders=10, served=10), crowd(word=STARVED, served=90))))
    assert found.take == ()
    assert "a longer one (--for) tells" in found.notes[0]
    assert "All of 10 clients were served by a with 20" in found.notes[1]


@pytest.mark.parametrize(
    ("handoff_s", "is_of_the_lock"),
    [(5.0, True), pytest.param(0.9, False, id="a hundred clients with five requests of 2 ms each may take as long")],
)
def test_a_lock_that_waits_for_too_long_is_not_put_down_to_its_store(handoff_s: float, is_of_the_lock: bool) -> None:
    """A store that answers at once, and clients that were left out: who waits in between is the lock."""
    starved = crowd(20.0, word=STARVED, served=90, handoff=Cell(value=handoff_s * NS_PER_S))
    one = store("memory:", crowds=(starved,), fingerprint=fingerprint("http://a", C2="conforming"))
    headline = advised(one).headline
    if is_of_the_lock:
        assert headline.startswith(
            "No advice: hardened never served 10 of 100 clients on 'memory:'. The store is hardly"
        )
        assert "a hand-off took 5.00 s, and a request alone takes 2.00 ms." in headline
    else:
        assert headline == "No advice: something speaks against 'memory:'."
    assert advised(one, store("b", carries=NO, why="it lies", crowds=())).headline.startswith("No advice: ")
    assert "No advice: something" in advised(store("a", ended="interrupted", crowds=(starved,))).headline


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (store("b", carries=NO, why="it breaks C3: both hold the lock", crowds=()), "b cannot carry this lock because"),
        (store("b", carries=NOT_REACHED, why="nobody answers", crowds=()), "b was not reached (nobody answers)"),
        (store("b", carries=UNKNOWN, why="C16 not answered"), "b did not show that it can carry this lock"),
        (store("b", ended="interrupted"), "b was not asked to the end (interrupted)"),
        (store("b", crowds=(crowd(word=VIOLATED),)), "b is where this lock broke (100 clients)"),
        (
            store("b", crowds=(crowd(limits=(("wait.p50 < 1s", "violated", "2.000 s over 9 samples"),)),)),
            "b misses wait.p50 < 1s: 2.000 s over 9 samples (100 clients)",
        ),
        (
            store("b", struck=(Struck(scenario="e12", kinds=("lose_reply",), word=VIOLATED),)),
            "b is where this lock broke (e12)",
        ),
    ],
)
def test_what_speaks_against_a_store_is_said(other: Standing, said: str) -> None:
    """Each obstacle alone keeps a store from being advised, and stands in its sentence."""
    found = advised(store("a", 1.0), other)
    assert found.take == ("a",)
    assert any(reason.startswith(said) for reason in found.reasons)


def test_what_the_faults_did_to_a_lock_that_breaks() -> None:
    """`hudi` beside the lock: that it broke is what makes the lock's "held" worth something; else that is said."""
    broke = Struck(scenario="e12", kinds=("lose_reply",), word=HELD, baseline=VIOLATED)
    held = Struck(scenario="e11", kinds=("lose_reply",), word=HELD, baseline=HELD)
    [note] = advised(store("a", struck=(broke, held))).notes
    assert note == "The same faults broke hudi in e12 (lose_reply); hardened did not break there."
    [note] = advised(store("a", struck=(held,))).notes
    assert "prove little" in note
    assert advised(store("a", struck=(Struck(scenario="e11", kinds=(), word=HELD),))).notes == ()


def test_a_store_carries_what_the_designs_of_the_lock_need() -> None:
    """What the lock stands on decides; what else the store breaks is a reservation."""
    found = fingerprint("http://a", C2="conforming", C8="unsafe")
    delete = {"title": "conditional delete", "verdict": "cannot carry", "why": "C8: two get in", "needs": ["C8"]}
    document = found.document()
    document["designs"]["delete"] = delete
    found = type(found).model_validate(document)
    able = carrying(found, ["cas"])
    assert able.verdict == YES
    assert able.reservations == ("it breaks C8, of which this lock sends no request",)
    refused = carrying(found, ["cas", "delete"])
    assert (refused.verdict, refused.why, refused.is_unsafe) == (NO, "it breaks C8: two get in", True)
    assert "no store keeps two clients apart" in carrying(found, []).reservations[-1]
    in_part = carrying(fingerprint("http://a", C2="unsafe"), ["cas"])
    assert in_part.reservations == (), "C2 is asked of this store: a part of it that the lock does not need is broken"


@pytest.mark.parametrize(
    ("amount", "said"), [(0.0, "$0"), (0.0331, "$0.033"), (1.234, "$1.23"), (0.000012, "$0.000012")]
)
def test_dollars_have_two_digits_that_count(amount: float, said: str) -> None:
    assert dollars(amount) == said


@pytest.mark.parametrize(("ended", "advises"), [("", True), ("table 't' has the key id (HASH, S)", False)])
def test_a_longer_probe_is_advised_only_where_it_would_have_been_asked(ended: str, advises: bool) -> None:
    """What ended the questions has to be mended first."""
    (first, *_) = Standing(name="t", carries=UNKNOWN, why="it was not asked", ended=ended).obstacles
    assert first.startswith("did not show that it can carry this lock (it was not asked")
    assert ("a longer --probe-for may" in first) is advises
