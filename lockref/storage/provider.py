"""The hardened RFC-91 lock: one object, conditional writes, and a holder that stops in time.

It contends with unmodified Hudi on one object and reads like RFC-91's
algorithm; every step that Hudi lacks carries the id of its hardening clause
(H1…H24). Three ideas carry the rest:

- *The deadline decides.* A holder believes until L − M after its last write
  left, and no answer of the store prolongs that except a renewal that landed
  in time. `holds()` asks two clocks and nothing else.
- *An answer that may be lost is looked up.* Every write carries a nonce; what
  is found in the store is ours only if it equals what we wrote.
- *Nothing is left behind.* A write that may still land and that nobody will
  believe in is undone in the background, and lapses by itself after one validity.

Public methods are blocking and thread-safe. The steps are small methods so
that a test can break any of them alone. Wire format and its extra fields are
in `lockfile.py`; decisions without I/O are in `lease.py`.

Fencing tokens (H21): Hudi drops our extra fields with each write of its own.
When Hudi wrote last, the next token is above all that *this client* has seen;
tokens rise strictly only among hardened clients without Hudi in between.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Self

from lockref.errors import (
    CorruptRecord,
    LockError,
    LockLost,
    LockNotHeld,
    LockTimeout,
    OutcomeUnknown,
    ReleaseFailed,
    StoreRejected,
)
from lockref.provider import Grant, LockContext, LockEvent, LockEventKind, LockListener
from lockref.runtime import NS_PER_MS, NS_PER_S, Event, MonoNs, Runtime, Task, ThreadRuntime
from lockref.storage import lease, lockfile
from lockref.storage.audit import AuditState, AuditTrail
from lockref.storage.config import StorageLockConfig
from lockref.storage.heartbeat import Heartbeat
from lockref.storage.lease import (
    Attempt,
    Deadline,
    Lease,
    LeaseTerms,
    Moment,
    Sight,
    Step,
    Stored,
    Wait,
)
from lockref.storage.lockfile import LockFile
from lockref.storage.polling import PollPolicy
from lockref.stores.port import ObjectStore, Outcome, Version, WriteReply
from lockref.stores.selftest import ensure_usable

LossCallback = Callable[[LockLost], None]
"""Told once per lost grant, from a heartbeat task, never after its unlock: `error.token` names the grant."""

_ROUNDS_MAX = 4
"""Looks and writes of one pass over the lock before it pauses."""

_LAST_LOOK_NS = 5 * NS_PER_MS
"""A waiter's last look begins this long before its time is up."""

_RELEASE_TRIES_MAX = 6
_BACKOFF_FIRST_NS = 50 * NS_PER_MS
_BACKOFF_NS_MAX = 2 * NS_PER_S

_OPTIONS = ("margin_ms", "request_timeout_ms")

_NOT_OURS = Stored(Version(""), LockFile(None, 0, expired=False))
"""Stands for an object that is no lock record: whoever wrote it, it is not what we wrote."""


class _Ending(Enum):
    """How a release ended."""

    FREED = "freed"
    SUPERSEDED = "superseded"
    UNKNOWN = "unknown"


class _Tenure:
    """One grant, from its write to its unlock. Replaced, never reused: it is its own epoch (H11, H12)."""

    def __init__(self, lock: StorageLock, task: Task, first: Lease, loss: Event, stopped: Event) -> None:
        self._lock = lock
        self.task = task
        self.count = 1
        self.lease = first
        self.granted_at = first.attempt.sent
        # Renewals that were sent and whose fate is open.
        self.pending: list[Attempt] = []
        self.failures = 0
        # Once the guard has said no, it stays no: a latch, set without a lock (S3).
        self.has_lapsed = False
        self.loss_reason: str | None = None
        self.is_superseded = False
        # The caller has been told; before that, a loss is nobody's business.
        self.is_announced = False
        self.loss = loss
        self.stopped = stopped

    @property
    def token(self) -> int | None:
        return self.lease.attempt.record.fence

    def remaining_ns(self) -> int:
        return self._lock._remaining_ns(self)  # noqa: SLF001  # one object in two classes

    def renew(self) -> MonoNs | None:
        return self._lock._renew(self)  # noqa: SLF001

    def lose(self, reason: str) -> None:
        self._lock._lose(self, reason)  # noqa: SLF001


class _Call:
    """One acquiring call: its limit, its writes, and what it has learned."""

    def __init__(self, deadline_ns: int, *, may_wait: bool) -> None:
        self.deadline_ns = deadline_ns
        self.may_wait = may_wait
        # All writes of this call, in order; a look recognises any of them (H5).
        self.attempts: list[Attempt] = []
        # A write of ours stands in the store, or may yet, without being our grant.
        self.is_unresolved = False
        self.has_seen_other = False
        # The last write was made on a version that this call itself had read,
        # and was refused without an earlier write of ours that could be the reason.
        self.is_informed = False
        self.has_lost_race = False
        self.passes = 0
        self.failures = 0
        self.trouble = ""


