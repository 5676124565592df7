"""The listeners of a lock: its listener of events, its loss callback, the log, and whatever learns from it.

The algorithm tells of each thing once, here. All that is optional listens:
metrics, the audit, a way to wait that learns, and the remembered version. A
port may begin with an observer that does nothing.

Nobody who listens can harm the lock. A listener, a loss callback or a metrics
sink may raise; the error is logged with its traceback, and the lock goes on.
Only what is no `Exception` passes, such as a Ctrl-C that arrives in the
middle of a callback.

The log is the logger "lockref" of the standard library. It tells of lost
grants, of writes that may have been left behind, and of callbacks that raised.
No handler is installed: the application decides what becomes of the lines.
They hold names, tokens and reasons; never the bytes of a record, never a secret.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from lockref.errors import LockLost
from lockref.locks.values import Moment, Reason, Stored, Take, Wait
from lockref.locks.waiting import Shortcut, Waiting
from lockref.provider import Grant, LockEvent, LockEventKind, LockListener, hears_metrics
from lockref.runtime import NS_PER_S, Runtime, WallNs
from lockref.stores.port import ReadReply, WriteReply
from lockref.words import Outcome

LOG = logging.getLogger("lockref")
LOG.addHandler(logging.NullHandler())

LossCallback = Callable[[LockLost], None]
"""Told once per lost grant, from a heartbeat task, never after its unlock: `error.token` names the grant."""

_T = TypeVar("_T")
_Reply = TypeVar("_Reply", ReadReply, WriteReply)


class AuditState(StrEnum):
    """The kind of event that a record of the audit reports."""

    START = "START"
    RENEW = "RENEW"
    END = "END"


# Python 3.11 takes long to find a member of an enumeration; these are asked for with every grant and every pass.
_KIND_GRANTED = LockEventKind.GRANTED
_KIND_RENEWED = LockEventKind.RENEWED
_KIND_RELEASED = LockEventKind.RELEASED
_REASON_LAPSED = Reason.LAPSED
_STATE_START = AuditState.START
_STATE_RENEW = AuditState.RENEW
_STATE_END = AuditState.END


class Audit(Protocol):
    """A witness that takes the tenures of a lock down, off the lock's path (H25)."""

    def note(self, state: AuditState, *, owner: str, began_ns: WallNs, at_ns: WallNs) -> None:
        """Take down one record and return at once."""
        ...


