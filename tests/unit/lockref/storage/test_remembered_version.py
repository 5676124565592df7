"""The version that the lock's own release made: the next acquire writes on it without a read; what if it is gone."""

from __future__ import annotations

import pytest

from lockref.errors import (
    OutcomeUnknown,
)
from lockref.runtime import NS_PER_S
from tests.hardened_rig import (
    REQUEST_TIMEOUT_NS,
    conflict,
    error_503,
    late_reply,
    ok,
)


def test_warm_cycle_costs_two_requests(rig):
    """The version that our own release made is the next precondition: one write in, one write out."""
    with rig.lock:
        pass
    rig.store.log.clear()
    with rig.lock:
        pass
    assert rig.store.log == ["replace", "release"]


def test_stale_memory_falls_back_to_reading(rig):
    """A remembered version that was overtaken costs a 412 and a look, and the next cycle reads first."""
    with rig.lock:
        pass
    other = rig.another()
    with other:
        pass
    rig.store.log.clear()
    with rig.lock:
        pass
    assert rig.store.log == ["replace", "read", "replace", "release"]
    with other:
        pass
    rig.store.log.clear()
    # The other client came back at once and means to do so again; by now it should have.
    rig.runtime.advance(NS_PER_S)
    with rig.lock:
        pass
    assert rig.store.log == ["read", "replace", "release"]


def test_undisturbed_memory_is_trusted_again(rig):
    """Once looks find our release undisturbed and nobody else, warm cycles cost two requests again."""
    test_stale_memory_falls_back_to_reading(rig)
    for _ in range(2):
        with rig.lock:
            pass
    rig.store.log.clear()
    with rig.lock:
        pass
    assert rig.store.log == ["replace", "release"]


def test_a_conflict_after_a_failed_look_is_no_denial(rig):
    """S7: a 412 on a remembered version and a read that failed tell of no grant; a 409 then leaves it unknown."""
    with rig.lock:
        pass
    with rig.another():
        pass
    rig.store.script = [ok, error_503, ok, conflict]
    rig.store.rule_for_all = conflict
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()


def test_a_refused_write_on_a_memory_does_not_say_that_somebody_has_it(rig):
    """S7: another client may have come and died since our release, long before this call."""
    with rig.lock:
        pass
    rig.store.plant(rig.live(for_ms=1_000))
    rig.runtime.advance(3 * NS_PER_S)
    rig.store.script = [ok, late_reply(REQUEST_TIMEOUT_NS)]
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()


def test_only_the_write_on_a_memory_tells_of_nobody(rig):
    """S7: once it has looked, a client that is refused again has met somebody, whose lease has lapsed since."""
    with rig.lock:
        pass
    with rig.another():
        pass

    def other_is_quicker(name):
        if rig.store.log == ["replace", "read", "replace"]:
            rig.store.plant(rig.live(for_ms=0))
            # No further write is sent: without a token there is none.
            rig.store.fence_rule_for_all = conflict

    rig.store.before = other_is_quicker
    rig.store.script = [ok, ok, late_reply(NS_PER_S), ok]
    rig.store.log.clear()
    assert rig.lock.lock(1.2) is False