class StorageLock:
    """A lock in an object store, safe within a declared clock bound, compatible with Hudi's.

    store: where the lock object lives; its own request timeout should be
        `terms.request_timeout_ns`, as `from_context` makes it (H18).
    config: timing and the table's base path, as Hudi's properties give them.
    key: of the lock object; default is `config.location.key`.
    margin_ns: M; default is the drift bound. request_timeout_ns: default r/3, at most 5 s.
    listener: told of every grant, renewal, loss, release and metric.
    on_loss: told when a grant is lost. audit: writes down every tenure, off the lock path (H25).

    Errors of `lock` and `try_lock`: OutcomeUnknown (nothing definite was
    learned), CorruptRecord, StoreRejected, LockLost (this task's previous
    grant ended without its unlock), LockNotHeld (used in a forked child).
    """

    decode_record = staticmethod(lockfile.decode)

    def __init__(
        self,
        store: ObjectStore,
        *,
        config: StorageLockConfig,
        key: str | None = None,
        margin_ns: int | None = None,
        request_timeout_ns: int | None = None,
        runtime: Runtime | None = None,
        listener: LockListener | None = None,
        on_loss: LossCallback | None = None,
        audit: AuditTrail | None = None,
    ) -> None:
        self._runtime: Runtime = runtime or ThreadRuntime()
        self._store = store
        self._key = key or config.location.key
        self.terms = LeaseTerms(
            validity_ns=config.validity_ns,
            renew_interval_ns=config.renew_interval_ns,
            margin_ns=config.drift_bound_ns if margin_ns is None else margin_ns,
            buffer_ns=config.drift_bound_ns,
            request_timeout_ns=request_timeout_ns or LeaseTerms.default_request_timeout_ns(config.renew_interval_ns),
        )
        self._listener = listener
        self._on_loss = on_loss
        self._audit = audit
        self._process_id = self._runtime.process_id()
        # H22: one owner per instance, whatever the process or host.
        self.owner = _uuid_text(self._runtime.token_bytes(16))
        # Guards the fields below for a few instructions; never held during I/O or waiting (H11).
        self._mutex = self._runtime.mutex()
        self._tenure: _Tenure | None = None
        self._user: Task | None = None
        self._idle = self._runtime.event()
        self._closing = self._runtime.event()
        self._last_loss = self._runtime.event()
        self._poll_interval_ns = config.poll_interval_ns
        self._polls = PollPolicy(config.poll_interval_ns, config.validity_ns, self._runtime)
        self._yields_until_ns = 0
        self._fence_seen_max = 0
        # The record that our own last release left, with its version: the next
        # cycle may write at once instead of reading first.
        self._left_behind: Stored | None = None
        self._left_behind_unchecked: Stored | None = None
        self._trusts_left_behind = True
        # Writes of ours that may stand in the store although nobody believes in them.
        self._strays: list[Attempt] = []
        self._cleanup_epoch = 0

    @classmethod
    def from_context(cls, context: LockContext) -> Self:
        """A lock for one process of the laboratory. Options: `margin_ms`, `request_timeout_ms`."""
        settings = context.settings
        config = StorageLockConfig(
            base_path="",
            validity_ns=settings.validity_ns,
            renew_interval_ns=settings.renew_interval_ns,
            poll_interval_ns=settings.poll_interval_ns,
            drift_bound_ns=settings.drift_bound_ns,
        )
        options = {name: int(value) * NS_PER_MS for name, value in settings.options.items() if name in _OPTIONS}
        timeout_ns = options.get("request_timeout_ms") or LeaseTerms.default_request_timeout_ns(
            settings.renew_interval_ns
        )
        return cls(
            context.open_store(timeout_ns),
            config=config,
            key=settings.key,
            margin_ns=options.get("margin_ms"),
            request_timeout_ns=timeout_ns,
            runtime=context.runtime,
            listener=context.listener,
        )

    # ---- what a holder asks: local, without I/O, from any task at any time ----

    def holds(self) -> bool:
        """May the holder still act? Asks the clocks, nothing else; once no, it stays no for this grant (H2)."""
        tenure = self._tenure
        return tenure is not None and self._is_in_force(tenure)

    def remaining_ns(self) -> int:
        """How long the holder may still act unless a renewal lands; 0 if it may not (H2)."""
        tenure = self._tenure
        return 0 if tenure is None else self._remaining_ns(tenure)

    def assert_held(self) -> None:
        """Call before each protected write (H2). Raises LockLost, or LockNotHeld if nothing was locked."""
        tenure = self._tenure
        if tenure is None:
            raise LockNotHeld(f"asserting that {self._key} is held, but this client has not locked it")
        if not self._is_in_force(tenure):
            raise self._loss_error(tenure)

    @property
    def grant(self) -> Grant | None:
        """The grant in force; None when there is none."""
        tenure = self._tenure
        return self._grant_of(tenure) if tenure is not None and self._is_in_force(tenure) else None

    @property
    def fencing_token(self) -> int | None:
        """The number that a protected resource should check (H21); None when nothing is held."""
        grant = self.grant
        return None if grant is None else grant.token

    @property
    def loss(self) -> Event:
        """Set when the latest grant is lost; each grant has an event of its own (H12)."""
        return self._last_loss

    # ---- acquire ----

    def try_lock(self) -> bool:
        """One attempt; returns within two request timeouts. False: somebody else has it."""
        return self._acquire(0)

    def lock(self, timeout_s: float) -> bool:
        """Wait for a grant; returns within `timeout_s` and one request timeout (L5).

        At least one attempt is made, so below one request timeout it is `try_lock`.
        False: somebody else's lease was seen; OutcomeUnknown: nothing definite was.
        """
        return self._acquire(round(timeout_s * NS_PER_S))

    def __enter__(self) -> Self:
        """Wait for a grant as long as a lease may last. Raises LockTimeout where `lock` says False."""
        if not self._acquire(self.terms.validity_ns + self.terms.buffer_ns):
            raise LockTimeout(f"locking {self._key}: somebody else held it all the time; wait longer with lock()")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.unlock()
        except LockError as unlock_error:
            if error is None:
                raise
            # H24: how the release ended must not hide how the work ended.
            error.add_note(f"unlocking afterwards: {unlock_error}")

    def _acquire(self, timeout_ns: int) -> bool:
        self._check_usable()
        now_ns = self._runtime.monotonic_ns()
        call = _Call(now_ns + max(timeout_ns, self.terms.request_timeout_ns), may_wait=timeout_ns > 0)
        if self._re_enter():
            return True
        if not self._become_user(now_ns + timeout_ns):
            if self.holds():
                return False
            # S7: the other task is still contending, so nobody is known to have it.
            raise OutcomeUnknown(f"locking {self._key}: another task of this process is busy with it; try again")
        is_granted = False
        try:
            self._cleanup_epoch += 1
            self._polls.begin()
            if call.may_wait:
                self._step_back(call)
            is_granted = self._contend(call)
            return is_granted
        finally:
            if not is_granted:
                self._stop_contending(call)

    def _re_enter(self) -> bool:
        """H9: the owner task may lock again; a grant that it lost unnoticed is reported once, then forgotten."""
        with self._mutex:
            tenure = self._tenure
            if tenure is None or tenure.task != self._runtime.current_task():
                return False
            if self._is_in_force(tenure):
                tenure.count += 1
                return True
            self._tenure = None
            tenure.stopped.set()
            self._leave()
        raise self._loss_error(tenure)

    def _become_user(self, deadline_ns: int) -> bool:
        """H9: one task of this process at a time; the others wait for it, or are told no."""
        me = self._runtime.current_task()
        while True:
            tenure = self._tenure
            if tenure is not None and not tenure.task.is_alive():
                self._lose(tenure, "the task that locked it has ended without unlocking")
            with self._mutex:
                # A user that died inside its critical section has no claim any more (H13).
                if self._user is None or not self._user.is_alive():
                    if self._tenure is not None:
                        self._tenure.stopped.set()
                        self._tenure = None
                    self._user = me
                    self._idle.clear()
                    return True
            left_ns = deadline_ns - self._runtime.monotonic_ns()
            if left_ns <= 0:
                return False
            self._idle.wait(min(left_ns, self.terms.renew_interval_ns))
            self._check_usable()

    def _leave(self) -> None:
        """Let another task of this process in. The mutex is held."""
        self._user = None
        self._idle.set()

    def _contend(self, call: _Call) -> bool:
        while True:
            call.passes += 1
            pause_ns = self._pass(call)
            if pause_ns is None:
                return True
            left_ns = call.deadline_ns - self._runtime.monotonic_ns()
            is_denied = call.has_seen_other and not call.is_unresolved
            if left_ns <= _LAST_LOOK_NS or (is_denied and not call.may_wait):
                return self._answer_without_grant(call)
            # The last look falls just before the end of the caller's time.
            self._closing.wait(min(pause_ns, left_ns - _LAST_LOOK_NS))
            self._check_usable()

    def _step_back(self, call: _Call) -> None:
        """E34: a client that has just released lets those look who have been waiting, a moment and no longer."""
        now_ns = self._runtime.monotonic_ns()
        until_ns = min(self._yields_until_ns, now_ns + (call.deadline_ns - now_ns) // 2)
        if until_ns > now_ns:
            self._closing.wait(until_ns - now_ns)
            self._check_usable()

    def _pass(self, call: _Call) -> int | None:
        """Look, decide, write, until there is a reason to pause. None: granted; else the pause."""
        known = self._take_left_behind()
        call.is_informed = known is None
        for _ in range(_ROUNDS_MAX):
            if known is None:
                if self._is_over(call):
                    break
                known = self._look(call)
                if known is None:
                    # H16: a read that failed is tried again while the caller has time.
                    break
            own = lease.recognise(known.record, call.attempts)
            if own is not None and known.version is not None and self._grant(call, Lease(known.version, own)):
                return None
            decision = self._decide(known, call)
            if isinstance(decision, Wait):
                call.has_seen_other = True
                self._metric("lock.acquired.others.error")
                return self._poll_pause_ns(known, decision)
            if self._is_over(call):
                break
            step, version = self._attempt(call, known)
            attempt, known = call.attempts[-1], None
            if step is Step.AGAIN:
                break
            if step is Step.LOOK and call.has_lost_race and call.may_wait:
                # Most likely somebody was quicker just now: look when that grant should end, not at once.
                return self._polls.pause_after_lost_race_ns()
            if step is Step.GONE:
                known = Stored(None, None)
            elif step is Step.DONE and version is not None:
                if self._grant(call, Lease(version, attempt)):
                    return None
                # H3: it came too late to be believed. It is our own to take again.
                known = Stored(version, attempt.record)
        call.failures += 1
        # Never longer than a poll, so that a release is noticed in time whatever happened before (L3).
        return min(self._backoff_ns(call.failures), self._poll_interval_ns)

    def _attempt(self, call: _Call, known: Stored) -> tuple[Step, Version | None]:
        """One acquiring write on what is known; what its answer means, and the version it made."""
        attempt = self._new_attempt(known)
        call.attempts.append(attempt)
        was_unresolved, call.is_unresolved = call.is_unresolved, True
        reply = self._acquire_write(attempt)
        step = self._interpret(reply)
        if step is Step.LOOK:
            # H5: neither a lost answer nor a 412 tells who has it now.
            call.trouble = _describe(reply)
            is_refused = reply.outcome is Outcome.PRECONDITION_FAILED
            call.has_lost_race = is_refused and call.is_informed and not was_unresolved
            if is_refused:
                self._metric("lock.acquire.precondition.failure")
        elif step is not Step.DONE:
            # It did not land.
            call.trouble = _describe(reply)
            call.is_unresolved = was_unresolved
            if step is Step.REFUSED:
                raise StoreRejected(
                    f"locking {self._key}: the store refused the write ({call.trouble}): "
                    f"give this client the right to write there, or choose another store"
                )
        return step, reply.version

    def _look(self, call: _Call) -> Stored | None:
        """Read, and see what became of our last write. None: the read failed."""
        stored = self._read()
        if stored is None:
            call.trouble = "the lock object could not be read"
            return None
        if call.attempts:
            last = call.attempts[-1]
            match lease.sight(stored, expected=last.if_version, attempts=call.attempts):
                case Sight.OTHER | Sight.ABSENT if stored.version != last.if_version:
                    # The state that we wrote on has been replaced, and not by us: our write cannot land any more.
                    call.is_unresolved = False
                    call.has_seen_other = call.has_seen_other or (call.is_informed and stored.record is not None)
                case _:
                    pass
        self._check_left_behind(stored)
        call.is_informed = True
        return stored

    def _decide(self, known: Stored, call: _Call) -> lease.Take | Wait:
        """May the lock be taken? Time-expired leases are taken over only β after their end."""
        strays = [*self._strays, *call.attempts]
        nonces = {attempt.record.nonce for attempt in strays if attempt.record.nonce is not None}
        decision = lease.decide(
            known, owner=self.owner, own_nonces=nonces, now_wall_ns=self._runtime.wall_ns(), terms=self.terms
        )
        if isinstance(decision, lease.Take) and decision.reason is lease.Reason.LAPSED:
            self._metric("lock.dangling")
        return decision

    def _new_attempt(self, known: Stored) -> Attempt:
        """The acquiring write on `known`, stamped before it leaves (H1, M22)."""
        sent = self._now()
        record = LockFile(
            self.owner,
            lease.valid_until_ms(sent.wall_ns, self.terms),
            expired=False,
            nonce=self._new_nonce(),
            fence=self._next_token(known),
        )
        return Attempt(
            record=record,
            sent=sent,
            deadline=self._deadline(sent),
            wall_estimate_ns=sent.wall_ns,
            if_version=known.version,
        )

    def _next_token(self, known: Stored) -> int:
        """H21: carried through release, so the next one is higher whoever takes it."""
        return lease.next_fence(known, self._fence_seen_max)

    def _deadline(self, sent: Moment) -> Deadline:
        """H1: until when a write sent then may be believed."""
        return lease.deadline_after(sent, self.terms)

    def _new_nonce(self) -> str:
        """H22: no two writes of ours have equal bytes, so their versions differ even where versions are hashes (A6)."""
        return self._runtime.token_bytes(8).hex()

    def _acquire_write(self, attempt: Attempt) -> WriteReply:
        return self._write(attempt.if_version, attempt.record)

    def _interpret(self, reply: WriteReply) -> Step:
        """What an answer leaves open (H5, H16)."""
        return lease.next_step(reply)

    def _grant(self, call: _Call, first: Lease) -> bool:
        """Begin the tenure of a write that landed; False if it is too late to be believed (H3)."""
        tenure = _Tenure(self, self._runtime.current_task(), first, self._runtime.event(), self._runtime.event())
        attempt = first.attempt
        heartbeat = Heartbeat(
            tenure,
            runtime=self._runtime,
            stopped=tenure.stopped,
            name=f"lockref-{self.owner[:6]}",
            # H3: counted from before the granting write, not from its answer.
            first_ns=MonoNs(attempt.sent.mono_ns + self.terms.renew_interval_ns),
            check_ns=self.terms.renew_interval_ns,
        )
        is_started = False
        with self._mutex:
            self._tenure, self._last_loss = tenure, tenure.loss
        try:
            heartbeat.start()
            is_started = True
        finally:
            if not is_started:
                # H10: the caller undoes the write, which nobody would renew.
                self._withdraw(tenure)
        if not self._is_in_time(tenure):
            self._withdraw(tenure)
            return False
        self._fence_seen_max = max(self._fence_seen_max, attempt.record.fence or 0)
        self._strays.clear()
        self._polls.won()
        self._metric("lock.acquire.attempts")
        self._metric("lock.acquire.success")
        self._tell(LockEventKind.GRANTED, self._grant_of(tenure))
        self._note(AuditState.START, tenure, attempt.sent)
        return True

    def _is_in_time(self, tenure: _Tenure) -> bool:
        """H3: the last thing before the caller is told yes (E9, E10)."""
        with self._mutex:
            tenure.is_announced = self._is_in_force(tenure)
            return tenure.is_announced

    def _withdraw(self, tenure: _Tenure) -> None:
        """Take back a tenure that the caller was never told of."""
        tenure.stopped.set()
        with self._mutex:
            self._tenure = None

    def _answer_without_grant(self, call: _Call) -> bool:
        """S7: False only if somebody else's lease was seen and no write of ours is open."""
        if call.has_seen_other and not call.is_unresolved:
            return False
        what = (
            "a write of ours may have landed and is being undone"
            if call.is_unresolved
            else "nobody was seen to hold it"
        )
        raise OutcomeUnknown(
            f"locking {self._key}: not granted, and {what} ({call.trouble or 'no time left'}); try again"
        )

    def _stop_contending(self, call: _Call) -> None:
        """The call ends without a grant: leave nothing behind that could become one (L6)."""
        self._metric("lock.acquire.failure")
        with self._mutex:
            self._leave()
        self._strays = [*self._unlapsed(self._strays), *call.attempts]
        if call.is_unresolved:
            self._start_cleanup()

    def _is_over(self, call: _Call) -> bool:
        """No request starts after the caller's time, except to complete the first attempt (L5)."""
        is_first = call.passes == 1 and not call.attempts
        return not is_first and self._runtime.monotonic_ns() >= call.deadline_ns

    def _poll_pause_ns(self, known: Stored, wait: Wait) -> int:
        """H20: how long to wait before the next look; never beyond the end of the lease in the way."""
        assert known.record is not None, "nobody waits for an absent record"
        return self._polls.pause_ns(known.record, now_wall_ns=self._runtime.wall_ns(), lapses_in_ns=wait.for_ns)

    def _backoff_ns(self, failures: int) -> int:
        """Exponential, jittered over its upper half."""
        longest_ns = min(_BACKOFF_FIRST_NS << min(failures - 1, 10), _BACKOFF_NS_MAX)
        return round(longest_ns * self._runtime.random.uniform(0.5, 1.0))

    # ---- what the last release left: a warm cycle costs two requests ----

    def _take_left_behind(self) -> Stored | None:
        """The record of our own release, if it probably still stands. The write's condition settles it."""
        self._left_behind_unchecked, self._left_behind = self._left_behind, None
        return self._left_behind_unchecked if self._trusts_left_behind else None

    def _check_left_behind(self, stored: Stored) -> None:
        """If somebody else came in between, read first from now on, until our release is seen undisturbed again."""
        left, self._left_behind_unchecked = self._left_behind_unchecked, None
        if left is not None:
            self._trusts_left_behind = left.version == stored.version

    # ---- keep ----

    def _renew(self, tenure: _Tenure) -> MonoNs | None:
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
                return self._extend(tenure, Lease(_version_of(reply), attempt))
            case Step.GONE:
                # H15: whoever creates it anew holds it; never recreate it.
                self._supersede(tenure, "the lock object was deleted")
                return None
            case Step.LOOK:
                return self._resolve_renewal(tenure)
            case _:
                return self._retry_renewal_ns(tenure)

    def _resolve_renewal(self, tenure: _Tenure) -> MonoNs | None:
        """H5, H8: after a 412 or a lost answer, adopt our own write, or know that it is over."""
        if self._tenure is not tenure:
            # H11: unlocked meanwhile; the release looks for itself.
            return None
        try:
            stored = self._read()
        except LockError as error:
            if not isinstance(error, StoreRejected):
                self._supersede(tenure, f"the lock object was overwritten: {error}")
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

    def _extend(self, tenure: _Tenure, extended: Lease) -> MonoNs | None:
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

    def _retry_renewal_ns(self, tenure: _Tenure) -> MonoNs:
        """The deadline stands; try again soon, more slowly each time, but at least once per interval."""
        tenure.failures += 1
        pause_ns = min(self._backoff_ns(tenure.failures), self.terms.renew_interval_ns)
        return MonoNs(self._runtime.monotonic_ns() + pause_ns)

    def _supersede(self, tenure: _Tenure, reason: str) -> None:
        """The store shows that the grant has ended."""
        tenure.is_superseded = True
        self._lose(tenure, reason)

    def _lose(self, tenure: _Tenure, reason: str) -> None:
        """H12: signal the loss of this grant, once, and never after its unlock."""
        with self._mutex:
            if self._tenure is not tenure or tenure.loss_reason is not None:
                return
            tenure.loss_reason = reason
            tenure.stopped.set()
            if not tenure.is_announced:
                return
            tenure.loss.set()
        self._tell(LockEventKind.LOST, self._grant_of(tenure), reason)
        if self._on_loss is not None:
            self._on_loss(self._loss_error(tenure))

    def _is_in_force(self, tenure: _Tenure) -> bool:
        """H1: evaluated at use. A no is latched, so that no late renewal turns it into a yes."""
        if tenure.loss_reason is not None or self._runtime.process_id() != self._process_id:
            return False
        if tenure.lease.deadline.has_passed(self._now()):
            tenure.has_lapsed = True
        return not tenure.has_lapsed

    def _remaining_ns(self, tenure: _Tenure) -> int:
        return tenure.lease.deadline.remaining_ns(self._now()) if self._is_in_force(tenure) else 0

    # ---- give back ----

    def unlock(self) -> None:
        """Give the lock back; the outermost unlock of nested ones writes.

        Raises LockLost if the grant had ended before, LockNotHeld for a task
        that does not hold it (H9), ReleaseFailed if the store could not be told
        (H24): the protected work is done then, and others wait for one validity at most.
        """
        self._check_process()
        with self._mutex:
            tenure = self._tenure
            if tenure is None or tenure.task != self._runtime.current_task():
                raise LockNotHeld(f"unlocking {self._key}, which this task has not locked: fix the calling code")
            if tenure.count > 1:
                tenure.count -= 1
                return
            was_held = self._is_in_force(tenure)
            # H7: from here on nobody believes, whatever becomes of the release.
            self._tenure = None
            tenure.stopped.set()
        try:
            self._give_back(tenure, was_held=was_held)
        finally:
            with self._mutex:
                self._leave()

    def _give_back(self, tenure: _Tenure, *, was_held: bool) -> None:
        ended = self._now()
        held_ns = self._runtime.monotonic_ns() - tenure.granted_at.mono_ns
        self._polls.held(held_ns)
        self._metric("lock.acquire.duration", held_ns / NS_PER_S)
        if tenure.is_superseded:
            raise self._loss_error(tenure)
        ending = self._release(tenure)
        if ending is _Ending.UNKNOWN:
            self._metric("lock.release.failure")
            # Still ours to undo: it goes on in the background until the lease lapses.
            self._strays = [*self._unlapsed(self._strays), tenure.lease.attempt, *tenure.pending]
            self._start_cleanup()
        elif ending is _Ending.FREED:
            self._metric("lock.release.success")
            self._yields_until_ns = self._runtime.monotonic_ns() + self._polls.courtesy_ns()
            self._note(AuditState.END, tenure, ended)
        if not was_held:
            raise self._loss_error(tenure)
        if ending is _Ending.SUPERSEDED:
            tenure.loss_reason = "on release it was found deleted, or in somebody else's hands"
            raise self._loss_error(tenure)
        if ending is _Ending.UNKNOWN:
            raise ReleaseFailed(
                f"unlocking {self._key}: the store did not take the release; the protected work is done, do not "
                f"repeat it. Others wait until the lease lapses, {self.terms.validity_ns / NS_PER_S:g} s at most"
            )
        self._tell(LockEventKind.RELEASED, self._grant_of(tenure))

    def _release(self, tenure: _Tenure) -> _Ending:
        """H7: write the released body until its fate is known; each lost answer is looked up."""
        version = tenure.lease.version
        body = lease.released(tenure.lease.attempt.record, self._new_nonce())
        has_lost_answer = False
        deadline_ns = self._runtime.monotonic_ns() + self._release_budget_ns()
        for number in range(1, _RELEASE_TRIES_MAX + 1):
            reply = self._release_write(version, body)
            match self._interpret(reply):
                case Step.DONE:
                    self._left_behind = Stored(reply.version, body)
                    return _Ending.FREED
                case Step.GONE:
                    return _Ending.SUPERSEDED
                case Step.REFUSED:
                    return _Ending.UNKNOWN
                case Step.LOOK:
                    has_lost_answer = has_lost_answer or reply.outcome is Outcome.AMBIGUOUS
                    stored = self._read_or_none()
                    if stored is not None:
                        # A renewal that was under way may have landed first; it is released like the rest.
                        own = lease.recognise(stored.record, tenure.pending)
                        match lease.sight(stored, expected=version, attempts=tenure.pending, released=body):
                            case Sight.RELEASED_BY_US:
                                self._left_behind = stored
                                return _Ending.FREED
                            case Sight.OURS if own is not None and stored.version is not None:
                                version, body = stored.version, lease.released(own.record, self._new_nonce())
                            case Sight.OTHER if lease.is_past(stored.record, body):
                                # The read lags: no successor has a smaller fence. Try again.
                                pass
                            case Sight.OTHER if has_lost_answer:
                                # Our release landed and a successor has taken the lock: done.
                                return _Ending.FREED
                            case Sight.OTHER | Sight.ABSENT:
                                return _Ending.SUPERSEDED
            pause_ns = self._backoff_ns(number)
            if self._runtime.monotonic_ns() + pause_ns >= deadline_ns:
                break
            self._runtime.sleep(pause_ns)
        return _Ending.UNKNOWN

    def _release_budget_ns(self) -> int:
        """How long an unlock tries: as long as three requests may take, at least a second, never beyond a validity."""
        return min(self.terms.validity_ns, max(3 * self.terms.request_timeout_ns, NS_PER_S))

    def _release_write(self, version: Version | None, body: LockFile) -> WriteReply:
        return self._write(version, body)

    # ---- undo what nobody believes in ----

    def _start_cleanup(self) -> None:
        """H6: undo in the background, so that the caller's time is kept (L5)."""
        self._cleanup_epoch += 1
        epoch, strays = self._cleanup_epoch, list(self._strays)
        self._runtime.spawn(lambda: self._clean_up(epoch, strays), name=f"lockref-{self.owner[:6]}-cleanup")

    def _clean_up(self, epoch: int, strays: list[Attempt]) -> None:
        """Until done, until the strays have lapsed, or until a new call takes over the task."""
        failures = 0
        while epoch == self._cleanup_epoch and not self._closing.is_set() and self._unlapsed(strays):
            if self._undo(strays):
                return
            failures += 1
            self._closing.wait(self._backoff_ns(failures))

    def _undo(self, strays: list[Attempt]) -> bool:
        """Release a stray that landed; overwrite what one could still land on, so that it meets a 412 (H6, E30)."""
        stored = self._read_or_none()
        if stored is None:
            return False
        landed = lease.recognise(stored.record, strays)
        may_land = [stray for stray in strays if stray.if_version == stored.version]
        if landed is None and not may_land:
            return True
        stray = landed or may_land[-1]
        reply = self._release_write(stored.version, lease.released(stray.record, self._new_nonce()))
        return self._interpret(reply) in (Step.DONE, Step.REFUSED)

    def _unlapsed(self, strays: list[Attempt]) -> list[Attempt]:
        now_ns = self._runtime.wall_ns()
        return [stray for stray in strays if lease.free_at_wall_ns(stray.record, self.terms) > now_ns]

    # ---- the end ----

    def close(self) -> None:
        """End the heartbeat and give back what is held by the calling task. Idempotent.

        A grant of another task is marked lost, not released: its task may be
        in the middle of its critical section (U16). Failures were reported to
        the listener; they are not raised.
        """
        if self._closing.is_set() or self._runtime.process_id() != self._process_id:
            return
        tenure = self._tenure
        if tenure is not None:
            if tenure.task == self._runtime.current_task():
                tenure.count = 1
                with contextlib.suppress(LockError):
                    self.unlock()
            else:
                self._lose(tenure, "the lock was closed by another task")
        self._closing.set()
        if strays := self._unlapsed(self._strays):
            self._undo(strays)

    def exit_hook(self) -> None:
        """For the end of the process: a grant still in use is marked lost and left to lapse (H14, U16)."""
        if self._runtime.process_id() != self._process_id:
            return
        tenure = self._tenure
        if tenure is not None:
            self._lose(tenure, "the process ends inside the critical section")
            with self._mutex:
                self._tenure = None
        self.close()

    # ---- for operators ----

    def repair(self) -> bool:
        """Replace a corrupt lock object by a released record, if it is still the same one (H17).

        True: done. False: nothing to repair, or somebody else was quicker.
        Raises OutcomeUnknown if the store gave no definite answer.
        """
        self._check_process()
        reply = self._store.read(self._key)
        if reply.outcome is not Outcome.APPLIED:
            raise OutcomeUnknown(f"repairing {self._key}: it could not be read ({reply.outcome.name} {reply.reason})")
        if reply.body is None or reply.version is None or lockfile.decode(reply.body) is not None:
            return False
        body = LockFile(
            self.owner,
            self._runtime.wall_ns() // NS_PER_MS,
            expired=True,
            nonce=self._new_nonce(),
            fence=self._fence_seen_max,
        )
        written = self._release_write(reply.version, body)
        match self._interpret(written):
            case Step.DONE:
                return True
            case Step.LOOK | Step.GONE if written.outcome is not Outcome.AMBIGUOUS:
                return False
            case _:
                raise OutcomeUnknown(f"repairing {self._key}: {_describe(written)}; look at it and try again")

    def self_test(self) -> None:
        """Does the store honour conditions? Ask once per deployment, before the first lock (H23, U13).

        Errors: CapabilityMissing, BackendUnavailable; see `lockref.stores.selftest`.
        """
        ensure_usable(self._store, self._key.rpartition("/")[0], runtime=self._runtime)

    # ---- talking to the store and to the listener ----

    def _now(self) -> Moment:
        return Moment(self._runtime.wall_ns(), self._runtime.monotonic_ns())

    def _write(self, if_version: Version | None, record: LockFile) -> WriteReply:
        body = lockfile.serialize(record)
        started_ns = self._runtime.monotonic_ns()
        if if_version is None:
            reply = self._store.put_if_absent(self._key, body)
        else:
            reply = self._store.put_if_version(self._key, body, if_version)
        self._metric("lock.request.latency", (self._runtime.monotonic_ns() - started_ns) / NS_PER_S)
        if reply.outcome is Outcome.AMBIGUOUS:
            self._metric("lock.state.unknown")
        elif reply.outcome is Outcome.THROTTLED:
            self._metric("lock.throttled")
        return reply

    def _read(self) -> Stored | None:
        """The record and its version; None where the store gave no definite answer (H16).

        Raises CorruptRecord (H17), StoreRejected.
        """
        started_ns = self._runtime.monotonic_ns()
        reply = self._store.read(self._key)
        self._metric("lock.request.latency", (self._runtime.monotonic_ns() - started_ns) / NS_PER_S)
        if reply.outcome is Outcome.REJECTED:
            raise StoreRejected(
                f"reading {self._key}: the store refused ({reply.status} {reply.reason}): "
                f"give this client the right to read there, or choose another store"
            )
        if reply.outcome is not Outcome.APPLIED:
            self._metric("lock.state.unknown")
            return None
        if reply.body is None:
            return Stored(None, None)
        record = lockfile.parse(reply.body, where=self._key)
        self._fence_seen_max = max(self._fence_seen_max, record.fence or 0)
        return Stored(reply.version, record)

    def _read_or_none(self) -> Stored | None:
        """For a release: what cannot be read is looked at again; what is no record is somebody else's."""
        try:
            return self._read()
        except StoreRejected:
            return None
        except CorruptRecord:
            return _NOT_OURS

    def _check_process(self) -> None:
        if self._runtime.process_id() != self._process_id:
            # H9: a forked child shares owner and memory with its parent; only one of them may act.
            raise LockNotHeld(f"using the lock {self._key} in a forked process: make a new lock there")

    def _check_usable(self) -> None:
        self._check_process()
        if self._closing.is_set():
            raise LockError(f"locking {self._key} with a lock that is closed: make a new one")

    def _grant_of(self, tenure: _Tenure) -> Grant:
        current = tenure.lease
        return Grant(
            owner=self.owner, token=tenure.token, version=current.version, deadline_ns=current.deadline.mono_ns
        )

    def _loss_error(self, tenure: _Tenure) -> LockLost:
        reason = tenure.loss_reason or "the lease ended before it could be renewed"
        return LockLost(
            f"holding {self._key} with token {tenure.token}: lost, {reason}; stop protected work now",
            token=tenure.token,
            reason=reason,
        )

    def _tell(self, kind: LockEventKind, grant: Grant, reason: str = "") -> None:
        if self._listener is not None:
            self._listener(LockEvent(kind=kind, grant=grant, reason=reason))

    def _note(self, state: AuditState, tenure: _Tenure, at: Moment) -> None:
        """H25: one line of audit; hands over and returns."""
        if self._audit is not None:
            self._audit.note(state, owner=self.owner, began_ns=tenure.granted_at.wall_ns, at_ns=at.wall_ns)

    def _metric(self, name: str, value: float = 1.0) -> None:
        if self._listener is not None:
            self._listener(LockEvent(kind=LockEventKind.METRIC, name=name, value=value))


def release_at_exit(lock: StorageLock) -> None:
    """Let the end of the process close `lock`: nothing is released under a running critical section (H14)."""
    atexit.register(lock.exit_hook)


def _version_of(reply: WriteReply) -> Version:
    assert reply.version is not None, "an applied write has a version"
    return reply.version


def _describe(reply: WriteReply) -> str:
    parts = [reply.outcome.name.lower().replace("_", " ")]
    if reply.status is not None:
        parts.append(str(reply.status))
    if reply.reason:
        parts.append(reply.reason)
    return " ".join(parts)


def _uuid_text(entropy: bytes) -> str:
    """The usual form of a random UUID (version 4), which is what Hudi writes as owner."""
    number = bytearray(entropy)
    number[6] = number[6] & 0x0F | 0x40
    number[8] = number[8] & 0x3F | 0x80
    text = number.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
