"""No lock is accused of the time in which its machine did not run it (L1 to L6); a slow lock on a calm machine is."""

from __future__ import annotations

import pytest

from lockref.words import Op, Outcome
from reports.checks import judge
from scenarios.worlds.host_watch import NAP_NS, HostWatch
from tests.histories import History, summarised, tables, verdict

S = 1_000_000_000
TIMING = {
    "validity_ns": 30 * S,
    "poll_interval_ns": 2 * S,
    "request_timeout_ns": 5 * S,
    "wait_timeout_ns": 20 * S,
    "drift_bound_ns": 0,
    "faults_end_ns": 0,
}
"""A call within 20 + 5 + 1 s of slack; a hand-over within 2 + 2 · 5 + 1 s."""


def real(**run):
    return History(run={**TIMING, **run}, is_simulated=False)


def denied_after(history, took_s, *, request_s=1.0):
    """A call that takes so long; its last request takes that much of it."""
    call = history.call("n1", Op.ACQUIRE, 0)
    history.write("n1", Op.ACQUIRE, sent=int((took_s - request_s) * S), replied=int(took_s * S),
                  owner="n1", outcome=Outcome.PRECONDITION_FAILED)  # fmt: skip
    history.returns("n1", Op.ACQUIRE, int(took_s * S), call, Outcome.PRECONDITION_FAILED)
    return history


def l5(history):
    return verdict(judge(*tables(history)), "L5")


@pytest.mark.parametrize(
    ("late_s", "took_s", "expected"),
    [(None, 26.5, "violated"), (0, 26.5, "violated"), (0.05, 26.05, "violated"), (2.0, 29.9, "inconclusive"),
     (2.0, 30.5, "violated"), (2.0, 25.9, "held")],
)  # fmt: skip
def test_a_late_call_on_a_late_machine(late_s, took_s, expected):
    """L5: w and q are one span each, so a machine that is 2 s late explains 4 s; a calm one explains nothing."""
    found = l5(denied_after(real(host_late_ns=None if late_s is None else int(late_s * S)), took_s))
    assert found["verdict"] == expected


def test_the_verdict_says_how_late_the_machine_was():
    """A reader learns why a clause could not be decided."""
    found = l5(denied_after(real(host_late_ns=2 * S), 29))
    assert "this machine woke its threads up to 2.0 s late" in found["witness"]["reason"]


def test_a_request_that_outlived_its_own_timeout_measures_the_machine():
    """The client ends a request at its timeout (5 s): one of 7.1 s was not run for 2.1 s. One of 5 s says nothing."""
    assert l5(denied_after(real(), 29, request_s=7.1))["verdict"] == "inconclusive"
    assert l5(denied_after(real(), 29, request_s=5))["verdict"] == "violated"


@pytest.mark.parametrize("lengths_s", [(7.1, 6), (6, 7.1)])
def test_the_longest_of_such_requests_counts(lengths_s):
    """L5: 2.1 s explain 9 s of a call that may take 26; the other request, of 1 s too much, would explain 2."""
    history = denied_after(real(), 29)
    for place, length_s in enumerate(lengths_s):
        begin_ns = (1 + 9 * place) * S
        history.write("n2", Op.ACQUIRE, sent=begin_ns, replied=begin_ns + int(length_s * S), owner="n2",
                      outcome=Outcome.PRECONDITION_FAILED)  # fmt: skip
    assert l5(history)["verdict"] == "inconclusive"


@pytest.mark.parametrize("op", [Op.ACQUIRE, Op.RENEW, Op.RELEASE, Op.READ, Op.DELETE, Op.WRITE])
def test_every_request_to_the_store_measures_the_machine(op):
    """The lock's fence writes an object beside its record: the client ends that request, too."""
    history = denied_after(real(), 29)
    history.write("n2", op, sent=S, replied=int(8.1 * S), owner="n2", outcome=Outcome.PRECONDITION_FAILED)
    assert l5(history)["verdict"] == "inconclusive"


def test_a_request_of_a_stopped_process_does_not_measure_the_machine():
    """What the plan did to one process excuses no other one."""
    history = denied_after(real(), 29)
    history.fault("n2", 3 * S, "pause", "begin")
    history.fault("n2", 9 * S, "pause", "end")
    history.write("n2", Op.ACQUIRE, sent=2 * S, replied=10 * S, owner="n2", outcome=Outcome.PRECONDITION_FAILED)
    assert l5(history)["verdict"] == "violated"


