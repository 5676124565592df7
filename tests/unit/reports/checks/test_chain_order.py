"""Chain order in real runs: replies instead of truth, answers that are missing, versions that repeat."""

from __future__ import annotations

import pytest

from lockref.words import Kind, Op, Outcome
from reports.checks import decide, judge
from reports.checks.summary import Summary
from tests.histories import History, tables, verdict


def real() -> History:
    return History(is_simulated=False)


def grants(h: History) -> list[tuple[str, str]]:
    return [(row["node"], row["end_kind"]) for row in h.judged().grants.to_pylist()]


def test_an_unanswered_write_that_a_later_one_replaced_had_landed():
    """S1, A1: n2 replaced a version that only n1's timed-out write can have made."""
    h = real()
    h.released(h.granted("n0", call=0, applied=1, returned=2), call=3, applied=4)
    h.write("n1", Op.ACQUIRE, sent=5, owner="o1", valid_until=9, reply=Outcome.AMBIGUOUS)
    h.granted("n2", call=0, applied=20, returned=21)
    assert h.verdict("S1")["verdict"] == "held"
    assert grants(h) == [("n0", "released"), ("n1", "taken_over"), ("n2", "open")]


def test_an_unanswered_write_that_nobody_built_on_had_not_landed():
    """S1, A1: the version before it was still replaced afterwards."""
    h = real()
    h.released(h.granted("n0", call=0, applied=1, returned=2), call=3, applied=4)
    h.write("n1", Op.ACQUIRE, sent=5, owner="o1", outcome=Outcome.AMBIGUOUS)
    h.granted("n2", call=0, applied=20, returned=21)
    assert grants(h) == [("n0", "released"), ("n2", "open")]


def test_an_unanswered_write_whose_content_was_read_had_landed():
    """A1: nobody wrote afterwards, but somebody read it."""
    h = real()
    h.granted("n0", call=0, applied=1, returned=2)
    made = h.write("n0", Op.RELEASE, sent=5, owner="owner-n0", content="released", reply=Outcome.AMBIGUOUS)
    h.read("n2", 9, version=made, content="released", owner="owner-n0")
    assert grants(h) == [("n0", "released")]


def test_an_unanswered_write_that_nobody_saw_is_left_out():
    """A1: without evidence a write did not happen."""
    h = real()
    h.granted("n0", call=0, applied=1, returned=2)
    h.write("n0", Op.RELEASE, sent=5, owner="owner-n0", content="released", reply=Outcome.AMBIGUOUS)
    assert grants(h) == [("n0", "open")]


def test_a_resend_of_the_same_bytes_explains_the_reading():
    """A2: the first try was lost, the second applied; the content read is the second's."""
    h = real()
    h.granted("n0", call=0, applied=1, returned=2)
    h.write("n0", Op.RELEASE, sent=5, owner="owner-n0", content="released", outcome=Outcome.AMBIGUOUS)
    made = h.write("n0", Op.RELEASE, sent=7, owner="owner-n0", content="released")
    h.read("n2", 9, version=made, content="released", owner="owner-n0")
    judged = h.judged()
    assert len(judged.grants) == 1
    assert h.verdict("S1")["verdict"] == "held"


def test_a_blind_resend_of_the_same_bytes_counts_once():
    """A2: the same without conditions: what was read is one release, not two."""
    h = real()
    h.granted("n0", call=0, applied=1, returned=2)
    h.write("n0", Op.RELEASE, sent=5, owner="owner-n0", content="r", if_version="", outcome=Outcome.AMBIGUOUS)
    made = h.write("n0", Op.RELEASE, sent=7, owner="owner-n0", content="r", if_version="")
    h.read("n2", 9, version=made, content="r", owner="owner-n0")
    reach = {row["situation"]: row["count"] for row in h.judged().reach.to_pylist()}
    assert reach["release"] == 1


def test_an_unanswered_renewal_makes_no_room_for_a_create():
    """S1: only a delete leaves nothing behind; a create over an existing object stays one."""
    h = real()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.write("n1", Op.RENEW, sent=5, owner=a.owner, valid_until=99, outcome=Outcome.AMBIGUOUS)
    h.granted("n2", call=0, applied=6, returned=7, if_version="absent")
    assert h.verdict("S1")["witness"]["kind"] == "create over existing"


