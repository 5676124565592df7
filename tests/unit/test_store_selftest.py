"""H23: the self-test passes a store that keeps its conditions and names the one that is broken."""

from __future__ import annotations

import pytest

from lockref.errors import BackendUnavailable, CapabilityMissing
from lockref.runtime import NS_PER_MS
from lockref.stores.memory import MemoryStore
from lockref.stores.port import Outcome, ReadReply, WriteReply
from lockref.stores.selftest import ensure_usable


class IgnoresCreateCondition(MemoryStore):
    """M16: every create succeeds."""

    def put_if_absent(self, key, body):
        return self.put(key, body)


class IgnoresStaleVersion(MemoryStore):
    """K6: creates are right, replacements are not."""

    def put_if_version(self, key, body, version):
        return self.put(key, body)


class ChecksBeforeWriting(MemoryStore):
    """M17: the sequential answers are right, but a race has two winners."""

    def put_if_absent(self, key, body):
        if "race" in key:
            return self.put(key, body)
        return super().put_if_absent(key, body)


class KeepsTheLosersBody(MemoryStore):
    """The answer is a refusal, yet the bytes of the refused write are there."""

    def put_if_version(self, key, body, version):
        reply = super().put_if_version(key, body, version)
        if reply.outcome is Outcome.PRECONDITION_FAILED:
            self.put(key, body)
        return reply


class Answers(MemoryStore):
    """Gives one reply to every write."""

    def __init__(self, reply):
        super().__init__()
        self._reply = reply

    def put_if_absent(self, key, body):
        return self._reply


def test_a_sound_store_passes_and_is_left_empty():
    """H23: nothing is raised and nothing of the test remains."""
    store = MemoryStore()
    ensure_usable(store, "table/.hoodie")
    assert store._objects.bodies == {}


@pytest.mark.parametrize(
    ("store", "clause"),
    [
        (IgnoresCreateCondition(), "C1"),
        (IgnoresStaleVersion(), "C4"),
        (ChecksBeforeWriting(), "C2"),
        (KeepsTheLosersBody(), "does not hold"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, MemoryStore) else value,
)
def test_an_ignored_condition_is_a_missing_capability(store, clause):
    """U13: the message names the store and the clause that it breaks."""
    with pytest.raises(CapabilityMissing, match=clause) as caught:
        ensure_usable(store, "p", address="s3://here")
    assert "s3://here" in str(caught.value)


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.AMBIGUOUS, Outcome.THROTTLED, Outcome.CONFLICT])
def test_a_store_that_refuses_or_does_not_answer_is_unavailable(outcome):
    """The message has the address, the wait and the store's reason, on one line."""
    store = Answers(WriteReply(outcome=outcome, reason="why not"))
    with pytest.raises(BackendUnavailable) as caught:
        ensure_usable(store, "p", address="s3://here", patience_ns=2 * NS_PER_MS)
    message = str(caught.value)
    assert all(part in message for part in ("s3://here", "ms in all", "why not"))
    assert "\n" not in message


def test_throttling_is_waited_out():
    """A5: a store that says "slow down" twice is slow, not unusable."""

    class SlowAtFirst(MemoryStore):
        calls = 0

        def put_if_absent(self, key, body):
            self.calls += 1
            if self.calls <= 2:
                return WriteReply(outcome=Outcome.THROTTLED)
            return super().put_if_absent(key, body)

    store = SlowAtFirst()
    ensure_usable(store, "p", racers=0)
    assert store.calls > 2


def test_a_read_that_fails_is_unavailable():
    """Writes that work do not make a store usable if nothing can be read."""

    class WriteOnly(MemoryStore):
        def read(self, key):
            return ReadReply(outcome=Outcome.REJECTED, reason="403")

    with pytest.raises(BackendUnavailable, match="read an object"):
        ensure_usable(WriteOnly(), "p")


class RacesIn(MemoryStore):
    """Does what it should, except in the race."""

    def __init__(self, reply=None, body=None):
        super().__init__()
        self._reply = reply
        self._body = body

    def put_if_absent(self, key, body):
        if "race" not in key:
            return super().put_if_absent(key, body)
        return self._reply or super().put_if_absent(key, self._body)


@pytest.mark.parametrize("outcome", [Outcome.AMBIGUOUS, Outcome.REJECTED])
def test_a_race_that_was_not_answered_proves_nothing(outcome):
    """H23: a store that falls silent or refuses under contention is not passed as sound."""
    with pytest.raises(BackendUnavailable, match="race to create"):
        ensure_usable(RacesIn(reply=WriteReply(outcome=outcome)), "p")


def test_the_winner_of_a_race_finds_its_own_bytes():
    """C2: one success is not enough if another's body is what stays."""
    with pytest.raises(CapabilityMissing, match="after a race"):
        ensure_usable(RacesIn(body=b"somebody else's"), "p")
