"""What a status says of silence, of locks with several owners, and of a view that lags."""

from __future__ import annotations

from dataclasses import replace

from lockref.helix.operations.status import (
    InstanceStatus,
    LastReport,
    LockStatus,
    ResourceStatus,
    WaitingMessage,
    silence_of,
)
from lockref.runtime import NS_PER_S

LIMIT_NS = 60 * NS_PER_S
OLD = WaitingMessage(
    id="m1", kind="STATE_TRANSITION", resource="g", lock="g_1", source="R", target="L", state="new",
    age_ns=73 * NS_PER_S, created_zxid=10,
)  # fmt: skip


def test_a_message_that_waits_for_long_makes_a_zombie():
    """The instance has reported nothing since the message was sent."""
    silence = silence_of(
        [OLD, replace(OLD, id="m2", created_zxid=11)],
        reported=LastReport(zxid=9, ago_ns=74 * NS_PER_S),
        limit_ns=LIMIT_NS,
    )
    assert silence is not None
    assert silence.is_zombie
    assert silence.text() == (
        "zombie: lives, and has answered no message for 73 s; the oldest is R-L of g_1 (message m1)"
    )


def test_a_report_after_the_message_makes_it_slow():
    """By transactions of the server. A server that does not say when it was makes nobody a zombie."""
    assert silence_of([OLD], reported=LastReport(zxid=11), limit_ns=LIMIT_NS) == silence_of(
        [OLD], reported=LastReport(zxid=11, ago_ns=LIMIT_NS - 1), limit_ns=LIMIT_NS
    )
    slow = silence_of([OLD], reported=LastReport(zxid=11, ago_ns=LIMIT_NS - 1), limit_ns=LIMIT_NS)
    assert slow is not None
    assert not slow.is_zombie
    assert slow.text() == ("slow: has answered another message since, and R-L of g_1 (message m1) has waited for 73 s")


def test_a_report_that_is_older_than_the_limit_makes_a_zombie_again():
    """It answered one message of a batch, and then its program hung."""
    rest = replace(OLD, id="m2", created_zxid=11)
    silence = silence_of([OLD, rest], reported=LastReport(zxid=12, ago_ns=LIMIT_NS), limit_ns=LIMIT_NS)
    assert silence is not None
    assert silence.is_zombie
    assert silence.text() == (
        "zombie: lives, and has answered no message for 60 s; the oldest is R-L of g_1 (message m1)"
    )


def test_a_message_that_was_read_is_told_as_begun():
    silence = silence_of([replace(OLD, state="read")], reported=LastReport(), limit_ns=LIMIT_NS)
    assert silence is not None
    assert "which it has begun to execute" in silence.text()


def test_what_says_nothing_of_silence():
    """A younger message, one for a session that is over, one without a time, one that is no order."""
    for other in (
        replace(OLD, age_ns=LIMIT_NS - 1),
        replace(OLD, is_stale=True),
        replace(OLD, age_ns=None),
        replace(OLD, kind="NO_OP"),
    ):
        assert silence_of([other], reported=LastReport(), limit_ns=LIMIT_NS) is None


def test_a_view_that_lags_and_a_lock_with_two_owners_are_found():
    same = LockStatus(name="g_0", states={"a": "L", "b": "DROPPED"}, view={"a": "L"}, owners=("a",))
    lags = LockStatus(name="g_1", states={"a": "L"}, view={}, owners=("a",))
    crowd = LockStatus(name="g_2", states={"a": "L", "b": "L"}, view={}, owners=("a", "b"))
    resource = ResourceStatus(
        name="g", mode="USER_DEFINED", rule="mod", model="m", replicas="1", per_lock=1,
        locks=(same, lags, crowd, LockStatus(name="g_3")),
    )  # fmt: skip
    assert [each.is_view_current for each in resource.locks] == [True, False, False, True]
    assert [each.name for each in resource.crowded] == ["g_2"]
    assert resource.unowned == ["g_3"]
    assert replace(resource, per_lock=None).crowded == []


def test_the_notes_of_an_instance():
    """What an operator has set, and what others have left there."""
    instance = InstanceStatus(
        name="a", is_configured=False, reason="upgrade", operation="EVACUATE", disabled_locks={"g": ("g_0", "g_1")},
        messages=(replace(OLD, is_stale=True),),
    )  # fmt: skip
    assert instance.notes() == [
        "is not configured",
        "disabled because: upgrade",
        "Helix' operation EVACUATE: it gets no lock",
        "not for g_0, g_1 of g",
        "1 message for a session that is over",
    ]
    assert replace(instance, session="a1").notes()[0] == "lives, and is not configured"
