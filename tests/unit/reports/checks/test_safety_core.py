"""S1, S3 and S4 on histories small enough to read, each clause from both sides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lockref.words import Kind, Op, Outcome
from reports.checks import VERDICT_SCHEMA, judge
from reports.checks.rulings import Ruling, Violations, verdict_table
from tests.histories import Held, History, summarised, tables, verdict


def two_tenures(*, is_simulated: bool = True) -> History:
    """n1 holds and gives back, then n2 holds: nothing wrong."""
    h = History(is_simulated=is_simulated)
    a = h.granted("n1", call=0, applied=2, returned=3, token=1)
    h.believes(a, 3, 8)
    h.effect(a, at=5)
    h.released(a, call=9, applied=10, returned=11)
    b = h.granted("n2", call=1, applied=12, returned=13, token=2)
    h.believes(b, 13, 15)
    h.effect(b, at=14)
    return h


def test_a_clean_handover_holds_everywhere():
    """S1, S3, S4: a release between two grants breaks nothing."""
    judgement = two_tenures().judged()
    assert judgement.verdicts.schema == VERDICT_SCHEMA
    for clause in ("S1", "S3", "S4"):
        found = verdict(judgement, clause)
        assert (found["verdict"], found["count"], found["at_ns"]) == ("held", 0, None)


def test_no_events_at_all_is_judged_without_complaint():
    """A run that recorded nothing has nothing to break; situations says the rest."""
    assert verdict(History().judged(), "S1")["verdict"] == "held"


def test_two_writes_on_one_version_are_a_fork():
    """S1: a store that lets two conditional writes replace one state forks the chain."""
    h = History()
    a = h.granted("n1", call=0, applied=2, returned=3)
    h.released(a, call=4, applied=5)
    base = h.version
    h.granted("n2", call=6, applied=7, returned=8)
    h.granted("n3", call=6, applied=8, returned=9, if_version=base)
    found = h.verdict("S1")
    assert (found["verdict"], found["count"], found["at_ns"]) == ("violated", 1, 8)
    assert found["witness"]["kind"] == "fork"
    assert [w["node"] for w in found["witness"]["writes"]] == ["n2", "n3"]


def test_creating_over_an_existing_object_breaks_the_chain():
    """S1: a create that the store applied although there was an object."""
    h = History()
    h.granted("n1", call=0, applied=2, returned=3)
    h.granted("n2", call=0, applied=4, returned=5, if_version="absent")
    assert h.verdict("S1")["witness"]["kind"] == "create over existing"


def test_a_repeated_version_is_no_fork():
    """S1 with ABA: equal bytes give equal versions; order decides, not the version."""
    h = History()
    h.granted("n1", call=0, applied=2, returned=3, version="same")
    h.renewed(h.granted("n1", call=4, applied=5, returned=6, if_version="same", version="other"), at=7)
    h.write("n1", Op.RENEW, sent=8, owner="owner-n1", version="same")
    h.write("n1", Op.RENEW, sent=9, owner="owner-n1", if_version="same")
    assert h.verdict("S1")["verdict"] == "held"


def test_deleting_and_creating_again_continues_the_chain():
    """S1: after a delete the next write is a create."""
    h = History()
    a = h.granted("n1", call=0, applied=2, returned=3)
    h.write(a.node, Op.DELETE, sent=4)
    h.granted("n2", call=0, applied=6, returned=7)
    assert h.verdict("S1")["verdict"] == "held"


def _touching(*, is_simulated: bool, last_yes_first: bool) -> History:
    """n1's last yes and n2's first yes at 8; which of them is the earlier event is told."""
    h = History(is_simulated=is_simulated)
    a = h.granted("n1", call=0, applied=1, returned=2)
    b = h.granted("n2", call=0, applied=7, returned=8, if_version=a.version)
    stories = [lambda: h.believes(a, 2, 8), lambda: h.believes(b, 8, 12)]
    for tell in stories if last_yes_first else reversed(stories):
        tell()
    return h


@pytest.mark.parametrize(
    ("is_simulated", "last_yes_first", "expected"),
    [(True, True, "held"), (True, False, "violated"), (False, True, "held"), (False, False, "held")],
)
def test_a_touch_is_an_overlap_where_events_are_in_order_and_the_last_yes_came_second(
    is_simulated, last_yes_first, expected
):
    """S3: in a simulation `seq` tells a hand-over at one instant from an overlap; nothing does in a real run."""
    found = _touching(is_simulated=is_simulated, last_yes_first=last_yes_first).verdict("S3")
    assert found["verdict"] == expected
    if expected == "violated":
        assert (found["at_ns"], found["witness"]["overlap_ns"]) == (8, [8, 8])


@pytest.mark.parametrize("is_simulated", [True, False])
def test_an_overlap_of_one_is_one_in_any_world(is_simulated):
    """S3: time itself orders a first yes at 8 and a last one at 9."""
    h = History(is_simulated=is_simulated)
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.believes(a, 2, 9)
    h.believes(h.granted("n2", call=0, applied=7, returned=8, if_version=a.version), 8, 12)
    assert h.verdict("S3")["witness"]["overlap_ns"] == [8, 9]


def test_many_yeses_at_one_instant_are_in_the_order_of_their_events():
    """S3: yes by n1, yes by n2, yes by n1 again, all at 5: n1 believed still when n2 had begun to."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=5)
    b = h.granted("n2", call=0, applied=2, returned=5)
    h.believes(a, 5, 5)
    h.believes(b, 5, 5)
    assert h.verdict("S3")["verdict"] == "held"
    h.believes(a, 5, 5)
    assert h.verdict("S3")["count"] == 1


