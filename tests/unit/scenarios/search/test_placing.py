"""Faults placed at the requests of a run: each strikes what it names, and pairs find what no single one does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lockref.lab.loading import ProviderSpec, load_provider
from lockref.runtime import NS_PER_MS
from reports.checks.summary import Finding, Summary
from reports.formats.results import statement
from scenarios.definition.load import parse_scenario
from scenarios.failures.judged_run import broken_clauses
from scenarios.failures.stored_failures import find_failures, replay_failure
from scenarios.search import forms, placing
from scenarios.search.failing import FailingTrials
from scenarios.search.placing import Placement, Placements, _in_order, parse_placing, search_placements
from scenarios.search.result import SearchResult, begun
from scenarios.search.schedules import Exploration
from scenarios.search.trials import Piece, Tried, run_piece
from scenarios.search.worlds import small_world
from scenarios.worlds.simulated import run_simulated
from sim.explore.policies import parse_policy
from sim.explore.replay import Answer

HARDENED = load_provider("hardened")
PAIRS = "tests.quality.planted.pairs"


def learned(spec: ProviderSpec = HARDENED) -> tuple[Placements, Tried]:
    placements = Placements(small_world(), 1)
    (base,) = run_piece(Piece(spec=spec, trials=(placements.base(0),), wants_places=True)).tried
    placements.learn(base)
    return placements, base


@pytest.fixture(scope="module")
def small() -> tuple[Placements, Tried]:
    return learned()


def named(placements: Placements, base: Tried, name: str) -> Placement:
    (found,) = [each for each in placements.at(base.places) if each.name == name]
    return found


def broken(spec: ProviderSpec, placements: Placements, *chosen: Placement) -> frozenset[str]:
    trial = placements.trial(1, *chosen)
    return broken_clauses(run_simulated(trial.scenario, spec, trial.seed, plan=trial.plan))


def test_each_placement_strikes_the_request_that_it_names(small: tuple[Placements, Tried]) -> None:
    """A place learned from the record counts requests as a plan does: a fault there always finds its request."""
    placements, base = small
    idle = []
    for single in list(placements.at(base.places))[::37]:
        trial = placements.trial(1, single)
        outcome = run_simulated(trial.scenario, HARDENED, trial.seed, plan=trial.plan)
        if not all(fired for _, fired, _ in outcome.fault_counts.values()):
            idle.append(single.name)
    assert idle == []


def test_each_kind_of_request_of_a_turn_is_a_place(small: tuple[Placements, Tried]) -> None:
    _, base = small
    ops = {(place.client, place.op) for place in base.places}
    assert {("n1", op) for op in ("read", "acquire", "renew", "release", "write")} <= ops
    assert [place.nth for place in base.places if (place.client, place.op) == ("n1", "acquire")] == [1, 2]


def test_a_fault_that_changes_nothing_has_the_trace_of_the_run_without_it(small: tuple[Placements, Tried]) -> None:
    """A duplicate of a write on its condition does nothing; a pause beyond the lease does much."""
    placements, base = small
    quiet = named(placements, base, "clock forward at c4: write 2 of n2")
    loud = named(placements, base, "paused beyond its lease at c4: acquire 1 of n1")
    trials = (placements.trial(1, quiet), placements.trial(2, loud))
    idle, struck = run_piece(Piece(spec=HARDENED, trials=trials)).tried
    assert (idle.trace == base.trace, struck.trace == base.trace) == (not idle.mattered, False)


@pytest.mark.parametrize(
    ("lock", "first", "second"),
    [
        (
            "RenewsBlindlyAfterALostGrant",
            "answer lost: acquire 1 of n1",
            "paused beyond its lease at c0: renew 1 of n1",
        ),
        (
            "ReleasesBlindlyAfterALostRenewal",
            "answer lost: renew 1 of n1",
            "paused beyond its lease at c0: release 1 of n1",
        ),
    ],
)
def test_a_bug_is_shown_by_two_faults_and_by_neither_of_them(lock: str, first: str, second: str) -> None:
    """C1, M4: after a bad answer the lock is careless, and only a fault in the right place then hurts it."""
    spec = load_provider(f"{PAIRS}:{lock}")
    placements, base = learned(spec)
    one, other = named(placements, base, first), named(placements, base, second)
    assert broken(spec, placements, one) == broken(spec, placements, other) == frozenset()
    assert "S6" in broken(spec, placements, one, other)
    assert broken(HARDENED, placements, one, other) == frozenset()


def test_a_client_that_does_not_ask_again_ends_with_that_turn(small: tuple[Placements, Tried]) -> None:
    """The fault strikes the first of two turns, and the second one never comes."""
    placements, base = small
    last = named(placements, base, "answer lost, and no more: release 1 of n1")
    trial = placements.trial(1, last)
    (tried,) = run_piece(Piece(spec=HARDENED, trials=(trial,), wants_places=True)).tried
    assert {place.cycle for place in base.places if place.client == "n1"} == {1, 2}
    assert {place.cycle for place in tried.places if place.client == "n1"} == {1}


def test_pairs_come_once_each_and_those_that_show_something_new_first(small: tuple[Placements, Tried]) -> None:
    """What a cut-off search has seen is spread over all ways of going wrong and all operations after them."""
    placements, base = small
    firsts = [(each, base) for each in list(placements.at(base.places))[::150]]
    pairs = list(_in_order(placements, firsts))
    assert len(pairs) == len(set(pairs)) == sum(1 for first, _ in firsts for _ in placements.after(first, base.places))

    def shown(pair: Sequence[Placement]) -> tuple[object, ...]:
        first, second = pair
        return first.form.way, first.place.op, second.place.op

    late = [each for each in pairs if each[0].place.client == each[1].place.client and each[1].form.is_late]
    different = len({shown(pair) for pair in late})
    assert len({shown(pair) for pair in pairs[:different]}) == different > 20
    assert all(second.form.is_late for _, second in pairs[:different])


def test_a_search_says_what_it_tried_and_stores_what_broke(tmp_path) -> None:
    """A failure of a placement has an id, replays event for event, and stands for the later ones of its kind."""
    spec = load_provider("tests.quality.planted.takeover:AlwaysYes")
    result = search_placements(small_world(), spec, [1], faults_max=1, trials_max=40)
    assert result.is_cut
    assert any("cut off" in note for note in result.notes)
    finding = next(each for each in result.summary.findings if each.clause == "S3")
    record = FailingTrials(result.failing, spec, folder=tmp_path).store(finding)
    (path,) = find_failures(record.id, folder=tmp_path)
    assert replay_failure(path, may_import=True).answered.answer is Answer.SAME_DIGEST


@pytest.mark.parametrize("broken_runs", [0, 3])
def test_a_search_tells_no_rate(broken_runs: int) -> None:
    """Runs that were chosen are no sample: neither a bound nor an interval is said of them."""
    search = SearchResult(scenario="small-world", provider="hardened", how="faults", summary=Summary())
    told = [
        statement(
            verdict="violated" if broken_runs else "held",
            runs=100,
            violated=broken_runs,
            reasons=[],
            is_sample=is_sample,
        )
        for is_sample in (True, search.is_sample)
    ]
    assert ["95 %" in each for each in told] == [True, False]


def test_an_exhausted_search_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every placement is run, and the counts say so."""
    monkeypatch.setattr(placing, "FORMS", forms.FORMS[:1])
    result = search_placements(small_world(), HARDENED, [1], faults_max=1)
    assert result.summary.findings == []
    assert result.counts["placements"] == result.counts["placements_run"] == result.summary.runs - 1 > 10
    assert result.counts["is_exhausted"]
    assert any(note.startswith("exhausted") for note in result.notes)


