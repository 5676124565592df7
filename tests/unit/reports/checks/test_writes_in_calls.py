"""Writes whose record does not tell alone what they do: tokens that rise, hand-overs, releases by a stamp."""

from __future__ import annotations

from typing import Any

import pytest

from lockref.words import Op, Outcome
from tests.histories import LOCK, Held, History

V = 100
TIMING = {"validity_ns": V, "poll_interval_ns": 10, "request_timeout_ns": 5, "drift_bound_ns": 10, "end_ns": 400}


def history(*, is_simulated: bool = True, ahead: dict[str, int] | None = None, **run: Any) -> History:
    return History(run={**TIMING, **run}, is_simulated=is_simulated, wall_ahead=ahead or {})


def on_the_wire() -> History:
    return history(is_simulated=False, lock_protocols={LOCK: "wire"})


def grants(h: History) -> list[tuple[str, str]]:
    return [(row["node"], row["end_kind"]) for row in h.judged().grants.to_pylist()]


def broken(h: History) -> list[str]:
    return [row["clause"] for row in h.judged().verdicts.to_pylist() if row["verdict"] == "violated"]


def renews(h: History, a: Held, at: int, token: int, *, task: str = "heartbeat") -> None:
    h.write(a.node, Op.ACQUIRE, sent=at, replied=at + 1, owner=a.owner, token=token, valid_until=at + V, task=task)