def test_beliefs_one_apart_do_not_overlap():
    """S3: the other side of the closed interval."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.believes(a, 2, 7)
    b = h.granted("n2", call=0, applied=7, returned=8, if_version=a.version)
    h.believes(b, 8, 12)
    assert h.verdict("S3")["verdict"] == "held"


def test_one_clients_own_tenures_never_overlap_each_other():
    """S3 speaks of two clients: one task's next tenure may begin at the instant its last one ended."""
    h = History()
    h.believes(h.granted("n1", call=0, applied=1, returned=2), 2, 8)
    h.believes(h.granted("n1", call=7, applied=7, returned=8), 8, 9)
    assert h.verdict("S3")["verdict"] == "held"


def test_two_tasks_of_one_process_are_two_clients():
    """S3, U6: a provider shared by two threads that tells both of them yes."""
    h = History()
    h.believes(h.granted("n1", call=0, applied=1, returned=2), 2, 8)
    h.believes(h.granted("n1", call=3, applied=4, returned=5, task="other"), 5, 6)
    assert h.verdict("S3")["verdict"] == "violated"


def test_a_long_belief_is_seen_behind_a_short_one():
    """S3: the intruder overlaps not its neighbour, which is its own, but the tenure before that."""
    h = History()
    h.believes(h.granted("n1", call=0, applied=1, returned=2), 2, 50)
    h.believes(h.granted("n2", call=3, applied=4, returned=5), 5, 60)
    h.believes(h.granted("n2", call=61, applied=62, returned=63), 63, 64)
    assert h.verdict("S3")["count"] == 1


def test_own_longest_belief_does_not_hide_another():
    """S3: where the longest earlier belief is the client's own, the second longest counts."""
    h = History()
    h.believes(h.granted("n2", call=0, applied=1, returned=2), 2, 30)
    h.believes(h.granted("n1", call=0, applied=3, returned=4), 40, 90)
    h.believes(h.granted("n2", call=0, applied=5, returned=6), 41, 80)
    h.believes(h.granted("n1", call=0, applied=7, returned=8), 70, 75)
    assert h.verdict("S3")["count"] == 2


