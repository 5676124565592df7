"""What never came about because of what a lock does not do is excused, and nothing else."""

from __future__ import annotations

import pytest

from reports.checks.situation_names import IDLE
from scenarios.gate.demands import Ability, demands_on, not_demanded_of
from scenarios.gate.observed import never_done, shows_nothing
from tests.unit.scenarios.gate.test_demands import ALL, SIMPLE, scenario

LATE_RELEASE = "{kind: error, status: 503, client: n1, op: release, nth: 1}"
CUT_OFF = "{kind: partition, at: 1s, groups: [[n1], [store]], for: 20s}"
ON_RENEWAL = "{kind: lose_reply, client: n1, op: renew, nth: 2}"


def reached(**counts: int) -> dict[str, tuple[int, int]]:
    """Situation to runs and times; a grant came about."""
    return {"grant": (4, 4), **{name.replace("__", ":"): (count, count) for name, count in counts.items()}}


@pytest.mark.parametrize(
    ("faults", "situation", "struck", "why"),
    [
        (LATE_RELEASE, "fault:error", {}, "in 4 runs this lock sent no release that error waits for"),
        (CUT_OFF, "partition", {f"{IDLE}partition": (4, 4)}, "while this lock asked its store for nothing"),
        (ON_RENEWAL, "fault:lose_reply", {}, "in 4 runs this lock sent no renew that lose reply waits for"),
    ],
)
def test_a_fault_that_met_nothing_of_this_lock_is_not_demanded(faults, situation, struck, why):
    """The reason says what the lock did not do, and in how many runs."""
    made = scenario(faults=faults, must_happen=f'contention, "{situation}"')
    found = never_done(made, SIMPLE, reached() | struck, runs=4)
    assert list(found) == [situation]
    assert found[situation].endswith(why)


@pytest.mark.parametrize(
    ("faults", "situation", "has", "struck"),
    [
        (ON_RENEWAL, "fault:lose_reply", ALL, {}),
        (CUT_OFF, "partition", ALL, {f"{IDLE}partition": (4, 4)}),
        (CUT_OFF, "partition", SIMPLE, {}),
        ("{kind: error, status: 503, client: n1, op: acquire, nth: 1}", "fault:error", SIMPLE, {}),
        ("{kind: pause, client: n1, at: 99s, for: 9s}", "fault:pause", SIMPLE, {}),
    ],
)
def test_what_a_lock_has_an_ability_for_is_demanded(faults, situation, has, struck):
    """A lock that renews seldom is not excused from what strikes renewals; a plan that is too late is no excuse."""
    made = scenario(faults=faults, must_happen=f'"{situation}"')
    assert never_done(made, has, reached() | struck, runs=4) == {}


def test_nothing_is_excused_without_a_grant_or_a_run():
    """A lock that never gets hold of itself does nothing else either, and that is its defect."""
    made = scenario(faults=LATE_RELEASE, must_happen='"fault:error"')
    assert never_done(made, SIMPLE, {"grant": (0, 0)}, runs=4) == {}
    assert never_done(made, SIMPLE, reached(), runs=0) == {}


@pytest.mark.parametrize(("hold", "is_excused"), [("12s", True), ("9s", False)])
def test_a_release_is_not_demanded_where_everybody_holds_for_longer_than_the_lease(hold, is_excused):
    """Of a lock that gives nothing back then. Where some hold is shorter, a release has to come about."""
    made = scenario(workload=f"{{kind: register, hold: {hold}, clients: {{n2: {{hold: 20s}}}}}}", must_happen="release")
    assert bool(never_done(made, SIMPLE, reached(), runs=4)) is is_excused
    assert never_done(made, ALL, reached(), runs=4) == {}


def test_what_came_about_is_no_gap():
    """A situation that happened once needs no excuse."""
    made = scenario(faults=LATE_RELEASE, must_happen='"fault:error"')
    assert never_done(made, SIMPLE, reached(fault__error=1), runs=4) == {}


def test_a_lock_without_records_is_not_judged_by_what_only_records_show():
    """Where no demanded clause applies to it, the scenario says nothing about it."""
    bare = SIMPLE - {Ability.RECORD}
    assert shows_nothing(bare, {"S1": {"not_applicable": 4}, "L1": {"held": 4}}).endswith("the records of this lock")
    assert shows_nothing(bare, {"S3": {"held": 4}}) == ""
    assert shows_nothing(SIMPLE, {"S1": {"not_applicable": 4}}) == ""


def test_a_lock_that_compares_wall_clocks_is_asked_for_no_more_in_a_table():
    """E05 sets a clock far beyond the bound: only a lock without wall clocks keeps S3 and S5 there."""
    from scenarios.definition.load import load_scenario

    far = load_scenario("e05")
    by_duration = SIMPLE - {Ability.STAMPS}
    assert {"S3", "S5"} <= not_demanded_of(far, "table", SIMPLE)
    assert not_demanded_of(far, "table", by_duration) == frozenset()
    assert {"S3", "S5"} <= not_demanded_of(far, "object_store", by_duration)


@pytest.mark.parametrize(
    ("has", "faults", "is_excused"),
    [
        (SIMPLE - {Ability.RECORD}, "{kind: delay, client: n1, at: 0s, for: 9s, by: 5s}", True),
        (SIMPLE, "{kind: delay, client: n1, at: 0s, for: 9s, by: 5s}", False),
        (SIMPLE - {Ability.RECORD} | {Ability.TOKENS}, "{kind: delay, client: n1, at: 0s, for: 9s, by: 5s}", False),
        (SIMPLE - {Ability.RECORD}, "{kind: delay, client: n1, service: store, at: 0s, for: 9s, by: 5s}", False),
        (SIMPLE - {Ability.RECORD}, "{kind: pause, client: n1, at: 1s, for: 9s}", False),
    ],
)
def test_a_late_write_of_a_lock_without_records_and_tokens_is_nobodys_to_judge(has, faults, is_excused):
    """S4: neither a token nor the end of a grant tells it from a wrong one. Where nothing is late it is judged."""
    assert ("S4" in not_demanded_of(scenario(faults=faults), "object_store", has)) is is_excused


def test_both_kinds_of_reason_stand_in_the_note():
    """What an ability leaves out, and what was observed."""
    made = scenario(faults=LATE_RELEASE, must_happen="renewal")
    asked = demands_on(made, SIMPLE)
    told = type(asked)(dropped=asked.dropped, observed={"fault:error": "it sent no release"})
    assert told.note == "without renewal: this lock does not renew; without fault:error: it sent no release"
    assert told.without == {"renewal", "fault:error"}
