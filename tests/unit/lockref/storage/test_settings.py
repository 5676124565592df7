"""H1, H18: how long things take, as configured."""

from __future__ import annotations

import pytest

from lockref.errors import (
    ConfigError,
)
from lockref.provider import LockContext, LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.lock import StorageLock
from lockref.stores.memory import MemoryStore
from tests.hardened_rig import (
    ManualRuntime,
    Rig,
)


def test_request_timeout_is_well_below_the_renew_interval():
    """H18: a third of r, five seconds at most; from_context opens the store with it."""
    asked = []
    rig = Rig()

    def open_store(timeout_ns):
        asked.append(timeout_ns)
        return rig.store

    for renew_s, expected_ns in ((1, NS_PER_S // 3), (30, 5 * NS_PER_S)):
        settings = LockSettings(validity_ns=10 * renew_s * NS_PER_S, renew_interval_ns=renew_s * NS_PER_S)
        lock = StorageLock.from_context(LockContext(runtime=rig.runtime, open_store=open_store, settings=settings))
        assert asked.pop() == lock.terms.request_timeout_ns == expected_ns


def test_context_settings_reach_the_lock(rig):
    """Key, timing, margin and listener of the laboratory; the margin defaults to the drift bound."""
    seen = []
    settings = LockSettings(key="elsewhere", drift_bound_ns=700 * NS_PER_MS, options={"margin_ms": "800", "other": "x"})
    lock = StorageLock.from_context(
        LockContext(runtime=rig.runtime, open_store=lambda _ns: rig.store, settings=settings, listener=seen.append)
    )
    assert lock.try_lock()
    assert MemoryStore.read(rig.store, "elsewhere").body is not None
    assert (lock.terms.margin_ns, lock.terms.buffer_ns) == (800 * NS_PER_MS, 700 * NS_PER_MS)
    assert {event.kind for event in seen} == {"granted", "metric"}


def test_options_of_the_laboratory_reach_the_terms():
    """H1, H18: `request_timeout_ms` bounds store and terms alike; a margin of 0 is a margin, where it is allowed."""
    opened = []
    context = LockContext(
        runtime=ManualRuntime(),
        open_store=lambda timeout_ns: opened.append(timeout_ns) or MemoryStore(),
        settings=LockSettings(options={"request_timeout_ms": "200", "margin_ms": "0"}, unsafe=True),
    )
    terms = StorageLock.from_context(context).terms
    assert opened == [200 * NS_PER_MS] == [terms.request_timeout_ns]
    assert (terms.margin_ns, terms.buffer_ns) == (0, context.settings.drift_bound_ns)


def test_impossible_timing_is_refused():
    """A lease that ends before its first renewal is a mistake in the configuration."""
    rig = Rig()
    with pytest.raises(ConfigError, match="first renewal"):
        rig.another(margin_ns=9 * NS_PER_S)
    with pytest.raises(ConfigError, match="positive"):
        rig.another(request_timeout_ns=-1)