def test_the_observer_sees_for_a_silent_client():
    """S3: belief found by the omniscient observer counts for the client it asked, whatever task asked."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.believes(a, 2, 2)
    b = h.granted("n2", call=0, applied=9, returned=10, if_version=a.version)
    h.believes(b, 10, 11)
    h.event(Kind.BELIEVED, 10, "n1", op=Op.NONE, request=a.request, task="observer")
    found = h.verdict("S3")
    assert found["verdict"] == "violated"
    assert {side["task"] for side in found["witness"]["intervals"]} == {"main"}


def test_a_late_write_under_a_smaller_token_is_harm():
    """S4: token 1 is accepted after token 2."""
    h = two_tenures()
    a = h.granted("n3", call=20, applied=21, returned=22, token=3)
    b = h.granted("n4", call=20, applied=23, returned=24, token=4)
    h.effect(b, at=25)
    h.effect(a, at=26)
    found = h.verdict("S4")
    assert (found["verdict"], found["count"], found["at_ns"]) == ("violated", 1, 26)
    assert "smaller token" in found["witness"]["text"]


def test_a_late_write_without_tokens_is_harm_by_chain_order():
    """S4 for a lock without tokens: the grant's place in the chain tells which write is late."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    b = h.granted("n2", call=0, applied=3, returned=4)
    h.effect(b, at=5)
    h.effect(a, at=6)
    assert "an earlier grant than one accepted before" in h.verdict("S4")["witness"]["text"]


def kept_by_the_network(*, said_yes: int, token: int | None = None, shown: int | None = None) -> History:
    """n1's guard says yes once more, its write lands at 30; n2 was granted the lock at 22 and wrote at 25."""
    h = History()
    a = h.granted("n1", call=0, applied=2, returned=3, token=token, valid_for=18)
    h.believes(a, 3, said_yes)
    b = h.granted("n2", call=10, applied=22, returned=23, token=shown)
    h.believes(b, 23, 25)
    h.effect(b, at=25, op=Op.WRITE)
    h.effect(a, at=30, op=Op.WRITE, attempt=1)
    return h


def test_a_tokenless_write_that_left_under_its_grant_is_counted_and_no_violation():
    """S4: the network kept it, and without a token nothing could refuse it; the verdict tells of it."""
    h = kept_by_the_network(said_yes=19)
    assert h.verdict("S4")["verdict"] == "held"
    summary = summarised(h)
    assert summary.reach["late_write_without_token"] == (1, 1)
    assert any("1 write in 1 run left under a good grant" in notice for notice in summary.notices)


@pytest.mark.parametrize(
    "h",
    [
        pytest.param(kept_by_the_network(said_yes=21), id="left after its validity"),
        pytest.param(kept_by_the_network(said_yes=24), id="left after the hand-off"),
        pytest.param(kept_by_the_network(said_yes=19, token=1, shown=2), id="the lock shows tokens"),
        pytest.param(kept_by_the_network(said_yes=19, shown=2), id="one grant shows a token"),
    ],
)
def test_a_late_write_that_its_lock_could_have_stopped_is_harm(h):
    """S4: what left outside its own grant, and what a token could have refused, is a violation."""
    assert h.verdict("S4")["verdict"] == "violated"
    assert "late_write_without_token" not in summarised(h).reach


def test_a_writer_that_was_paused_between_the_guards_yes_and_its_write_is_not_excused():
    """S4: the pause begins at the instant of the yes, so the write left only after it, outside its grant."""
    h = kept_by_the_network(said_yes=19)
    h.fault("n1", 19, "pause", "begin")
    h.fault("n1", 29, "pause", "end")
    assert h.verdict("S4")["verdict"] == "violated"


def test_a_writer_that_is_paused_after_its_write_has_left_is_excused():
    """S4: a pause that begins later finds the write under way."""
    h = kept_by_the_network(said_yes=19)
    h.fault("n1", 20, "pause", "begin")
    assert h.verdict("S4")["verdict"] == "held"


def test_a_rejected_late_write_is_not_harm():
    """S4: the resource refused, so nothing happened."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    b = h.granted("n2", call=0, applied=3, returned=4, token=2)
    h.effect(b, at=5)
    h.effect(a, at=6, is_accepted=False)
    assert h.verdict("S4")["verdict"] == "held"


def test_an_update_on_a_state_that_is_gone_is_lost():
    """S4: a list append that was based on a length which a rival had changed."""
    h = two_tenures()
    c = h.granted("n3", call=20, applied=21, returned=22, token=3)
    h.effect(c, at=23, base=1)
    assert "not based on the state" in h.verdict("S4")["witness"]["text"]


def test_a_repeated_delivery_is_a_duplicate_not_a_lost_update():
    """S4: the same write of the same tenure, delivered twice, harms nobody else."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.effect(a, at=5, base=0)
    h.effect(a, at=6, base=0)
    assert h.verdict("S4")["verdict"] == "held"