def test_an_unanswered_delete_makes_room_for_a_create():
    """A1: the other side: the delete must have landed."""
    h = real()
    h.granted("n1", call=0, applied=1, returned=2)
    h.write("n1", Op.DELETE, sent=5, reply=Outcome.AMBIGUOUS)
    h.granted("n2", call=0, applied=6, returned=7)
    assert h.verdict("S1")["verdict"] == "held"
    assert grants(h) == [("n1", "deleted"), ("n2", "open")]


def test_an_unanswered_delete_explains_no_strangers_version():
    """A1: a delete leaves nothing, so it cannot have made the version that somebody replaced."""
    h = real()
    h.granted("n1", call=0, applied=1, returned=2)
    h.write("n1", Op.DELETE, sent=5, outcome=Outcome.AMBIGUOUS)
    h.granted("n2", call=0, applied=9, returned=10, if_version="somebody-elses")
    assert grants(h) == [("n1", "taken_over"), ("n2", "open")]


def test_a_killed_writer_leaves_a_sending_without_an_answer():
    """A1: a process that died after sending; its write is seen by the one that replaced it."""
    h = real()
    h.released(h.granted("n0", call=0, applied=1, returned=2), call=3, applied=4)
    h.write("n1", Op.ACQUIRE, sent=5, owner="o1", valid_until=9)
    last_sent = max(i for i, e in enumerate(h._events) if e[2]["kind"] is Kind.REPLIED)
    del h._events[last_sent]
    h.granted("n2", call=0, applied=20, returned=21)
    assert grants(h) == [("n0", "released"), ("n1", "taken_over"), ("n2", "open")]


def test_two_unanswered_writes_in_a_row_bridge_the_gap():
    """A1: an acquire and its renewal, both without an answer."""
    h = real()
    h.released(h.granted("n0", call=0, applied=1, returned=2), call=3, applied=4)
    h.write("n1", Op.ACQUIRE, sent=5, owner="o1", valid_until=9, reply=Outcome.AMBIGUOUS)
    made = h.version
    h.read("n1", 6, version=made, content=made, owner="o1")
    h.write("n1", Op.RENEW, sent=7, owner="o1", valid_until=12, reply=Outcome.AMBIGUOUS)
    h.granted("n2", call=0, applied=20, returned=21)
    assert grants(h) == [("n0", "released"), ("n1", "taken_over"), ("n2", "open")]


def test_a_create_sent_before_the_delete_that_made_room_for_it():
    """S1: overlapping writes stand where their conditions say, not where their sending does."""
    h = real()
    h.granted("n1", call=0, applied=1, returned=2)
    create_at, delete_at = 5, 6
    held = h.version
    h.version = ""
    h.write("n2", Op.ACQUIRE, sent=create_at, replied=9, owner="o2", valid_until=99)
    made = h.version
    h.write("n1", Op.DELETE, sent=delete_at, replied=8, if_version=held)
    h.version = made
    assert h.verdict("S1")["verdict"] == "held"
    assert grants(h) == [("n1", "deleted"), ("n2", "open")]


@pytest.mark.parametrize(("first_until", "verdict"), [(9, "held"), (7, "violated")])
def test_of_two_blind_releases_that_overlap_the_earlier_sent_may_land_last(first_until, verdict):
    """S1: the next grant replaced what the first one made, so that one landed last, if it was still under way then."""
    h = real()
    h.granted("n1", call=0, applied=1, returned=2)
    made = h.write("n1", Op.RELEASE, sent=5, replied=first_until, owner="owner-n1", if_version="")
    h.write("n2", Op.RELEASE, sent=8, replied=8, owner="owner-n1", if_version="")
    h.granted("n3", call=9, sent=10, applied=11, returned=12, if_version=made)
    assert h.verdict("S1")["verdict"] == verdict


def test_a_blind_delete_that_was_sent_early_may_land_late():
    """S1: n2 replaced the version that n1 had made, so n1's own blind deletion came after that."""
    h = real()
    h.granted("n1", call=0, applied=1, returned=2)
    held = h.version
    h.write("n1", Op.DELETE, sent=5, replied=20, if_version="")
    h.write("n2", Op.RELEASE, sent=6, replied=7, owner="owner-n1", if_version=held)
    h.granted("n3", call=8, sent=9, applied=10, returned=11, if_version="absent")
    assert h.verdict("S1")["verdict"] == "held"


