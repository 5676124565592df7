"""What a lock tells its listener, and what it hands to a lock of somebody else's making."""

from __future__ import annotations

import dataclasses

import pytest

from lockref.lab.loading import load_provider
from lockref.provider import Grant, LockContext, LockEvent, LockEventKind, LockSettings, RecordView
from lockref.runtime import ThreadRuntime
from lockref.stores.memory import MemoryStore
from lockref.stores.port import ReadReply, StoreCapabilities, WriteReply
from lockref.words import Outcome


class Listener:
    """Notes the kinds of the events it is told of."""

    hears_metrics = False

    def __init__(self):
        self.kinds = set()

    def __call__(self, event):
        self.kinds.add(event.kind)


@pytest.mark.parametrize("build", ["hudi", "hardened"])
def test_who_hears_no_metrics_is_told_of_the_rest_and_may_begin_to_hear_them(build):
    """A metric that nobody hears is not made; whoever listens later hears from then on."""
    store, listener = MemoryStore(), Listener()
    context = LockContext(
        runtime=ThreadRuntime(), open_store=lambda _timeout_ns: store, settings=LockSettings(), listener=listener
    )
    lock = load_provider(build).factory(context)
    assert lock.lock(1.0)
    lock.unlock()
    assert LockEventKind.GRANTED in listener.kinds
    assert LockEventKind.METRIC not in listener.kinds
    listener.hears_metrics = True
    assert lock.lock(1.0)
    lock.unlock()
    lock.close()
    assert LockEventKind.METRIC in listener.kinds


@pytest.mark.parametrize(
    "value",
    [
        Grant(owner="a"),
        LockSettings(),
        LockContext(runtime=ThreadRuntime(), open_store=lambda _timeout_ns: MemoryStore(), settings=LockSettings()),
        LockEvent(kind=LockEventKind.LOST),
        RecordView(owner="a"),
        WriteReply(outcome=Outcome.CONFLICT),
        ReadReply(outcome=Outcome.APPLIED),
        StoreCapabilities(dialect="s3", versions_repeat=True, conditional_delete=True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_strangers_lock_is_handed_cannot_be_changed(value):
    """A lock that wrote into its reply, its settings or its grant would change what others are told."""
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, None)