def test_a_write_without_any_grant_is_harm():
    """S4: a timeout taken for success writes under a grant that never was."""
    h = History()
    request = h.call("n1", Op.ACQUIRE, 0)
    h.granted("n2", call=0, applied=1, returned=2, token=1)
    h.returns("n1", Op.ACQUIRE, 5, request, Outcome.APPLIED, owner="owner-n1", token=1)
    h.effect(Held("n1", "main", request, "owner-n1", 1, ""), at=6)
    assert "no grant" in h.verdict("S4")["witness"]["text"]


def test_undecodable_records_leave_belief_and_effect_to_judge():
    """S1 does not apply where records cannot be read; S3 and S4 still do."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, owner="")
    b = h.granted("n2", call=0, applied=3, returned=4, owner="")
    h.believes(a, 2, 9)
    h.believes(b, 4, 8)
    h.effect(b, at=5)
    h.effect(a, at=6)
    assert h.verdict("S1")["verdict"] == "not_applicable"
    assert h.verdict("S3")["verdict"] == "violated"
    assert h.verdict("S4")["verdict"] == "violated"


def test_runs_in_one_batch_do_not_touch_each_other():
    """A batch judges each run alone: the middle run's overlap stays its own."""
    bad = History()
    bad.believes(bad.granted("n1", call=0, applied=1, returned=2), 2, 9)
    bad.believes(bad.granted("n2", call=0, applied=3, returned=4), 4, 8)
    judgement = judge(*tables(two_tenures(), bad, two_tenures()))
    assert [verdict(judgement, "S3", run)["count"] for run in range(3)] == [0, 1, 0]


def test_a_real_run_is_judged_from_replies():
    """S1 in a real run: without APPLIED rows the replies make the same chain."""
    h = two_tenures(is_simulated=False)
    assert h.verdict("S1")["verdict"] == "held"
    base = h.version
    h.granted("n3", call=20, applied=21, returned=22)
    h.granted("n4", call=20, applied=22, returned=23, if_version=base)
    assert h.verdict("S1")["witness"]["kind"] == "fork"


def test_an_unconditional_write_breaks_no_chain():
    """S1 asks whether conditions held; whoever sets none is S6's business."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.released(a, call=3, applied=4, if_version="")
    assert h.verdict("S1")["verdict"] == "held"


def test_a_delete_on_a_version_that_is_gone_breaks_the_chain():
    """S1, M21: a store that applies a stale conditional delete."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.renewed(a, at=5)
    h.write("n1", Op.DELETE, sent=6, if_version=a.version)
    assert h.verdict("S1")["verdict"] == "violated"


def test_deleting_what_is_not_there_changes_nothing():
    """S1: stores answer a second delete as they like."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.write("n1", Op.DELETE, sent=5)
    h.write("n1", Op.DELETE, sent=6, if_version=a.version)
    assert h.verdict("S1")["verdict"] == "held"


def test_a_conditional_write_on_an_absent_object_breaks_the_chain():
    """S1, M20: compare-and-swap on nothing must not create."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.write("n1", Op.DELETE, sent=5)
    h.granted("n2", call=0, applied=6, returned=7, if_version=a.version)
    assert h.verdict("S1")["verdict"] == "violated"


def test_a_second_intruder_is_seen_behind_the_first():
    """S3: the third tenure overlaps the first, though not the second, which ended before."""
    h = History()
    h.believes(h.granted("n1", call=0, applied=1, returned=2), 2, 50)
    h.believes(h.granted("n2", call=0, applied=4, returned=5), 5, 6)
    h.believes(h.granted("n3", call=0, applied=9, returned=10), 10, 11)
    assert h.verdict("S3")["count"] == 2