def test_a_simulated_run_has_no_machine():
    """Virtual time is exact, whatever a runs table says."""
    history = denied_after(History(run={**TIMING, "host_late_ns": 9 * S}), 29)
    assert l5(history)["verdict"] == "violated"


def test_a_wait_of_many_spans_is_explained_by_each_of_them():
    """L3: after a release a waiter has p and two q; a machine 2 s late explains 6 s more, and not 7."""

    def released_then_nobody(waited_s):
        history = real(host_late_ns=2 * S)
        held = history.granted("n1", call=0, sent=1, applied=2, returned=3, token=1, valid_for=30 * S)
        history.released(held, call=S, applied=S, returned=S)
        call = history.call("n2", Op.ACQUIRE, S)
        history.returns("n2", Op.ACQUIRE, int((1 + waited_s) * S), call, Outcome.PRECONDITION_FAILED)
        history.run["end_ns"] = int((1 + waited_s) * S)
        return verdict(judge(*tables(history)), "L3")["verdict"]

    assert [released_then_nobody(waited) for waited in (12.5, 18.5, 19.5)] == ["held", "inconclusive", "violated"]


class ScriptedRuntime:
    """A clock that a test sets; each wait takes what the script says, then the event is set."""

    def __init__(self, naps_ns):
        self.now_ns, self.naps_ns = 0, list(naps_ns)

    def monotonic_ns(self):
        return self.now_ns

    def event(self):
        return self

    def wait(self, timeout_ns):
        if not self.naps_ns:
            return True
        self.now_ns += self.naps_ns.pop(0)
        return False

    def set(self):
        self.naps_ns.clear()

    def spawn(self, work, *, name):
        work()


def test_the_watch_notes_the_worst_of_its_naps():
    """By how much the longest sleep was longer than asked."""
    with HostWatch(ScriptedRuntime([NAP_NS, NAP_NS + 7, NAP_NS + 2_000, NAP_NS + 3])) as watch:
        pass
    assert watch.late_ns == 2_000


def test_the_watch_notes_a_nap_that_the_end_of_the_run_cut():
    """A starved thread never wakes up to note its longest nap; whoever ends the watch notes it."""

    class Starved(ScriptedRuntime):
        def spawn(self, work, *, name):
            """The thread begins its nap, and is not run again."""
            self.wait = lambda _timeout_ns: True
            work()

    runtime = Starved([])
    with HostWatch(runtime) as watch:
        runtime.now_ns += NAP_NS + 5_000
    assert watch.late_ns == 5_000


# Two clocks were read one after the other, and the machine stopped the thread between the two: the wall clock of one
# stamp is ahead of the others by that much, and the validity seems to end earlier by that much.


def held_beyond(over_s, *, torn_s, late_s):
    """n1's grant of 30 s, whose stamp was torn; its guard says yes until so long after the end that the stamp shows."""
    history = real(host_late_ns=int(late_s * S))
    shown_ns = int((30 - torn_s) * S)
    held = history.granted("n1", call=0, sent=1, applied=2, returned=3, token=1, valid_for=shown_ns)
    history.believes(held, 4, int((30 - torn_s + over_s) * S))
    history.run["end_ns"] = 40 * S
    return verdict(judge(*tables(history)), "L4")["verdict"]


@pytest.mark.parametrize(
    ("over_s", "torn_s", "late_s", "expected"),
    [(1.9, 2, 2, "inconclusive"), (1.9, 2, 0, "violated"), (2.5, 2, 2, "violated"), (-1, 2, 2, "held")],
)
def test_a_guard_is_not_late_by_a_torn_stamp(over_s, torn_s, late_s, expected):
    """L4: the end of a validity may lie later than its stamp shows, by as much as the machine was late."""
    assert held_beyond(over_s, torn_s=torn_s, late_s=late_s) == expected


@pytest.mark.parametrize(
    ("early_s", "late_s", "expected"), [(1.9, 2, "inconclusive"), (1.9, 0, "violated"), (5, 2, "violated")]
)
def test_a_takeover_is_not_early_by_less_than_the_machine_was_late(early_s, late_s, expected):
    """S5: true time alone accuses here. The wall clock of the rival is far ahead, so it did not know."""
    history = real(host_late_ns=int(late_s * S))
    history.wall_ahead = {"n2": 40 * S}
    history.granted("n1", call=0, sent=1, applied=2, returned=3, token=1, valid_for=30 * S)
    at = int((30 - early_s) * S)
    history.granted("n2", call=at - 9, sent=at - 2, applied=at - 1, returned=at, token=2, valid_for=30 * S)
    found = verdict(judge(*tables(history)), "S5")
    assert found["verdict"] == expected
    if expected == "violated" and late_s:
        assert found["witness"]["beyond_promise"][0]["promised_ns"] == 0, "what was promised is not longer"