@pytest.mark.parametrize("is_simulated", [True, False])
def test_a_token_that_rises_with_each_write_is_renewed(is_simulated):
    """One grant from 1 on; the guard's no at 90 has its cause in nothing, and the next token exceeds all before."""
    h = history(is_simulated=is_simulated)
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.believes(a, 2, 3)
    for at in (30, 60):
        renews(h, a, at, 1 + at // 30)
    h.effect(a, at=70)
    h.released(a, call=80, applied=81)
    b = h.granted("n2", call=82, applied=83, returned=84, token=4)
    h.believes(b, 84, 85)
    assert grants(h) == [("n1", "released"), ("n2", "open")]
    assert broken(h) == []


@pytest.mark.parametrize(("token", "expected"), [(2, ["S2"]), (3, ["S2"]), (4, [])])
def test_the_next_token_exceeds_the_last_renewals(token, expected):
    """S2: 1, 2 and 3 were seen already."""
    h = history()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    renews(h, a, 30, 2)
    renews(h, a, 60, 3)
    h.released(a, call=80, applied=81)
    h.granted("n2", call=82, applied=83, returned=84, token=token)
    assert broken(h) == expected


@pytest.mark.parametrize(("shown", "expected"), [(0, ["S4", "S7"]), (2, []), (4, ["S7"])])
def test_any_token_of_the_grant_may_be_shown(shown, expected):
    """S7: a protected write may carry the token of a renewal, and none that the grant never had."""
    h = history()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    renews(h, a, 30, 2)
    renews(h, a, 60, 3)
    h.effect(a, at=69)
    h.effect(Held(a.node, a.task, a.request, a.owner, shown, a.version), at=70)
    assert broken(h) == expected


def test_a_lower_token_over_ones_own_record_is_no_renewal():
    """S2: whoever goes back has asked anew, and was given what had been given."""
    h = history()
    a = h.granted("n1", call=0, applied=1, returned=2, token=3)
    renews(h, a, 30, 2)
    assert len(grants(h)) == 2
    assert "S2" in broken(h)


def test_a_call_under_way_asks_anew():
    """A lock that enters its own record by a call has two grants."""
    h = history()
    h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.granted("n1", call=10, applied=11, returned=12, token=2)
    assert grants(h) == [("n1", "taken_over"), ("n1", "open")]


def test_a_heartbeat_goes_on_while_another_task_asks():
    """Its task calls nothing, and its process has the lock."""
    h = history()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.call("n1", Op.ACQUIRE, 10, task="second")
    renews(h, a, 30, 2)
    assert grants(h) == [("n1", "open")]


def test_a_worker_that_serves_a_call_asks_anew():
    """Its process has given the lock back, whatever became of that: the record of the worker is a grant."""
    h = history()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.released(a, call=5, returned=6)
    h.call("n1", Op.ACQUIRE, 10)
    renews(h, a, 30, 2, task="worker")
    assert grants(h) == [("n1", "taken_over"), ("n1", "open")]


def test_a_client_outside_of_its_calls_serves_no_other():
    """Its own unlock has failed, and it goes on with its grant, while another task of its process waits."""
    h = history()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.released(a, call=5, returned=6, outcome=Outcome.AMBIGUOUS)
    h.call("n1", Op.ACQUIRE, 10, task="second")
    renews(h, a, 30, 2, task="main")
    assert grants(h) == [("n1", "open")]


@pytest.mark.parametrize(("at", "count"), [(100, 1), (101, 2)])
def test_on_the_wire_a_higher_token_renews_what_has_not_run_out(at, count):
    """Nobody sees calls there: what was good until 101 may be renewed until then."""
    h = on_the_wire()
    h.write("n1", Op.ACQUIRE, sent=1, replied=2, owner="a", token=1, valid_until=1 + V)
    h.write("n1", Op.ACQUIRE, sent=at, replied=at + 1, owner="a", token=2, valid_until=at + V)
    assert len(grants(h)) == count


def given(
    h: History, a: Held, *, call: int = 40, sent: int = 41, to: str = "n2", node: str | None = None,
    if_version: str | None = None, replied: int | None = None,
) -> str:  # fmt: skip
    """The holder of `a` makes another the owner, inside its unlock."""
    request = h.call(a.node, Op.RELEASE, call)
    made = h.write(
        a.node if node is None else node, Op.ACQUIRE, sent=sent, replied=replied, owner=f"owner-{to}",
        token=(a.token or 0) + 1, valid_until=sent + V, if_version=if_version,
    )  # fmt: skip
    h.returns(a.node, Op.RELEASE, sent + 9, request, Outcome.APPLIED)
    return made


def waits_and_gets(h: History, node: str, *, call: int, returned: int, token: int, version: str) -> Held:
    request = h.call(node, Op.ACQUIRE, call)
    h.returns(node, Op.ACQUIRE, returned, request, Outcome.APPLIED, owner=f"owner-{node}", token=token, version=version)
    return Held(node, "main", request, f"owner-{node}", token, version)


@pytest.mark.parametrize("is_simulated", [True, False])
def test_a_holder_may_give_the_lock_to_a_waiter(is_simulated):
    """S4 to S7: the waiter has marked the record, and is the owner from the holder's write on, before its answer."""
    h = history(is_simulated=is_simulated)
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.believes(a, 2, 3)
    h.write("n2", Op.ACQUIRE, sent=20, owner=a.owner, token=a.token, valid_until=1 + V)
    made = given(h, a, replied=48)
    b = waits_and_gets(h, "n2", call=10, returned=44, token=2, version=made)
    h.believes(b, 44, 50)
    h.effect(b, at=52)
    h.renewed(b, at=70)
    h.released(b, call=80, applied=81)
    assert grants(h) == [("n1", "handed_over"), ("n2", "released")]
    assert broken(h) == []


def test_a_waiters_mark_promises_nothing_anew():
    """L4: the waiter's clock is 80 ahead; the stamp that it leaves in the record is still the holder's."""
    h = history(ahead={"n2": 80})
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.write("n2", Op.ACQUIRE, sent=20, owner=a.owner, token=a.token, valid_until=1 + V)
    h.believes(a, 2, 60)
    assert broken(h) == []


@pytest.mark.parametrize(("behind", "expected"), [(0, []), (20, ["L4"]), (45, []), (80, [])])
def test_a_givers_clock_is_a_cause_to_let_go(behind, expected):
    """L4: the stamp is good until 141, by the giver's clock for longer. A quarter of V apart is no cause."""
    h = history(ahead={"n1": -behind})
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    made = given(h, a)
    b = waits_and_gets(h, "n2", call=10, returned=44, token=2, version=made)
    h.believes(b, 44, 60, lost=100)
    assert broken(h) == expected


def test_a_lock_may_be_given_on_and_on():
    """The giver need not have taken the lock itself; the one before gave it."""
    h = history()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    made = given(h, a)
    b = waits_and_gets(h, "n2", call=10, returned=44, token=2, version=made)
    made = given(h, b, call=60, sent=61, to="n3")
    waits_and_gets(h, "n3", call=12, returned=64, token=3, version=made)
    assert grants(h) == [("n1", "handed_over"), ("n2", "handed_over"), ("n3", "open")]
    assert broken(h) == []


def test_a_lock_may_be_given_to_whom_nobody_hears_of():
    """The waiter is gone: the grant is nobody's node, and lapses."""
    h = history()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    given(h, a)
    assert grants(h)[0] == ("n1", "handed_over")
    assert broken(h) == []


@pytest.mark.parametrize("is_simulated", [True, False])
def test_a_refused_release_of_a_careless_task_leaves_the_lock_with_its_holder(is_simulated):
    """S2: the holder's renewal counted for the acquire of that task: a grant of its own, under the same token."""
    h = history(is_simulated=is_simulated)
    careless = h.call("n2", Op.RELEASE, 0, task="second")
    h.returns("n2", Op.RELEASE, 1, careless, Outcome.REJECTED, task="second")
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    asking = h.call("n2", Op.ACQUIRE, 9, task="second")
    made = given(h, a)
    b = waits_and_gets(h, "n2", call=10, returned=44, token=2, version=made)
    h.renewed(b, at=70)
    h.returns("n2", Op.ACQUIRE, 75, asking, Outcome.PRECONDITION_FAILED, task="second")
    h.released(b, call=80, applied=81)
    assert grants(h) == [("n1", "handed_over"), ("n2", "released")]
    assert broken(h) == []


@pytest.mark.parametrize("wrong", ["by the waiter", "outside", "another version", "without condition"])
def test_what_is_no_hand_over_is_a_takeover(wrong):
    """S5: only the holder gives its lock away, while it gives it back, on the record that it has."""
    h = history()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.write("n2", Op.ACQUIRE, sent=20, owner=a.owner, token=a.token, valid_until=1 + V)
    if wrong == "outside":
        made = given(h, a, call=45)
    else:
        condition = {"another version": a.version, "without condition": ""}.get(wrong)
        made = given(h, a, node="n2" if wrong == "by the waiter" else None, if_version=condition)
    waits_and_gets(h, "n2", call=10, returned=44, token=2, version=made)
    assert "S5" in broken(h)


@pytest.mark.parametrize(("other", "expected"), [("n2", []), ("n1", ["S5"])])
def test_on_the_wire_the_new_owner_writes_from_elsewhere(other, expected):
    """S5: two owners in one program may rob each other; a lock that is given away goes to another client."""
    h = on_the_wire()
    h.write("n1", Op.ACQUIRE, sent=1, replied=2, owner="a", token=1, valid_until=1 + V)
    h.write("n1", Op.ACQUIRE, sent=20, replied=21, owner="b", token=2, valid_until=20 + V)
    h.write(other, Op.RENEW, sent=50, replied=51, owner="b", token=2, valid_until=50 + V)
    assert broken(h) == expected


@pytest.mark.parametrize("is_simulated", [True, False])
@pytest.mark.parametrize(("stamp", "expected"), [(40, "released"), (41, "open")])
def test_a_stamp_that_has_passed_gives_back(is_simulated, stamp, expected):
    """S7: sent at 40 inside an unlock; a stamp of the next instant is a promise still."""
    h = history(is_simulated=is_simulated)
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    request = h.call("n1", Op.RELEASE, 39)
    h.write("n1", Op.RENEW, sent=40, owner=a.owner, token=a.token, valid_until=stamp)
    h.returns("n1", Op.RELEASE, 42, request, Outcome.APPLIED)
    assert grants(h) == [("n1", expected)]
    assert broken(h) == ([] if expected == "released" else ["S7"])


def test_a_stamp_that_has_passed_outside_of_an_unlock_is_a_renewal():
    """L4: its holder works on without any promise."""
    h = history()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.believes(a, 2, 60)
    h.write("n1", Op.RENEW, sent=40, owner=a.owner, token=a.token, valid_until=39, task="heartbeat")
    assert grants(h) == [("n1", "open")]
    assert "L4" in broken(h)


def test_on_the_wire_any_stamp_that_has_passed_gives_back():
    """Nobody sees calls there, and nothing else has a use for such a stamp."""
    h = on_the_wire()
    h.write("n1", Op.ACQUIRE, sent=1, replied=2, owner="a", token=1, valid_until=1 + V)
    h.write("n1", Op.RENEW, sent=40, replied=41, owner="a", token=1, valid_until=0)
    assert grants(h) == [("n1", "released")]


@pytest.mark.parametrize(("at", "expected"), [(60, ["S5"]), (200, [])])
@pytest.mark.parametrize("is_simulated", [True, False])
def test_under_one_name_and_without_tokens_the_acquire_of_another_node_is_a_grant(is_simulated, at, expected):
    """S5: the record tells neither whose it is nor which grant; the renewal's stamp is good until 130."""
    h = history(is_simulated=is_simulated)
    a = h.granted("n1", call=0, applied=1, returned=2, owner="held")
    h.believes(a, 2, 3)
    h.renewed(a, at=30)
    b = h.granted("n2", call=5, applied=at, returned=at + 1, owner="held")
    h.believes(b, at + 1, at + 2)
    h.renewed(b, at=at + 20)
    h.released(b, call=at + 30, applied=at + 31)
    assert grants(h) == [("n1", "taken_over"), ("n2", "released")]
    assert broken(h) == expected


@pytest.mark.parametrize("wrong", ["a heartbeat", "a name that is not its own"])
def test_one_name_makes_no_grant_of_anothers_renewal(wrong):
    """S6: another node renews the record outside its calls, or in a call that was granted under another name."""
    h = history()
    a = h.granted("n1", call=0, applied=1, returned=2, owner="held")
    task = "heartbeat" if wrong == "a heartbeat" else "main"
    name = "held" if wrong == "a heartbeat" else "n2's own"
    if wrong == "a heartbeat":
        h.write("n2", Op.RENEW, sent=30, owner=a.owner, valid_until=30 + V, task=task)
        h.released(a, call=40, applied=41)
        h.granted("n2", call=50, applied=51, returned=52, owner=name)
    else:
        request = h.call("n2", Op.ACQUIRE, 25)
        h.write("n2", Op.ACQUIRE, sent=30, owner=a.owner, valid_until=30 + V, task=task)
        h.released(a, call=40, applied=41)
        made = h.write("n2", Op.ACQUIRE, sent=50, owner=name, valid_until=50 + V)
        h.returns("n2", Op.ACQUIRE, 52, request, Outcome.APPLIED, owner=name, version=made)
    assert [node for node, _ in grants(h)] == ["n1", "n2"]
    assert broken(h) == ["S6"]


def test_a_note_in_a_record_without_names_is_no_grant():
    """Whoever leaves the stamp as it was promises nothing: n1 still holds, and gives the lock back."""
    h = history()
    a = h.granted("n1", call=0, applied=1, returned=2, owner="held")
    request = h.call("n2", Op.ACQUIRE, 10)
    h.write("n2", Op.ACQUIRE, sent=20, owner="held", valid_until=1 + V)
    h.believes(a, 2, 30)
    h.released(a, call=40, applied=41)
    made = h.write("n2", Op.ACQUIRE, sent=45, owner="held", valid_until=45 + V)
    h.returns("n2", Op.ACQUIRE, 46, request, Outcome.APPLIED, owner="held", version=made)
    assert grants(h) == [("n1", "released"), ("n2", "open")]
    assert broken(h) == []


@pytest.mark.parametrize("op", [Op.DELETE, Op.RELEASE])
@pytest.mark.parametrize(
    ("at", "within", "if_version", "expected"),
    [
        (90, "acquire", None, ["S5"]),
        (112, "acquire", None, []),
        (90, "nothing", None, ["S6"]),
        (90, "acquire", "", ["S6"]),
        (112, "acquire", "", ["S6"]),
    ],
)
def test_whoever_removes_a_record_to_create_its_own_takes_over(op, at, within, if_version, expected):
    """S5: on condition, in an acquire, a removal is the first half of a take-over; else it is a foreign hand (S6)."""
    h = history()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.believes(a, 2, 3)
    call = h.call("n2", Op.ACQUIRE, 5) if within == "acquire" else -1
    h.write("n2", op, sent=at, owner=a.owner, if_version=if_version)
    if within == "acquire":
        made = h.write("n2", Op.ACQUIRE, sent=at + 2, owner="owner-n2", valid_until=at + 2 + V)
        h.returns("n2", Op.ACQUIRE, at + 3, call, Outcome.APPLIED, owner="owner-n2", version=made)
    assert broken(h) == expected
    if expected == ["S5"]:
        (found,) = (h.verdict("S5")["witness"]["text"],)
        assert found == f"n2 removed a grant of n1 {1 + V - at} ns before its validity ended"