def test_a_search_that_left_first_faults_out_is_not_exhausted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One fault of each kind at each operation is not every placement, although each that was planned so was run."""
    monkeypatch.setattr(placing, "FORMS", forms.FORMS[:1])
    result = search_placements(small_world(), HARDENED, [1], faults_max=1, is_spread=True)
    assert 0 < result.summary.runs - 1 < int(str(result.counts["placements"]))
    assert result.counts["is_exhausted"] is False
    assert [note for note in result.notes if note.startswith("not exhausted: ")]
    assert not [note for note in result.notes if note.startswith("exhausted")]


def test_a_failure_that_fewer_faults_show_is_that_failure() -> None:
    """What a pause shows by itself is not told again for each fault beside it."""
    result = begun("world", "lock", how="tried")
    found = [
        Finding(clause="S3", kind="", fault_kinds=kinds, run=run, at_ns=1, witness={})
        for run, kinds in enumerate((("crash", "pause"), ("pause",), ("drift", "pause"), ("drift",)))
    ]
    for finding in found:
        piece = run_piece(Piece(spec=HARDENED, trials=(Placements(small_world(), 1).base(finding.run),)))
        assert piece.summary is not None
        piece.summary.findings = [finding]
        result.absorb(replace(piece, kept=None, runs={finding.run: piece.piece.trials[0]}))
    assert [(each.fault_kinds, each.similar) for each in result.summary.findings] == [(("pause",), 2), (("drift",), 0)]
    assert sorted(result.failing) == [1, 3]


MEETING = """\
version: 1
name: meeting
clients: 2
duration: 30s
workload:
  {cycles: 1, think: 0s, start: 300ms, hold: 300ms, writes: 1, wait: 30s,
   clients: {n2: {start: 0s, think: 300ms, cycles: 2}}}
