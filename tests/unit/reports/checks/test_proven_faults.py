"""What proves that a store applied a write against its condition, write by write: the bounds of both proofs."""

from __future__ import annotations

import itertools

from reports.checks.facts.columns import NO_TEXT
from reports.checks.facts.sources import chain_order
from reports.checks.facts.sources.chain_writes import Write

FIRST, SECOND, STATE = 101, 102, 100
"""Versions: the state that is replaced, and what its two replacers made of it."""

_rows = itertools.count()


def write(sent: int, until: int, *, content: int, condition: int = NO_TEXT, version: int = NO_TEXT) -> Write:
    """A put under way from `sent` to `until`, in nanoseconds."""
    row = next(_rows)
    return Write(
        row=row, sent_row=row, sent_ns=sent, until_ns=until, condition=condition, version=version, content=content,
        is_delete=False,
    )  # fmt: skip


def accused(confirmed: list[Write], unanswered: list[Write], *, seen_ns: int, contents: dict[int, set[int]]) -> int:
    """How many of the confirmed writes are proven to have been applied wrongly."""
    shown_ns = {STATE: 60}
    # By its user's name for it, which a mutant of the class takes over.
    return len(chain_order.ProvenFaults(confirmed, unanswered, contents, shown_ns, seen_ns).rows(confirmed))


def replacers(*, first: int = 1, second: int = 2, at: tuple[int, int] = (50, 52)) -> list[Write]:
    """Two confirmed writes that both replaced `STATE`. first, second: their contents. at: when each was sent."""
    return [
        write(at[0], at[0] + 20, content=first, condition=STATE, version=FIRST),
        write(at[1], at[1] + 20, content=second, condition=STATE, version=SECOND),
    ]


def test_a_content_that_was_sent_once_makes_its_state_once():
    """The maker is under way beside both, so only the count proves that the second one was wrong."""
    maker = write(10, 90, content=7, version=STATE)
    assert accused([maker, *replacers()], [], seen_ns=20, contents={}) == 1


def test_a_state_may_be_older_than_its_maker_where_contents_come_again():
    """What was seen of the lock was seen after the maker left: the same state may have stood there before."""
    maker = write(10, 90, content=7, version=STATE)
    twins = replacers(first=1, second=1)
    assert accused([maker, *twins], [], seen_ns=20, contents={}) == 0


def test_a_state_that_was_not_seen_before_its_maker_left_is_not_older():
    """Another state was read before the maker was sent: so two that replaced its state are one too many."""
    maker = write(10, 90, content=7, version=STATE)
    twins = replacers(first=1, second=1)
    assert accused([maker, *twins], [], seen_ns=5, contents={}) == 1


def test_a_write_without_an_answer_may_land_at_any_time():
    """Its client gave up long ago. It may have made the state again between the two that replaced it."""
    maker = write(10, 30, content=7, version=STATE)
    lost = write(11, 31, content=7)
    assert accused([maker, *replacers(at=(50, 90))], [lost], seen_ns=5, contents={}) == 0


def test_of_equal_contents_nobody_knows_which_one_was_read():
    """Both went unanswered and one was read: the other may land as late as it likes, and make that state again."""
    lost = [write(10, 30, content=7, version=STATE), write(11, 31, content=7, version=STATE)]
    assert accused(replacers(at=(50, 90)), lost, seen_ns=5, contents={STATE: {7}}) == 0


def test_what_was_read_is_over():
    """A single content was read in time: from then on it makes no state again."""
    lost = [write(10, 30, content=7, version=STATE)]
    assert accused(replacers(at=(50, 90)), lost, seen_ns=5, contents={STATE: {7}}) == 1