def test_a_fork_stays_a_fork():
    """S1: no order makes two writes on one version legal."""
    h = real()
    h.released(h.granted("n0", call=0, applied=1, returned=2), call=3, applied=4)
    base = h.version
    h.granted("n1", call=0, applied=5, returned=8)
    h.granted("n2", call=0, applied=6, returned=9, if_version=base)
    assert h.verdict("S1")["witness"]["kind"] == "fork"


@pytest.mark.parametrize(("deleted", "is_accused"), [(14, True), (11, False)])
def test_two_creates_at_once_need_a_delete_between_them(deleted, is_accused):
    """S1: as many deletes as creates are no excuse where none was under way between two of them; one that was, is."""
    h = real()
    h.granted("n1", call=0, applied=1, returned=2)
    h.write("n1", Op.DELETE, sent=3, replied=4)
    h.write("n1", Op.ACQUIRE, sent=10, replied=12, owner="a", if_version="absent")
    h.write("n2", Op.ACQUIRE, sent=10, replied=12, owner="b", if_version="absent")
    h.write("n3", Op.DELETE, sent=deleted, replied=20, if_version="")
    assert (h.verdict("S1")["verdict"] == "violated") == is_accused


def test_a_late_answer_to_the_maker_is_no_second_make():
    """S1: n1's write was under way all the time, and can have made the version once; two replaced it."""
    h = real()
    h.read("n9", 1, sent=0, version="before", content="before")
    h.write("n1", Op.ACQUIRE, sent=2, replied=30, owner="a", if_version="before", content="A", version="etag A")
    h.write("n2", Op.ACQUIRE, sent=5, replied=10, owner="b", if_version="etag A")
    h.write("n3", Op.ACQUIRE, sent=6, replied=12, owner="c", if_version="etag A")
    assert h.verdict("S1")["witness"]["kind"] == "fork"


def test_a_state_that_an_unanswered_write_may_have_made_again_proves_nothing():
    """S1, ABA: n3's lost write holds what n1's held, under the same version, if it landed between the two."""
    h = real()
    h.write("n1", Op.ACQUIRE, sent=0, replied=1, owner="a", content="A", version="etag A")
    h.write("n2", Op.ACQUIRE, sent=10, replied=20, owner="b", if_version="etag A", content="B", version="etag B")
    h.write("n3", Op.ACQUIRE, sent=5, owner="a", if_version="", content="A", version="", reply=Outcome.AMBIGUOUS)
    h.write("n4", Op.ACQUIRE, sent=10, replied=20, owner="c", if_version="etag A", content="C", version="etag C")
    h.write("n5", Op.ACQUIRE, sent=30, replied=31, owner="d", if_version="etag B", content="D", version="etag D")
    assert h.verdict("S1")["verdict"] != "violated"


@pytest.mark.parametrize(("content", "count"), [("A", 1), ("Z", 2)])
def test_what_a_lost_write_holds_is_what_it_can_have_made(content, count):
    """S1: n3's lost write excuses n5's condition, which was gone, only if it can have made that state again."""
    h = real()
    h.write("n1", Op.ACQUIRE, sent=0, replied=1, owner="a", content="A", version="etag A")
    h.write("n3", Op.ACQUIRE, sent=2, replied=40, owner="a", if_version="", content=content, reply=Outcome.AMBIGUOUS)
    h.write("n2", Op.ACQUIRE, sent=3, replied=4, owner="b", if_version="etag A", content="B", version="etag B")
    h.write("n2", Op.ACQUIRE, sent=5, replied=6, owner="b", if_version="etag B", content="B2", version="etag B2")
    h.write("n4", Op.ACQUIRE, sent=10, replied=11, owner="c", if_version="etag B", content="C", version="etag C")
    h.write("n5", Op.ACQUIRE, sent=12, replied=13, owner="d", if_version="etag A", content="D", version="etag D")
    assert h.verdict("S1")["count"] == count