class Notices:
    """Tells everybody who wants to know about one lock.

    key: names the lock in the log. waiting, shortcut: learn from what happens.
    """

    def __init__(
        self,
        key: str,
        *,
        runtime: Runtime,
        waiting: Waiting,
        shortcut: Shortcut[Any],
        listener: LockListener | None,
        on_loss: LossCallback | None,
        audit: Audit | None = None,
    ) -> None:
        self._key = key
        self._runtime = runtime
        self._waiting = waiting
        self.shortcut = shortcut
        self._audit = audit
        # When the write of the present grant was sent: it names the grant's file of the audit.
        self._began_ns = WallNs(0)
        self._listener = listener
        self._on_loss = on_loss

    def note(self) -> str:
        """The note of our next record for other waiters (`lockref.locks.waiting.Waiting.note`)."""
        return self._waiting.note()

    def tell(self, kind: LockEventKind, grant: Grant, reason: str = "") -> None:
        """A change of the grant."""
        if self._listener is not None:
            self._call("listener", self._listener, LockEvent(kind, "", 1.0, grant, reason))

    def metric(self, name: str, value: float = 1.0) -> None:
        """One of Hudi's metrics, by Hudi's name."""
        if self._listener is not None and hears_metrics(self._listener):
            self._call("listener", self._listener, LockEvent(kind=LockEventKind.METRIC, name=name, value=value))

    def timed(self, request: Callable[..., _Reply], *arguments: object) -> _Reply:
        """Send a request about the lock object, and tell how long it took if anybody hears metrics."""
        # Asked each time, for a listener may change its mind.
        if self._listener is None or not hears_metrics(self._listener):
            return request(*arguments)
        started_ns = self._runtime.monotonic_ns()
        reply = request(*arguments)
        self._asked(reply, self._runtime.monotonic_ns() - started_ns)
        return reply

    def _asked(self, reply: ReadReply | WriteReply, duration_ns: int) -> None:
        """A request about the lock object was answered."""
        self.metric("lock.request.latency", duration_ns / NS_PER_S)
        is_unclear = reply.outcome is Outcome.AMBIGUOUS
        if isinstance(reply, ReadReply):
            is_unclear = reply.outcome not in (Outcome.APPLIED, Outcome.REJECTED)
        elif reply.outcome is Outcome.THROTTLED:
            self.metric("lock.throttled")
        if is_unclear:
            self.metric("lock.state.unknown")

    def granted(self, grant: Grant, sent: Moment) -> None:
        """A call has been granted the lock by a write sent at `sent`. Hudi counts attempts only here, too."""
        self._waiting.won(grant.token, sent.mono_ns)
        self.metric("lock.acquire.attempts")
        self.metric("lock.acquire.success")
        self.tell(_KIND_GRANTED, grant)
        self._began_ns = sent.wall_ns
        self._write_down(_STATE_START, grant.owner, sent)

    def renewed(self, grant: Grant, sent: Moment, remaining_ns: int) -> None:
        """A renewal sent at `sent` counts."""
        self.metric("lock.expiration.deadline", remaining_ns / NS_PER_S)
        self.tell(_KIND_RENEWED, grant)
        self._write_down(_STATE_RENEW, grant.owner, sent)

    def looked(self, stored: Stored[Any]) -> None:
        """An acquiring call has read this."""
        self.shortcut.looked(stored)

    def decided(self, decision: Take | Wait) -> None:
        """An acquiring call has judged what it read: somebody else's lease stands, or has lapsed without a release."""
        if isinstance(decision, Wait):
            self.metric("lock.acquired.others.error")
        elif decision.reason is _REASON_LAPSED:
            self.metric("lock.dangling")

    def write_refused(self) -> None:
        """An acquiring write met another version than the one that it named."""
        self.metric("lock.acquire.precondition.failure")

    def not_granted(self) -> None:
        """An acquiring call has ended without a grant."""
        self.metric("lock.acquire.failure")

    def giving_back(self, held_ns: int) -> None:
        """The outermost unlock begins, so long after its grant."""
        self._waiting.held(held_ns)
        self.metric("lock.acquire.duration", held_ns / NS_PER_S)

    def not_freed(self) -> None:
        """The store did not take the release within its time."""
        self.metric("lock.release.failure")

    def freed(self, owner: str, ended: Moment, left: Stored[Any] | None) -> None:
        """A release that began at `ended` has landed. left: what it left in the store, if that is known."""
        if left is not None:
            self.shortcut.released(left)
        self._waiting.released(self._runtime.monotonic_ns(), ended.mono_ns)
        self.metric("lock.release.success")
        self._write_down(_STATE_END, owner, ended)

    def released(self, grant: Grant) -> None:
        """A grant was given back as it should be."""
        self.tell(_KIND_RELEASED, grant)

    def _write_down(self, state: AuditState, owner: str, at: Moment) -> None:
        """H25: one line of audit; hands over and returns."""
        if self._audit is not None:
            self._audit.note(state, owner=owner, began_ns=self._began_ns, at_ns=at.wall_ns)

    def lost(self, grant: Grant, error: LockLost) -> None:
        """H12: the grant has ended while it was wanted."""
        self.tell(LockEventKind.LOST, grant, error.reason)
        if self._on_loss is not None:
            self._call("loss callback", self._on_loss, error)
        self.found_lost(error)

    def found_lost(self, error: LockLost) -> None:
        """H12: a call of its holder has found that the grant had ended, before anybody noticed."""
        LOG.warning("lock %s: the grant with token %s is lost: %s", self._key, error.token, error.reason)

    def fencing_is_void(self, reason: str) -> None:
        """H21: grants have no token until the fence object can be used again."""
        LOG.warning("lock %s: grants have no fencing token for now: %s", self._key, reason)

    def left_behind(self, count: int) -> None:
        """H6: writes in which nobody believes may stand in the store; they are being undone."""
        LOG.warning("lock %s: %d of our writes may be left in the store and are being undone", self._key, count)

    def undone(self) -> None:
        """H6: what `left_behind` told of is gone."""
        LOG.info("lock %s: nothing of ours is left in the store", self._key)

    def not_undone(self) -> None:
        """H6: the store gave no definite answer until the writes had lapsed by themselves."""
        LOG.warning("lock %s: what was left behind could not be undone; it has lapsed by now", self._key)

    def cleanup_failed(self, error: Exception) -> None:
        """H6: an attempt to undo has raised; it is repeated."""
        LOG.warning("lock %s: undoing what was left behind failed: %s; trying again", self._key, type(error).__name__)

    def _call(self, role: str, listen: Callable[[_T], None], news: _T) -> None:
        try:
            listen(news)
        except Exception:
            # A stranger's callback may raise anything, and must not end a lease.
            LOG.exception("lock %s: its %s raised; the lock goes on", self._key, role)
