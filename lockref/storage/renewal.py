"""Keeping a grant: one renewal, and what its answer means for the holder.

`heartbeat.py` calls from its own task. A renewal replaces exactly the version
that the grant lives on. Whatever comes back, the deadline stands until our own
write is known to have landed in time; an answer that may be lost, and a
refusal that may be the echo of our own write, are looked up (H5, H8).
"""

from __future__ import annotations

from lockref.errors import LockError, StoreRejected
from lockref.provider import LockEventKind
from lockref.runtime import NS_PER_S, MonoNs
from lockref.storage import lease
from lockref.storage.audit import AuditState
from lockref.storage.entry import Entrance
from lockref.storage.exchange import version_of
from lockref.storage.lease import Attempt, Lease, Sight, Step
from lockref.storage.lockfile import LockFile
from lockref.storage.tenure import Tenure
from lockref.stores.port import WriteReply


class Renewer(Entrance):
    """Extends the present tenure, or finds out that it has ended."""

    def _renew(self, tenure: Tenure) -> MonoNs | None:
        """One renewal, on the heartbeat's task; when to try again, or None if the grant is over."""
        if not tenure.task.is_alive():
            # H13: its work may go on elsewhere, so the lock is not given to anybody before it lapses.
            self._lose(tenure, "the task that locked it has ended without unlocking")
            return None
        attempt = self._new_renewal(tenure.lease)
        with self._mutex:
            # H11: a tick that is late finds another grant, or none, and does nothing.
            if self._tenure is not tenure or not self._is_in_force(tenure):
                return None
            tenure.pending.append(attempt)
        reply = self._renew_write(attempt)
        match self._interpret(reply):
            case Step.DONE:
                return self._extend(tenure, Lease(version_of(reply), attempt))
            case Step.GONE:
                # H15: whoever creates it anew holds it; never recreate it.
                self._supersede(tenure, "the lock object was deleted")
                return None
            case Step.LOOK:
                return self._resolve_renewal(tenure)
            case _:
                return self._retry_renewal_ns(tenure)

    def _new_renewal(self, current: Lease) -> Attempt:
        """The write that extends `current`: validUntil never falls (H19), the fence stays (H21)."""
        sent = self._now()
        wall_estimate_ns = lease.estimate_wall(current.attempt, sent, self.terms)
        record = LockFile(
            self.owner,
            lease.renewed_valid_until_ms(current.attempt, wall_estimate_ns, self.terms),
            expired=False,
            nonce=self._new_nonce(),
            fence=current.attempt.record.fence,
            mark=current.attempt.record.mark,
        )
        return Attempt(
            record=record,
            sent=sent,
            deadline=self._deadline(sent),
            wall_estimate_ns=wall_estimate_ns,
            if_version=current.version,
        )

    def _renew_write(self, attempt: Attempt) -> WriteReply:
        return self._write(attempt.if_version, attempt.record)

    def _resolve_renewal(self, tenure: Tenure) -> MonoNs | None:
        """H5, H8: after a 412 or a lost answer, adopt our own write, or know that it is over."""
        if self._tenure is not tenure:
            # H11: unlocked meanwhile; the release looks for itself.
            return None
        try:
            stored = self._read()
        except LockError as error:
            if not isinstance(error, StoreRejected):
                # Without the error's text, which may quote what was found: reasons are logged.
                self._supersede(tenure, "the lock object was overwritten with something that is no lock record")
                return None
            stored = None
        if stored is None:
            return self._retry_renewal_ns(tenure)
        match lease.sight(stored, expected=tenure.lease.version, attempts=tenure.pending):
            case Sight.OURS:
                own = lease.recognise(stored.record, tenure.pending)
                assert own is not None, "the sight said so"
                assert stored.version is not None, "a record has a version"
                return self._extend(tenure, Lease(stored.version, own))
            case Sight.UNCHANGED:
                # H6: not landed, or the read lags; the same precondition decides.
                return self._retry_renewal_ns(tenure)
            case Sight.OTHER if lease.is_own_past(stored.record, tenure.lease.attempt.record):
                return self._retry_renewal_ns(tenure)
            case Sight.ABSENT:
                self._supersede(tenure, "the lock object was deleted")
                return None
            case _:
                self._supersede(tenure, "somebody else's record has replaced it")
                return None

    def _extend(self, tenure: Tenure, extended: Lease) -> MonoNs | None:
        """A renewal landed. It counts only if the deadline before it had not passed: no revival."""
        with self._mutex:
            if self._tenure is not tenure or not self._is_in_force(tenure):
                return None
            tenure.lease = extended
            tenure.pending.clear()
            tenure.failures = 0
        self._metric("lock.expiration.deadline", extended.deadline.remaining_ns(self._now()) / NS_PER_S)
        self._tell(LockEventKind.RENEWED, self._grant_of(tenure))
        self._note(AuditState.RENEW, tenure, extended.attempt.sent)
        return MonoNs(extended.attempt.sent.mono_ns + self.terms.renew_interval_ns)

    def _retry_renewal_ns(self, tenure: Tenure) -> MonoNs:
        """The deadline stands; try again soon, more slowly each time, but at least once per interval."""
        tenure.failures += 1
        pause_ns = min(self._backoff_ns(tenure.failures), self.terms.renew_interval_ns)
        return MonoNs(self._runtime.monotonic_ns() + pause_ns)

    def _supersede(self, tenure: Tenure, reason: str) -> None:
        """The store shows that the grant has ended."""
        tenure.is_superseded = True
        self._lose(tenure, reason)