def test_a_version_from_before_the_run_may_come_again():
    """S1, ABA: "old" was read before n1 wrote those bytes; it stood there twice, and so it was replaced twice."""
    h = real()
    h.read("n2", 2, sent=1, version="etag A", content="A")
    h.write("n1", Op.ACQUIRE, sent=3, replied=30, owner="a", if_version="", content="A", version="etag A")
    h.write("n2", Op.ACQUIRE, sent=4, replied=25, owner="b", if_version="etag A", content="B", version="etag B")
    h.write("n3", Op.ACQUIRE, sent=5, replied=40, owner="c", if_version="etag A", content="C", version="etag C")
    assert h.verdict("S1")["verdict"] != "violated"


def test_a_write_that_comes_after_a_blind_one_is_refused():
    """S1: n2's write without a condition was over before n3 asked to replace what had stood there before it."""
    h = real()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.write("n2", Op.ACQUIRE, sent=5, replied=6, owner="b", if_version="")
    h.write("n3", Op.ACQUIRE, sent=8, replied=9, owner="c", if_version=a.version)
    assert h.verdict("S1")["witness"]["kind"] == "condition ignored"


def test_an_unrecorded_writer_leaves_the_matter_open():
    """S1: a version that no recorded write made is a hole in the record, not a fork."""
    h = real()
    h.granted("n1", call=0, applied=1, returned=2)
    h.granted("n2", call=0, applied=9, returned=10, if_version="somebody-elses")
    assert h.verdict("S1")["verdict"] == "inconclusive"


def test_an_undecided_clause_leaves_the_batch_open():
    """Never "held" while a safety clause could not be decided, whoever adds the verdicts up."""
    h = real()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.granted("n2", call=5, applied=9, returned=10, if_version="somebody-elses")
    counted = Summary.of(h.judged(), *h.tables())
    verdicts = decide(counted)
    assert (verdicts.safety, verdicts.reasons) == ("inconclusive", ("S1, S5, S6, S7 could not be decided in 1 run",))


@pytest.mark.parametrize("is_simulated", [True, False])
def test_both_worlds_agree_on_a_repeating_version(is_simulated):
    """S1, ABA: versions that repeat are put in order first and compared second."""
    h = History(is_simulated=is_simulated)
    for at in range(0, 40, 10):
        a = h.granted("n1", call=at, applied=at + 1, returned=at + 2, version="held")
        h.write("n1", Op.RELEASE, sent=at + 3, owner=a.owner, version="free")
    assert h.verdict("S1")["verdict"] == "held"
    assert len(h.judged().grants) == 4


def test_the_first_write_may_replace_what_was_there_before():
    """S1: a bucket need not be empty when a real run begins."""
    h = real()
    h.granted("n1", call=0, applied=1, returned=2, if_version="from-yesterday")
    assert h.verdict("S1")["verdict"] == "held"


def test_a_first_write_whose_reply_was_lost_had_landed():
    """S7, A1: the very first write got no answer, its author read it back, was granted and gave it back."""
    h = real()
    call = h.call("n1", Op.ACQUIRE, 0)
    made = h.write("n1", Op.ACQUIRE, sent=1, owner="o1", valid_until=50, content="mine", reply=Outcome.AMBIGUOUS)
    h.read("n1", 5, version=made, content="mine", owner="o1")
    h.returns("n1", Op.ACQUIRE, 6, call, Outcome.APPLIED, owner="o1", version=made)
    release = h.call("n1", Op.RELEASE, 7)
    h.write("n1", Op.RELEASE, sent=8, owner="o1")
    h.returns("n1", Op.RELEASE, 9, release, Outcome.APPLIED)
    h.granted("n2", call=7, applied=20, returned=21)
    assert {row["clause"] for row in h.judged().verdicts.to_pylist() if row["verdict"] == "violated"} == set()
    assert grants(h) == [("n1", "released"), ("n2", "open")]


def test_unanswered_first_writes_are_followed_back_one_by_one():
    """S5: a create and its renewal without answers, then a new holder on the version that the renewal made."""
    h = real()
    first = h.write("n1", Op.ACQUIRE, sent=1, owner="o1", valid_until=50, reply=Outcome.AMBIGUOUS)
    h.write("n1", Op.RENEW, sent=10, owner="o1", valid_until=60, if_version=first, reply=Outcome.AMBIGUOUS)
    h.granted("n2", call=12, applied=20, returned=21)
    assert grants(h) == [("n1", "taken_over"), ("n2", "open")]
    assert h.verdict("S5")["verdict"] == "violated"


