"""The cause of a failure, told from histories by hand: each clause in its own words, within its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from lockref.words import Kind, Op, Outcome
from reports.checks import judge
from reports.checks.spec import CLAUSES
from reports.checks.summary import Summary
from reports.explanation.explain import TOLD_BY, Subject, explain_run
from reports.explanation.explanation import SENTENCE_MAX, Explanation, ToldFault
from reports.explanation.telling import Cause
from tests.histories import History, tables, timed

S = 1_000_000_000
SECONDS: dict[str, Any] = {
    "validity_ns": 10 * S, "poll_interval_ns": S, "request_timeout_ns": S, "wait_timeout_ns": 400 * S,
    "drift_bound_ns": 0, "faults_end_ns": 0, "end_ns": 100 * S,
}  # fmt: skip
PAUSE = ToldFault(
    id="f1", kind="pause", target="n1", text="pause of n1", happened=f"n1 was paused for {12 * S} ns", mattered=1
)


def explained(history: History, clause: str, faults: Sequence[ToldFault] = ()) -> Explanation:
    """What is told of the one run of a history under a clause that it breaks."""
    events, runs = tables(history)
    judgement = judge(events, runs)
    [finding] = [found for found in Summary.of(judgement, events, runs).findings if found.clause == clause]
    subject = Subject(id="LK-AAAAAA", scenario="by hand", provider="by hand", seed=0)
    [run] = runs.to_pylist()
    return explain_run(
        subject, events=events, grants=judgement.grants, run=run, finding=finding, faults=faults
    )  # fmt: skip


def paused_holder(*, looks: bool = False, kind: str = "pause") -> History:
    """n1 is paused from 1 s to 13 s under a lease of 10 s; n2 takes over at 11.5 s; n1 writes at 13 s.

    looks: it reads the record first, when it wakes.
    """
    history = timed(**SECONDS)
    one = history.granted("n1", call=0, applied=S // 2, returned=S // 2 + 1, valid_for=10 * S)
    history.fault("n1", S, kind, "begin")
    other = history.granted("n2", call=11 * S, applied=23 * S // 2, returned=23 * S // 2 + 1, valid_for=10 * S)
    history.effect(other, at=12 * S)
    history.fault("n1", 13 * S, kind, "end")
    if looks:
        history.read("n1", 13 * S + 500, sent=13 * S + 100)
    history.believes(one, S // 2 + 1, 13 * S + (900 if looks else 0))
    history.effect(one, at=13 * S + 1000, attempt=1)
    history.believes(other, 23 * S // 2 + 1, 14 * S)
    return history


def test_every_clause_has_someone_to_tell_it() -> None:
    """A clause without words would be told by none, or by those of another."""
    assert list(TOLD_BY) == list(CLAUSES)


def test_a_paused_holder_that_believes_on() -> None:
    """S3: pause with its amount, lease, take-over, and what the holder said after it woke."""
    told = explained(paused_holder(), "S3", [PAUSE])
    assert told.sentence == (
        "n1 was paused for 12 s under a lease of 10 s; n2 took over at 11.500 s; n1 woke at 13.000 s and still said yes"
    )
    assert "its record was good until 10.500 s" in told.paragraph
    assert "n2 took the lock over at 11.500 s, 1 s after the lease of n1 had ended" in told.paragraph


def misled(*, wall: dict[int, int] | None = None, mono: dict[int, int] | None = None, **kind: Any) -> History:
    """A paused holder whose clocks are off from some instants on."""
    history = paused_holder(**kind)
    history.wall_steps, history.mono_ahead = {"n1": wall or {}}, {"n1": mono or {}}
    return history


def test_a_holder_whose_clock_misled_it_is_not_said_to_have_asked_nothing() -> None:
    """S3: which of its clocks said that its lease was not over, and by how much it was wrong."""
    woke = 13 * S
    slept = explained(misled(mono={woke: -12 * S}, kind="suspend"), "S3", [replace(PAUSE, kind="suspend")]).paragraph
    assert "by the monotonic clock of n1, which had counted 12 s too little, its lease was not over" in slept
    assert "asks its monotonic clock and its wall clock" in slept
    back = explained(misled(wall={2 * S: -20 * S}), "S3", [PAUSE]).paragraph
    assert "by the wall clock of n1, which had counted 20 s too little, its lease was not over" in back
    assert "asks its monotonic clock, too" in back
    slow = explained(misled(wall={woke: -9 * S}, mono={woke: -9 * S}), "S3", [PAUSE]).paragraph
    assert "by both clocks of n1, which had counted 9 s too little, its lease was not over. No lock can see" in slow
    for told in (slept, back, slow):
        assert "did not ask" not in told
        assert "its renewal was refused" not in told
    for history in (misled(), misled(mono={woke: -2 * S}), misled(wall={2 * S: 20 * S})):
        assert "did not ask whether its lease was over" in explained(history, "S3", [PAUSE]).paragraph


def test_a_late_write_after_a_yes_that_a_clock_misled_names_the_clock() -> None:
    """S4 and L4: the same of the guard before a write."""
    for clause in ("S4", "L4"):
        slept = explained(misled(mono={13 * S: -12 * S}), clause, [PAUSE]).paragraph
        assert "by the monotonic clock of n1, which had counted 12 s too little, its lease was not over" in slept, (
            clause
        )
        assert "asks its monotonic clock and its wall clock" in slept, clause
        assert "counted" not in explained(paused_holder(), clause, [PAUSE]).paragraph, clause


def test_a_holder_that_went_on_after_a_refused_renewal() -> None:
    """S3: what could have told a holder whose clock misled it, and what it is to do then."""
    history = misled(mono={13 * S: -12 * S}, looks=True)
    history.write("n1", Op.RENEW, sent=13 * S + 100, outcome=Outcome.PRECONDITION_FAILED)
    told = explained(history, "S3", [PAUSE]).paragraph
    assert "its lease was not over; its renewal was refused at 13.000 s, and it went on" in told
    assert "a renewal that is refused is a reason to look at the record" in told


def test_a_yes_before_the_end_of_the_lease_breaks_no_rule() -> None:
    """S4: the guard said yes in time and the write came late, so that no guard could help."""
    history = timed(**SECONDS)
    one = history.granted("n1", call=0, applied=S // 2, returned=S // 2 + 1, valid_for=10 * S, token=1)
    other = history.granted("n2", call=11 * S, applied=23 * S // 2, returned=23 * S // 2 + 1, valid_for=10 * S, token=2)
    history.believes(one, S // 2 + 1, 10 * S)
    history.effect(other, at=12 * S)
    history.effect(one, at=13 * S, attempt=1)
    history.believes(other, 23 * S // 2 + 1, 14 * S)
    told = explained(history, "S4").paragraph
    assert "says no once its lease is over" not in told
    assert "No guard stops a write that is under way when the lease ends: only a token" in told


def test_a_paused_holder_that_writes_without_looking() -> None:
    """S4: no answer of the store since it woke, so it did not look; the late write is marked."""
    told = explained(paused_holder(), "S4", [PAUSE])
    assert told.sentence.endswith("n1 woke at 13.000 s and wrote without looking")
    [guilty] = [row for row in told.events if row.is_guilty]
    assert (guilty.node, guilty.at_ns) == ("n1", 13 * S + 1000)
    assert [message.lane for message in told.diagram.messages if message.is_guilty] == ["n1"]


def test_a_holder_that_looked_is_not_said_to_be_blind() -> None:
    """S4: an answer of the store between waking and writing is a look."""
    told = explained(paused_holder(looks=True), "S4", [PAUSE])
    assert told.sentence.endswith("n1 woke at 13.000 s and wrote")
    assert "without looking" not in told.paragraph


def test_an_early_takeover_needs_no_fault() -> None:
    """S5: how early, by whose clock, and that nothing had to go wrong for it."""
    history = timed(**SECONDS)
    history.granted("n1", call=0, applied=S, returned=S + 1, valid_for=10 * S)
    history.granted("n2", call=2 * S, applied=3 * S, returned=3 * S + 1, valid_for=10 * S)
    told = explained(history, "S5")
    assert told.sentence == "n2 replaced the record of n1 at 3.000 s, 8 s before its lease ended"
    assert "No fault is needed for what follows." in told.paragraph
    assert "On its own clock, too, the record of n1 was good until 11.000 s." in told.paragraph


def test_a_clock_that_is_ahead_explains_an_early_takeover() -> None:
    """S5: the end of the lease on the clock of the one that took over."""
    history = timed(**SECONDS)
    history.wall_ahead["n2"] = 9 * S
    history.granted("n1", call=0, applied=S, returned=S + 1, valid_for=10 * S)
    history.granted("n2", call=2 * S, applied=3 * S, returned=3 * S + 1, valid_for=10 * S)
    told = explained(history, "S5")
    assert "good until 11.000 s on its own clock, and until 2.000 s on the clock of n2" in told.paragraph
    assert "The clock of n2, 9 s ahead, had shown the end of that record at 2.000 s." in told.paragraph


def test_who_took_over_in_time_by_its_own_clock_is_not_told_to_wait() -> None:
    """S3, S4 and S5: where the holder stamped by a clock that had gone back, that stamp is what was wrong."""
    history = timed(**SECONDS)
    history.wall_steps = {"n1": {2 * S: -6 * S}}
    one = history.granted("n1", call=0, applied=S, returned=S + 1, valid_for=10 * S)
    history.renewed(one, at=3 * S, valid_for=10 * S)
    other = history.granted("n2", call=6 * S, applied=8 * S, returned=8 * S + 1, valid_for=10 * S)
    history.believes(one, S + 1, 12 * S)
    history.effect(other, at=9 * S)
    history.effect(one, at=12 * S, attempt=1)
    history.believes(other, 8 * S + 1, 14 * S)
    for clause in ("S3", "S4", "S5"):
        told = explained(history, clause).paragraph
        blame = "By its own wall clock n2 came late enough: n1 had stamped that record by a wall clock that had gone "
        assert f"{blame}back by 6 s." in told, clause
        assert "orrect lock does not follow a wall clock that was set back" in told, clause
        assert "has passed on its own clock" not in told, clause
        assert "says no once its lease is over" not in told, clause


def test_who_took_over_in_time_by_a_clock_that_is_ahead_is_not_told_to_wait() -> None:
    """S5: clocks that do not agree within the bound are what was wrong; within it the client came too soon."""
    for ahead, is_obeyed in ((9 * S, True), (7 * S, False)):
        history = timed(**{**SECONDS, "drift_bound_ns": S})
        history.wall_ahead["n2"] = ahead
        history.granted("n1", call=0, applied=S, returned=S + 1, valid_for=10 * S)
        history.granted("n2", call=2 * S, applied=3 * S, returned=3 * S + 1, valid_for=10 * S)
        told = explained(history, "S5").paragraph
        assert ("By its own wall clock n2 came late enough. Whoever compares wall clocks" in told) == is_obeyed
        assert ("needs clocks that agree within 1 s" in told) == is_obeyed
        assert ("replaces the record of another only once the time of that record and the" in told) != is_obeyed


def test_who_waited_for_the_whole_time_by_a_clock_that_is_fast_is_not_told_to_wait() -> None:
    """S5 of a lock whose records have no stamp: its waiters count how long a record has stood."""
    for fast, is_obeyed in ((8 * S, True), (7 * S, False)):
        history = timed(**{**SECONDS, "watch_ns": 10 * S})
        history.mono_ahead["n2"] = {2 * S: fast}
        history.granted("n1", call=0, applied=S, returned=S + 1, valid_for=None)
        history.read("n2", S + S // 2, sent=S + S // 2 - 1)
        history.granted("n2", call=2 * S, applied=7 * S // 2, returned=7 * S // 2 + 1, valid_for=None)
        told = explained(history, "S5").paragraph
        assert (
            "By its own monotonic clock n2 had waited for the whole of that time. No lock can see" in told
        ) == is_obeyed
        assert ("only once the time of that record has passed on its own clock" in told) != is_obeyed


def test_a_blind_delete_of_another_grant() -> None:
    """S6: whose record was deleted, and that the write carried no condition."""
    history = timed(**SECONDS)
    one = history.granted("n1", call=0, applied=S, returned=S + 1, valid_for=10 * S)
    history.granted("n2", call=11 * S, applied=12 * S, returned=12 * S + 1, valid_for=10 * S)
    history.write("n1", Op.DELETE, sent=13 * S, owner=one.owner, if_version="")
    told = explained(history, "S6")
    assert told.sentence == "n2 took over at 12.000 s; n1 deleted n2's grant without a condition at 13.000 s"
    assert "the write carried no condition" in told.paragraph


def test_a_store_that_ignores_a_condition_is_blamed() -> None:
    """S1: the store, and not the lock."""
    history = timed(**SECONDS)
    history.granted("n1", call=0, applied=S, returned=S + 1, valid_for=10 * S)
    history.granted("n2", call=2 * S, applied=3 * S, returned=3 * S + 1, if_version="absent", valid_for=10 * S)
    told = explained(history, "S1")
    assert told.sentence == "the store applied a write of n2 at 3.000 s against the condition that it carried"
    assert "This is the store's fault, and no lock is safe on a store that does so." in told.paragraph


def test_what_breaks_after_a_fault_of_the_store_begins_with_that_fault() -> None:
    """S3: both grants stand on one version, which no lock can help."""
    history = timed(**SECONDS)
    first = history.granted("n3", call=0, applied=S, returned=S + 1, valid_for=10 * S)
    history.released(first, call=2 * S, applied=2 * S + 1)
    base = history.version
    one = history.granted("n1", call=3 * S, applied=4 * S, returned=4 * S + 2, valid_for=10 * S)
    two = history.granted("n2", call=3 * S, applied=4 * S + 1, returned=4 * S + 3, if_version=base, valid_for=10 * S)
    history.believes(one, 4 * S + 2, 6 * S)
    history.believes(two, 4 * S + 3, 6 * S)
    assert explained(history, "S3").paragraph.startswith("The store had broken its own promise before at 4.000 s")


def test_a_token_that_comes_again() -> None:
    """S2: who had the token before."""
    history = timed(**SECONDS)
    one = history.granted("n1", call=0, applied=S, returned=S + 1, token=3, valid_for=10 * S)
    history.released(one, call=2 * S, applied=2 * S + 1)
    history.granted("n2", call=3 * S, applied=4 * S, returned=4 * S + 1, token=3, valid_for=10 * S)
    told = explained(history, "S2")
    assert told.sentence == "n1 had token 3 since 1.000 s; n2 was given token 3 at 4.000 s"
    assert "cannot tell the two apart" in told.paragraph


def test_a_token_that_falls() -> None:
    """S2: a resource refuses the later one, which is the wrong one."""
    history = timed(**SECONDS)
    one = history.granted("n1", call=0, applied=S, returned=S + 1, token=3, valid_for=10 * S)
    history.released(one, call=2 * S, applied=2 * S + 1)
    history.granted("n2", call=3 * S, applied=4 * S, returned=4 * S + 1, token=2, valid_for=10 * S)
    told = explained(history, "S2")
    assert told.sentence == "n1 had token 3 since 1.000 s; n2 was given token 2 at 4.000 s"
    assert "which is smaller, so a resource that compares tokens refuses the wrong one" in told.paragraph


def restarted(history: History, node: str, *, down: int, up: int) -> ToldFault:
    """A crash of this node in the history, and what is told of it. down, up: when it ended, and began again."""
    history.fault(node, down, "crash", "begin")
    history.fault(node, up, "crash", "end")
    return ToldFault(
        id="f1", kind="crash", target=node, text=f"crash of {node}", happened=f"{node} crashed", mattered=1
    )  # fmt: skip


def test_two_processes_of_one_node_are_told_apart() -> None:
    """S2: who started again is another client, with a token that its former process has used."""
    history = timed(**SECONDS)
    history.granted("n1", call=0, applied=S, returned=S + 1, token=3, valid_for=10 * S)
    crash = restarted(history, "n1", down=2 * S, up=3 * S)
    history.granted("n1", call=4 * S, applied=5 * S, returned=5 * S + 1, token=3, valid_for=10 * S, owner="another")
    again = explained(history, "S2", [crash])
    assert "the former process of n1 had token 3 since 1.000 s; n1, started again, was given token 3" in again.sentence
    assert (
        "n1, started again, took the lock over at 5.000 s, 6 s before the lease of the former process of n1 ended"
        in (again.paragraph)
    )


def test_one_process_that_took_its_own_record_again_is_one_client() -> None:
    """S5: a crash that came later makes no two of it."""
    history = timed(**SECONDS)
    history.granted("n1", call=0, applied=S, returned=S + 1, valid_for=10 * S)
    history.granted("n1", call=2 * S, applied=3 * S, returned=3 * S + 1, valid_for=10 * S, owner="another")
    crash = restarted(history, "n1", down=4 * S, up=5 * S)
    assert "n1 replaced the record of n1 at 3.000 s" in explained(history, "S5", [crash]).sentence


def test_a_denial_that_left_a_grant_behind() -> None:
    """S7: the caller was denied, and the only record was its own, of a write that got no answer."""
    history = timed(**SECONDS)
    call = history.call("n1", Op.ACQUIRE, 0)
    history.write("n1", Op.ACQUIRE, sent=0, applied=S, owner="owner-n1", valid_until=20 * S, reply=Outcome.AMBIGUOUS)
    history.returns("n1", Op.ACQUIRE, 2 * S, call, Outcome.PRECONDITION_FAILED)
    told = explained(history, "S7")
    assert told.sentence == "n1 was denied the lock at 2.000 s; nobody else held it"
    assert "got no answer, and the store applied it at 1.000 s" in told.paragraph


def test_a_dead_holder_in_the_way() -> None:
    """L2: whose process ended when, how long the waiter waited, and how long it might have."""
    history = timed(**SECONDS)
    history.granted("n1", call=0, applied=S, returned=S + 1, valid_for=None)
    history.fault("n1", 2 * S, "crash", "begin")
    history.fails("n2", call=3 * S, returned=60 * S)
    told = explained(history, "L2")
    assert "the record of n1 stayed after its process had ended at 2.000 s" in told.sentence
    assert "are allowed" in told.sentence
    assert any(row.is_guilty and row.node == "n2" for row in told.events)


def test_a_guard_that_says_yes_too_late() -> None:
    """L4: how long after its lease had ended the guard still said yes."""
    told = explained(paused_holder(), "L4", [PAUSE])
    assert "the guard of n1 still said yes at 13.000 s, 2.5 s after its lease had ended" in told.sentence


def test_clients_without_a_part_are_counted_and_not_drawn() -> None:
    """Twelve clients and two hundred requests stay readable: two have a part, and the rest is said in a line."""
    history = paused_holder()
    for number in range(3, 13):
        for turn in range(20):
            history.read(f"n{number}", (turn + 1) * S // 2 + number, sent=(turn + 1) * S // 2)
        history.fails(f"n{number}", call=number, returned=12 * S)
    told = explained(history, "S4", [PAUSE])
    assert told.lanes == ("n1", "n2", "store", "resource")
    assert len(told.events) < 30
    assert any("n3, n4, n5, n6, n7, n8 and 4 more (200 requests)" in notice for notice in told.diagram.notices)


def test_a_fault_that_changed_nothing_is_no_cause() -> None:
    """A fault of the plan that never mattered is not told as the reason."""
    idle = ToldFault(id="f2", kind="drift", target="n2", text="drift of n2", happened="n2 drifted", mattered=0)
    history = paused_holder()
    history.fault("n2", 1, "drift", "begin", "f2")
    told = explained(history, "S3", [idle, PAUSE])
    assert told.sentence.startswith("n1 was paused")
    assert "drifted" not in told.paragraph


@pytest.mark.parametrize("length", [10, 60, 120, 400])
def test_a_long_cause_loses_whole_parts(length: int) -> None:
    """The sentence never exceeds its bound, and what is most important stays."""
    cause = Cause(parts=((2, "b" * length), (1, "a" * length), (0, "the end")), sentences=())
    assert len(cause.sentence) <= SENTENCE_MAX
    assert cause.sentence.endswith("the end")


def test_names_of_strangers_are_made_harmless() -> None:
    """A node's name may hold anything; it reaches no line end of its own."""
    history = timed(**SECONDS)
    history.granted("n1\n\x1b[31m", call=0, applied=S, returned=S + 1, valid_for=10 * S)
    history.granted("n2", call=2 * S, applied=3 * S, returned=3 * S + 1, valid_for=10 * S)
    told = explained(history, "S5")
    assert "\n" not in told.sentence
    assert "\x1b" not in told.sentence