def test_a_bound_that_nobody_gave_is_longer_by_the_lateness_too():
    """S5: without a clock bound in the runs table it is 0, and the machine was late all the same."""
    history = real(host_late_ns=2 * S, drift_bound_ns=None)
    history.wall_ahead = {"n2": 40 * S}
    history.granted("n1", call=0, sent=1, applied=2, returned=3, token=1, valid_for=30 * S)
    at = 28 * S + 1
    history.granted("n2", call=at - 9, sent=at - 2, applied=at - 1, returned=at, token=2, valid_for=30 * S)
    assert verdict(judge(*tables(history)), "S5")["verdict"] == "inconclusive"


@pytest.mark.parametrize(
    ("early_s", "late_s", "expected"), [(1.9, 2, "inconclusive"), (1.9, 0, "violated"), (5, 2, "violated")]
)
def test_a_release_by_a_waiter_is_not_early_by_less_than_the_machine_was_late(early_s, late_s, expected):
    """S6: outside an acquire, on condition, by a client whose wall clock is far ahead."""
    history = real(host_late_ns=int(late_s * S))
    history.wall_ahead = {"n2": 40 * S}
    history.granted("n1", call=0, sent=1, applied=2, returned=3, token=1, valid_for=30 * S)
    at = int((30 - early_s) * S)
    history.write("n2", Op.RELEASE, sent=at - 2, replied=at, owner="owner-n2", token=2)
    assert verdict(judge(*tables(history)), "S6")["verdict"] == expected


@pytest.mark.parametrize(
    ("over_s", "late_s", "expected"), [(1.9, 2, "inconclusive"), (1.9, 0, "violated"), (2.1, 2, "violated")]
)
def test_a_yes_that_a_torn_stamp_makes_late_excuses_the_write_after_it(over_s, late_s, expected):
    """S4, no tokens: a write that the guard allowed in time is counted; in time is what the machine lets it be."""
    history = real(host_late_ns=int(late_s * S))
    first = history.granted("n1", call=0, sent=1, applied=2, returned=3, valid_for=30 * S)
    history.believes(first, 4, int((30 + over_s) * S))
    second = history.granted("n2", call=30 * S, sent=32 * S, applied=32 * S + 1, returned=32 * S + 2, valid_for=30 * S)
    history.believes(second, 32 * S + 3, 40 * S)
    history.effect(second, at=33 * S)
    history.effect(first, at=34 * S, attempt=1)
    assert verdict(judge(*tables(history)), "S4")["verdict"] == expected


@pytest.mark.parametrize(
    ("waited_s", "late_s", "expected"),
    [(44, 0, "held"), (56, 2, "inconclusive"), (56, 0, "violated"), (58, 2, "violated")],
)
def test_the_validity_of_a_record_without_a_stamp_is_longer_too(waited_s, late_s, expected):
    """L1: V, p, two q and two β are one span each, so a machine that is 2 s late explains 12 s."""
    history = real(host_late_ns=late_s * S)
    history.granted("n1", call=0, sent=1, applied=2, returned=3, token=1, valid_for=None)
    history.fault("n1", S, "crash", "begin")
    call = history.call("n2", Op.ACQUIRE, S)
    history.returns("n2", Op.ACQUIRE, waited_s * S, call, Outcome.AMBIGUOUS)
    history.run["end_ns"] = waited_s * S
    assert verdict(judge(*tables(history)), "L1")["verdict"] == expected


def test_clocks_of_a_late_machine_are_not_said_to_be_apart():
    """A stamp that was torn by 2 s tells of no clock that is 2 s ahead; one of 3 s does."""

    def told(ahead_s):
        history = denied_after(real(host_late_ns=2 * S), 60)
        history.wall_ahead = {"n1": 0, "n2": int(ahead_s * S)}
        history.fails("n2", call=5, returned=9)
        found = l5(history)
        assert found["verdict"] == "violated"
        return "beyond_promise" in found["witness"]

    assert (told(1.9), told(3)) == (False, True)