def test_an_unanswered_first_write_explains_no_version_that_held_something_else():
    """S5: the object was there before; what was read under its version is not what the lost create wrote."""
    h = real()
    h.write("n1", Op.ACQUIRE, sent=1, owner="o1", valid_until=50, content="mine", outcome=Outcome.AMBIGUOUS)
    h.read("n2", 5, version="from-yesterday", content="released", owner="o0")
    h.granted("n2", call=4, applied=20, returned=21, if_version="from-yesterday")
    assert grants(h) == [("n2", "open")]
    assert h.verdict("S5")["verdict"] == "held"


def test_many_unanswered_renewals_are_a_chain_where_their_records_were_read():
    """L4, A1: six renewals without an answer, each read back by its author; the seventh replaces the last of them."""
    h = real()
    held = h.granted("n1", call=0, applied=1, returned=2, valid_for=20)
    for at in range(10, 70, 10):
        made = h.write("n1", Op.RENEW, sent=at, owner=held.owner, valid_until=at + 20, reply=Outcome.AMBIGUOUS)
        h.read("n1", at + 5, version=made, owner=held.owner)
    h.renewed(held, at=70, valid_for=20)
    h.believes(held, 2, 85)
    assert grants(h) == [("n1", "open")]
    assert h.verdict("S1")["verdict"] == "held"
    assert h.verdict("L4")["verdict"] == "held"


def test_a_refused_write_whose_content_was_read_had_landed():
    """S7, E17: resent by something in between, applied, then refused because of itself."""
    h = real()
    call = h.call("n1", Op.ACQUIRE, 0)
    made = h.write("n1", Op.ACQUIRE, sent=1, owner="o1", valid_until=50, reply=Outcome.PRECONDITION_FAILED)
    h.read("n1", 5, version=made, owner="o1")
    h.returns("n1", Op.ACQUIRE, 6, call, Outcome.APPLIED, owner="o1", version=made)
    assert h.verdict("S7")["verdict"] == "held"
    assert grants(h) == [("n1", "open")]


def test_an_object_that_was_found_gone_had_been_deleted_by_somebody_unrecorded():
    """S1, S5: a create after a reading that found nothing is no fork and no theft, but a hole in the record."""
    h = real()
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.read("n2", 11, sent=10)
    h.granted("n2", call=9, applied=20, returned=21, if_version="absent")
    assert h.verdict("S1")["verdict"] == "inconclusive"
    assert h.verdict("S5")["verdict"] == "inconclusive"


def test_a_reading_that_began_before_the_create_shows_no_deletion():
    """S1: two clients found nothing, and the store let both create."""
    h = real()
    h.read("n2", 3, sent=0)
    h.granted("n1", call=0, applied=1, returned=2)
    h.granted("n2", call=0, applied=20, returned=21, if_version="absent")
    assert h.verdict("S1")["witness"]["kind"] == "create over existing"


def test_the_instants_of_a_run_are_bounded_by_that_run():
    """S7: in a table of several runs, the clock of another run says nothing about when a write took effect."""
    late, early = real(), real()
    late.write("n1", Op.ACQUIRE, sent=1000, owner="o1", valid_until=1100, outcome=Outcome.AMBIGUOUS)
    late.granted("n2", call=1190, applied=1200, returned=1201)
    early.granted("n1", call=0, applied=1, returned=2)
    judgement = judge(*tables(late, early))
    assert verdict(judgement, "S7")["verdict"] == "held"
    assert [row["begin_hi_ns"] for row in judgement.grants.to_pylist() if row["run"] == 0] == [1201]


def test_a_denial_beside_a_hole_is_nobodys_lie():
    """S7: where somebody unrecorded writes, it may be that one's grant that was in the way: nobody can say."""
    h = real()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.fails("n2", call=50, returned=51)
    assert h.verdict("S7")["verdict"] == "violated"
    h.write("n1", Op.ACQUIRE, sent=60, owner="o1", valid_until=100, if_version="unheard of")
    assert h.verdict("S1")["verdict"] == "inconclusive"
    assert h.verdict("S7")["verdict"] == "inconclusive"