@pytest.mark.parametrize("begin", [49, 50, 51])
def test_what_reaches_behind_ones_own_longest_belief_counts(begin):
    """S3: n1's own long tenure reaches farthest; n2's ends at 50, around the beginning of n1's next."""
    h = History()
    h.believes(h.granted("n1", call=0, applied=1, returned=1), 1, 100)
    third = h.granted("n1", call=3, applied=begin, returned=begin)
    h.believes(third, begin, 60)
    h.believes(h.granted("n2", call=0, applied=2, returned=2), 2, 50)
    # At 50 the first yes of n1's next is on record before n2's last.
    assert h.verdict("S3")["count"] == (2 if begin <= 50 else 1)


def test_a_long_belief_of_one_client_is_met_by_every_other():
    """S3: behind the farthest reach the farthest of any other client is kept, in whatever order they come."""
    h = History()
    spans = {"n1": (1, 100), "n2": (2, 40), "n3": (3, 30), "n4": (4, 90)}
    for node, (first, last) in spans.items():
        h.believes(h.granted(node, call=0, applied=first, returned=first), first, last)
    h.believes(h.granted("n1", call=0, applied=50, returned=50), 50, 60)
    h.believes(h.granted("n1", call=0, applied=95, returned=95), 95, 96)
    found = h.verdict("S3")
    # n2, n3 and n4 meet n1's; n1's second meets n4's; nobody else's reaches n1's third.
    assert found["count"] == 4


def test_who_was_outreached_is_still_met():
    """S3: n2 reaches farther than n1 did, and n2's next tenure begins while n1 still believes."""
    h = History()
    h.believes(h.granted("n1", call=0, applied=1, returned=1), 1, 50)
    h.believes(h.granted("n2", call=0, applied=2, returned=2), 2, 100)
    h.believes(h.granted("n2", call=3, applied=30, returned=30), 30, 40)
    assert h.verdict("S3")["count"] == 2


def test_a_lost_update_of_a_stranger_counts():
    """S4: two writes whose calls nobody recorded are two writers', not a repeated delivery."""
    h = History()
    strangers = [Held(node, "main", 1000 + place, "", None, "") for place, node in enumerate(("n1", "n2"))]
    h.effect(strangers[0], at=5)
    h.effect(strangers[1], at=6, base=0)
    h.granted("n3", call=0, applied=1, returned=2, owner="")
    assert h.verdict("S4")["witness"]["kind"] == "lost update"


def test_a_blind_write_loses_no_update():
    """S4: a write that says nothing of the state it is based on cannot contradict it."""
    h = History()
    for turn, node in enumerate(("n1", "n2")):
        held = h.granted(node, call=turn * 20, applied=turn * 20 + 1, returned=turn * 20 + 2, token=turn)
        common = {"op": Op.WRITE, "request": held.request, "owner": held.owner, "token": turn}
        h.event(Kind.EFFECT, turn * 20 + 3, node, outcome=Outcome.APPLIED, if_version="", version=f"s{turn}", **common)
        h.released(held, call=turn * 20 + 4, applied=turn * 20 + 5)
    assert h.verdict("S4")["verdict"] == "held"


def test_each_operation_is_a_resource_of_its_own():
    """S4: a list and a counter under one lock have states of their own."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.effect(a, at=3, op=Op.APPEND)
    h.effect(a, at=4, op=Op.APPEND)
    h.released(a, call=5, applied=6)
    b = h.granted("n2", call=7, applied=8, returned=9, token=2)
    h.effect(b, at=10, op=Op.INCREMENT)
    assert h.verdict("S4")["verdict"] == "held"


def test_the_first_violation_in_time_is_the_witness():
    """The table shows what happened first, whatever order a clause found it in; undecided outranks not applicable."""
    nobody = np.zeros(2, dtype=np.bool_)
    found = Violations(
        clause="S1", run=np.array([1, 1]), at_ns=np.array([9, 5]), witness=lambda index: {"index": index}
    )
    everywhere = [(~nobody, "excused")]
    rulings = [
        Ruling(found),
        Ruling(replace(found, run=nobody[:0].astype(int), at_ns=nobody[:0].astype(int)), everywhere, everywhere),
    ]
    rows = verdict_table(np.array([0, 1]), rulings).to_pylist()
    assert [row["verdict"] for row in rows] == ["held", "inconclusive", "violated", "inconclusive"]
    assert (rows[2]["count"], rows[2]["at_ns"], rows[2]["witness"]) == (2, 5, '{"index":1}')