# Figures and limits.


def test_figures_of_a_late_machine_are_told_as_such():
    """The terminal, JSON and JUnit show the notices; a machine in time has none of it."""

    def notices(late_s):
        history = real(host_late_ns=int(late_s * S))
        held = history.granted("n1", call=0, sent=1, applied=2, returned=3, token=1, valid_for=30 * S)
        history.released(held, call=S, applied=S, returned=S)
        return [text for text in summarised(history).notices if "woke its threads" in text]

    assert notices(0.05) == []
    assert notices(2) == [
        "this machine woke its threads up to 2.0 s late: "
        "waits, hand-offs, droughts, gaps and rates are also the machine's"
    ]


def limit_verdicts(history, texts):
    """What becomes of limits that the history's run demands."""
    history.run["thresholds"] = texts
    return [kept.verdict for _, kept in summarised(history).thresholds]


def limits(texts, late_s):
    """A wait of 10 s behind one other client, a hand-off of 4 s after its release, a hold of 6 s."""
    history = real(host_late_ns=int(late_s * S))
    first = history.granted("n1", call=0, sent=1, applied=2, returned=3, token=1, valid_for=30 * S)
    asked = 4
    history.released(first, call=6 * S, applied=6 * S, returned=6 * S)
    history.granted("n2", call=asked, sent=10 * S - 2, applied=10 * S - 1, returned=10 * S, token=2, valid_for=30 * S)
    return limit_verdicts(history, texts)


@pytest.mark.parametrize(
    ("text", "in_time", "late"),
    [
        ("handoff.max < 5s", "held", "held"),
        ("handoff.max < 2s", "violated", "inconclusive"),
        ("handoff.max < 500ms", "violated", "violated"),
        ("hold.max < 5500ms", "violated", "inconclusive"),
        ("hold.max < 4s", "violated", "violated"),
        ("wait.max < 8s", "violated", "inconclusive"),
        ("wait.max < 5s", "violated", "violated"),
    ],
)
def test_limits_of_a_user_on_a_late_machine(text, in_time, late):
    """One second late: three spans in a hand-off, one in a hold, three in a wait in which nobody else was granted."""
    assert (limits([text], 0), limits([text], 1)) == ([in_time], [late])


def test_each_turn_before_a_wait_is_over_may_be_longer():
    """Two clients were granted the lock during the wait of the third: eight spans more than its own three."""
    history = real(host_late_ns=S)
    waited = history.call("n3", Op.ACQUIRE, 0)
    for number, node in ((1, "n1"), (2, "n2")):
        begin = number * 10 * S
        held = history.granted(node, call=begin, sent=begin + 1, applied=begin + 2, returned=begin + 3, token=number,
                               valid_for=30 * S)  # fmt: skip
        history.released(held, call=begin + S, applied=begin + S, returned=begin + S)
    made = history.write("n3", Op.ACQUIRE, sent=39 * S, applied=39 * S, replied=40 * S, owner="o3", token=3,
                         valid_until=70 * S)  # fmt: skip
    history.returns("n3", Op.ACQUIRE, 40 * S, waited, Outcome.APPLIED, owner="o3", token=3, version=made)
    texts = ["wait.max < 30s", "wait.max < 28s"]
    assert limit_verdicts(history, texts) == ["inconclusive", "violated"]


def test_a_drought_on_a_late_machine_may_be_longer_by_each_call_and_each_turn_in_it():
    """n3 asks from 5 s to 45 s in two calls, while n2 was served: 14 spans. What n1 was granted before is none."""
    history = real(host_late_ns=S, think_ns=2 * S)
    for number, begin, node in ((1, 1, "n1"), (2, 20, "n2")):
        held = history.granted(node, call=begin * S, sent=begin * S + 1, applied=begin * S + 2,
                               returned=begin * S + 3, token=number, valid_for=30 * S)  # fmt: skip
        history.released(held, call=(begin + 1) * S, applied=(begin + 1) * S, returned=(begin + 1) * S)
    history.fails("n3", call=5 * S, returned=15 * S)
    history.granted("n3", call=16 * S, sent=44 * S, applied=44 * S, returned=45 * S, token=3, valid_for=30 * S)
    assert limit_verdicts(history, ["drought.max < 27s", "drought.max < 25s"]) == ["inconclusive", "violated"]