def test_a_run_that_nobody_timed_is_told_without_bounds() -> None:
    """A history without a row of runs has no lease length, and the sentence claims none."""
    history = paused_holder()
    history.run.clear()
    told = explained(history, "S3", [PAUSE])
    assert "under a lease" not in told.sentence
    assert told.sentence.startswith("n1 was paused for 12 s; n2 took over")


def test_a_belief_that_begins_after_a_pause_belongs_to_the_earlier_grant() -> None:
    """S3: the answer of n1 waits for it through its pause. It says yes last, and its grant is the older one."""
    history = timed(**SECONDS)
    one = history.granted("n1", call=0, applied=S // 2, returned=13 * S, valid_for=10 * S)
    history.fault("n1", S, "pause", "begin")
    other = history.granted("n2", call=11 * S, applied=23 * S // 2, returned=23 * S // 2 + 1, valid_for=10 * S)
    history.fault("n1", 13 * S, "pause", "end")
    history.believes(other, 23 * S // 2 + 1, 14 * S)
    history.believes(one, 13 * S, 13 * S + 5)
    told = explained(history, "S3", [PAUSE])
    assert told.sentence == (
        "n1 was paused for 12 s under a lease of 10 s; n2 took over at 11.500 s; n1 woke at 13.000 s and said yes"
    )


def test_of_two_that_go_on_saying_yes_the_first_wrong_yes_is_marked() -> None:
    """S3: n1 believes from before the grant of n2 until after its end. Its first yes beside n2 is the wrong one."""
    history = timed(**SECONDS)
    one = history.granted("n1", call=0, applied=S // 2, returned=S // 2 + 1, valid_for=10 * S)
    other = history.granted("n2", call=11 * S, applied=23 * S // 2, returned=23 * S // 2 + 1, valid_for=10 * S)
    history.believes(other, 23 * S // 2 + 1, 14 * S)
    history.believes(one, S // 2 + 1, 13 * S)
    history.believes(one, 40 * S, 40 * S)
    told = explained(history, "S3")
    assert told.sentence == "n2 took over at 11.500 s; n1 still said yes at 13.000 s"
    assert (
        "n1 still said yes at 13.000 s, 1.5 s after n2 had begun to, and both went on until 14.000 s" in told.paragraph
    )
    assert [(row.at_ns, row.what) for row in told.events if row.is_guilty] == [
        (13 * S, "its guard says yes to a write")
    ]


def test_a_request_of_the_wire_has_no_calls() -> None:
    """A witness without calls, tenures and guards is told from what it has (S4 on the wire)."""
    history = timed(**SECONDS)
    held = history.granted("n1", call=0, applied=S, returned=S + 1, valid_for=10 * S)
    history.event(
        Kind.EFFECT, 30 * S, "n2", op=Op.APPEND, request=999, attempt=1, owner="x", outcome=Outcome.APPLIED,
        if_version="0", version="1",
    )  # fmt: skip
    history.believes(held, S + 1, 2 * S)
    told = explained(history, "S4")
    assert told.sentence == "n2 wrote at 30.000 s, and no record of its own was ever in force"


def test_a_take_over_is_from_the_holder_just_before() -> None:
    """S3: the lease that had ended is that of n2, and not of n1, who had the lock before n2."""
    history = timed(**SECONDS)
    first = history.granted("n1", call=0, applied=S, returned=S + 1, valid_for=10 * S)
    history.released(first, call=2 * S, applied=2 * S + 1)
    one = history.granted("n2", call=3 * S, applied=4 * S, returned=4 * S + 1, valid_for=10 * S)
    other = history.granted("n3", call=14 * S, applied=15 * S, returned=15 * S + 1, valid_for=10 * S)
    history.believes(one, 4 * S + 1, 16 * S)
    history.believes(other, 15 * S + 1, 17 * S)
    told = explained(history, "S3")
    assert "n3 took the lock over at 15.000 s, 1 s after the lease of n2 had ended" in told.paragraph


def test_the_longest_of_several_pauses_is_the_one_to_blame() -> None:
    """S3: a short one before it, within the lease, did no harm."""
    history = timed(**SECONDS)
    one = history.granted("n1", call=0, applied=S // 2, returned=S // 2 + 1, valid_for=10 * S)
    history.fault("n1", 6 * S // 10, "pause", "begin")
    history.fault("n1", 7 * S // 10, "pause", "end")
    history.fault("n1", S, "pause", "begin")
    other = history.granted("n2", call=11 * S, applied=23 * S // 2, returned=23 * S // 2 + 1, valid_for=10 * S)
    history.fault("n1", 13 * S, "pause", "end")
    history.believes(one, S // 2 + 1, 13 * S)
    history.believes(other, 23 * S // 2 + 1, 14 * S)
    assert "; n1 woke at 13.000 s and still said yes" in explained(history, "S3", [PAUSE]).sentence


def test_a_third_client_that_has_the_lock_meanwhile_did_not_take_it_over() -> None:
    """S3: who took over is told, and the overlap is with the one that has it by then; the late yes is marked."""
    history = timed(**SECONDS)
    one = history.granted("n1", call=0, applied=S // 2, returned=13 * S, valid_for=10 * S)
    history.fault("n1", S, "pause", "begin")
    other = history.granted("n2", call=11 * S, applied=23 * S // 2, returned=23 * S // 2 + 1, valid_for=10 * S)
    history.released(other, call=12 * S, applied=12 * S + 1)
    third = history.granted("n3", call=12 * S, applied=12 * S + 5, returned=12 * S + 6, valid_for=10 * S)
    history.fault("n1", 13 * S, "pause", "end")
    history.believes(third, 12 * S + 6, 14 * S)
    history.believes(one, 13 * S, 13 * S + 5)
    told = explained(history, "S3", [PAUSE])
    assert "; n2 took over at 11.500 s; n1 woke" in told.sentence
    assert "while n3 did, too" in told.paragraph
    assert [row.node for row in told.events if row.is_guilty] == ["n1"]


def test_two_tasks_of_one_process_are_told_apart() -> None:
    """S3: no lease ended and nobody took over; the second task was let in beside the first."""
    history = timed(**SECONDS)
    one = history.granted("n1", call=0, applied=S, returned=S + 1, valid_for=60 * S, task="main")
    history.believes(one, S + 1, 9 * S)
    second = history.call("n1", Op.ACQUIRE, 2 * S, task="second")
    history.returns("n1", Op.ACQUIRE, 3 * S, second, Outcome.APPLIED, task="second", owner=one.owner)
    history.believes(replace(one, task="second", request=second), 3 * S, 5 * S)
    told = explained(history, "S3")
    assert told.sentence == (
        "n1 said yes from 1.000 s on; n1/second, another task of the same process, said yes from 3.000 s on, too"
    )
    assert "lease" not in told.paragraph