"""
"""A world in which the second client comes back when the first one, whose read was lost, asks again."""

EXHAUSTIVE = Exploration.by(parse_policy("exhaustive"), window_ns=50 * NS_PER_MS)


def test_a_bug_that_needs_a_fault_and_an_order_is_found_by_all_schedules_of_each_plan(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    """C1: neither the fault alone nor any order alone shows it; what shows it is stored with its schedule."""
    monkeypatch.setattr(placing, "FORMS", forms.FORMS[:1])
    spec = load_provider("tests.quality.planted.scheduled:TakesBlindlyAfterALostRead")
    world = parse_scenario(MEETING)
    assert search_placements(world, spec, [1], faults_max=1).summary.findings == []
    base = Placements(world, 1).base(0)
    orders = run_piece(Piece(spec=spec, trials=(base,), exploration=EXHAUSTIVE))
    assert orders.summary is not None
    assert (orders.tally.schedules > 1, orders.tally.is_exhausted, orders.summary.findings) == (True, True, [])
    result = search_placements(world, spec, [1], faults_max=1, exploration=EXHAUSTIVE)
    finding = next(each for each in result.summary.findings if each.clause == "S3")
    assert result.failing[finding.run].deviations
    record = FailingTrials(result.failing, spec, folder=tmp_path).store(finding)
    (path,) = find_failures(record.id, folder=tmp_path)
    assert replay_failure(path, may_import=True).answered.answer is Answer.SAME_DIGEST


@pytest.mark.parametrize(("schedules_max", "is_exhausted"), [(1_000, True), (1, False)])
def test_all_schedules_of_all_plans_are_exhausted_only_if_no_search_was_cut_off(
    schedules_max: int, is_exhausted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line says it of placements and schedules together."""
    monkeypatch.setattr(placing, "FORMS", forms.FORMS[:1])
    exploration = replace(EXHAUSTIVE, schedules_max=schedules_max)
    result = search_placements(parse_scenario(MEETING), HARDENED, [1], faults_max=1, exploration=exploration)
    assert result.summary.findings == []
    assert result.counts["is_exhausted"] is is_exhausted
    assert any(note.startswith("exhausted") for note in result.notes) is is_exhausted
    assert result.counts["schedules"] >= result.counts["placements_run"]  # type: ignore[operator]


def test_a_word_for_faults_and_schedules_names_a_policy_that_searches() -> None:
    assert str(parse_placing("exhaustive+faults:1")) == "exhaustive+faults:1"
    assert str(parse_placing("delay:2+faults")) == "delay:2+faults"
    with pytest.raises(ValueError, match="pos draws schedules; expected delay:N or exhaustive"):
        parse_placing("pos+faults:1")
    assert parse_placing("exhaustive+fault") is None
    asked = parse_placing("requests:2")
    assert asked is not None
    assert (asked.of_requests, asked.faults_max, str(asked)) == (True, 2, "requests:2")


def test_faults_of_requests_leave_processes_and_clocks_alone(small: tuple[Placements, Tried]) -> None:
    """They are the forms that say what becomes of one request."""
    placements, base = small
    alone = Placements(small_world(), 1, of_requests=True)
    alone.learn(base)
    kinds = {each.form.kind for each in alone.at(base.places)}
    assert kinds == {"lose_request", "lose_reply", "error", "delay", "duplicate", "hidden_retry"}
    others = {each.form.kind for each in placements.at(base.places)} - kinds
    assert others == {"pause", "suspend", "crash", "step", "partition"}
