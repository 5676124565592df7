"""The hardened RFC-91 lock: one object, conditional writes, and a holder that stops in time.

It contends with unmodified Hudi on one object and reads like RFC-91's
algorithm; every step that Hudi lacks carries the id of its hardening clause
(H1…H25). Three ideas carry the rest:

- *The deadline decides.* A holder believes until L − M after its last write
  left, and no answer of the store prolongs that except a renewal that landed
  in time. `holds()` asks two clocks and nothing else.
- *An answer that may be lost is looked up.* Every write carries a nonce; what
  is found in the store is ours only if it equals what we wrote.
- *Nothing is left behind.* A write that may still land and that nobody will
  believe in is undone in the background, and lapses by itself after one validity.

`StorageLock` composes parts that each own their state: `Cell` (the record),
`Gate` (one task at a time), `Tenure` (one grant), `Heartbeat`, `Waiting`,
`Cleanup`, and `Rules` (the decisions, without I/O). Here they are put in order:
how a grant is got, and given back. `docs/the-lock.md` tells the whole on two
pages. Rejected: layers of one class, where every layer wrote the others' state
and a reader needed all of them for any step.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from types import TracebackType
from typing import ClassVar, Self

from lockref.errors import LockError, LockForked, LockLost, LockNotHeld, LockTimeout, ReleaseFailed
from lockref.locks.cleanup import Ending
from lockref.locks.notices import LossCallback, Notices
from lockref.locks.rules import Attempt, Lease, Moment, Reserved, Stored
from lockref.locks.tenure import Tenure
from lockref.provider import Grant, LockContext, LockEventKind, LockListener
from lockref.runtime import NS_PER_S, Event, Runtime, ThreadRuntime
from lockref.storage import lockfile
from lockref.storage.audit import AuditState, AuditTrail
from lockref.storage.config import StorageLockConfig, laboratory_options
from lockref.storage.lockfile import LockFile
from lockref.storage.operations import repair
from lockref.storage.parts import Parts
from lockref.storage.place import key_in
from lockref.stores.port import ObjectStore, Version
from lockref.stores.probe.selftest import ensure_usable


class StorageLock:
    """A lock in an object store, safe within a declared clock bound, compatible with Hudi's. Blocking, thread-safe.

    store: where the lock object lives; its own request timeout should be
        `terms.request_timeout_ns`, as `from_context` makes it (H18).
    config: timing and the table's base path, as Hudi's properties give them.
    key: of the lock object in `store`. Default: that of the table at the config's base path, as
        Hudi has it; a store that lies elsewhere is refused (`key_in`).
    margin_ns: M; default is the config's, else the drift bound. request_timeout_ns: default r/3, at most 5 s.
    listener: told of every grant, renewal, loss, release and metric.
    on_loss: told when a grant is lost. audit: writes down every tenure, off the lock path (H25).

    Errors of `lock` and `try_lock`: OutcomeUnknown (nothing definite was
    learned), CorruptRecord, StoreRejected, LockLost (this task's previous
    grant ended without its unlock), LockForked (used in a forked child).
    """

    parts: ClassVar[Parts] = Parts()
    decode_record = staticmethod(lockfile.decode)
    record_format = "rfc91"
    is_reentrant = True
    # Every loss is reported to the listener (H12).
    claims = ("L4",)
    is_fork_safe = True

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
        if margin_ns is not None:
            config = replace(config, margin_ns=margin_ns)
        self.runtime = runtime = runtime or ThreadRuntime()
        key = key or key_in(store, config.base_path)
        self.terms = config.terms(request_timeout_ns)
        self.poll_interval_ns = config.poll_interval_ns
        self._store = store
        self._audit = audit
        self._process_id = runtime.process_id()
        # H22: one owner per instance, whatever the process or host.
        self.owner = lockfile.owner_id(runtime.token_bytes(16))
        self._task_name = f"lockref-{self.owner[:6]}"
        parts = self.parts
        self.notices = Notices(key, listener=listener, on_loss=on_loss)
        self.rules = parts.rules
        self.cell = parts.cell(
            store, key, serialize=lockfile.serialize, parse=lockfile.parse, rules=self.rules, runtime=runtime,
            notices=self.notices,
        )  # fmt: skip
        self.gate = parts.gate(runtime)
        self.cleanup = parts.cleanup(self.cell, terms=self.terms, name=f"{self._task_name}-cleanup")
        self.waiting = parts.waiting(config.poll_interval_ns, config.validity_ns, runtime)
        self.tokens = parts.tokens(store, key, new_nonce=self.cell.new_nonce, on_void=self.notices.fencing_is_void)
        self.shortcut = parts.shortcut()
        self.tenure: Tenure[LockFile] | None = None
        self._last_loss = runtime.event()
        self._closing = runtime.event()

    @classmethod
    def from_context(cls, context: LockContext) -> Self:
        """A lock for one process of the laboratory. Options: `margin_ms`, `request_timeout_ms`.

        Errors: ConfigError for a timing or an option that RFC-91's lock cannot have.
        """
        settings = context.settings
        margin_ns, timeout_ns = laboratory_options(settings)
        return cls(
            context.open_store(timeout_ns),
            config=StorageLockConfig.from_settings(settings, margin_ns=margin_ns),
            key=settings.key,
            request_timeout_ns=timeout_ns,
            runtime=context.runtime,
            listener=context.listener,
        )

    # ---- what a holder asks: local, without I/O, from any task at any time ----

    def holds(self) -> bool:
        """May the holder still act? Asks the clocks, nothing else; once no, it stays no for this grant (H2)."""
        tenure = self.tenure
        return tenure is not None and tenure.is_in_force()

    def remaining_ns(self) -> int:
        """How long the holder may still act unless a renewal lands; 0 if it may not (H2)."""
        tenure = self.tenure
        return 0 if tenure is None else tenure.remaining_ns()

    def remaining(self) -> float:
        """`remaining_ns` in seconds, the unit of `lock`."""
        return self.remaining_ns() / NS_PER_S

    def assert_held(self) -> None:
        """Call before each protected write (H2).

        Raises LockLost, LockNotHeld if nothing was locked, LockForked in a forked child of the process that locked.
        """
        self._check_process()
        tenure = self.tenure
        if tenure is None:
            raise LockNotHeld(f"asserting that {self.cell.key} is held, but this client has not locked it")
        if not tenure.is_in_force():
            raise tenure.loss_error()

    @property
    def grant(self) -> Grant | None:
        """The grant in force; None when there is none."""
        tenure = self.tenure
        return tenure.grant() if tenure is not None and tenure.is_in_force() else None

    @property
    def fencing_token(self) -> int | None:
        """The number that a protected resource should check (H21). None when nothing is held, or cannot be fenced.

        A resource should refuse a write without a token: the lock gives none
        where it could not prove that the number is larger than all before it.
        """
        grant = self.grant
        return None if grant is None else grant.token

    @property
    def loss(self) -> Event:
        """Set when the latest grant is lost; each grant has an event of its own (H12)."""
        return self._last_loss

    # ---- lock ----

    def try_lock(self) -> bool:
        """One attempt; returns within two request timeouts. False: somebody else has it."""
        return self._acquire(0)

    def lock(self, timeout_s: float) -> bool:
        """Wait for a grant; returns within `timeout_s` and one request timeout (L5).

        At least one attempt is made, and finished: below one request timeout that may take longer than waiting may.
        False: somebody else's lease was seen; OutcomeUnknown: nothing definite was.
        """
        return self._acquire(round(timeout_s * NS_PER_S))

    def _acquire(self, timeout_ns: int) -> bool:
        self._check_usable()
        call = self.parts.acquisition(self, timeout_ns)
        depth = self.gate.depth
        try:
            if self._re_enter():
                return True
        except LockLost:
            self.cleanup.start()
            raise
        except BaseException:
            # An entry that is broken off counts for nothing (H9).
            if self.gate.is_mine():
                self.gate.set_depth(depth)
            raise
        is_granted = False
        try:
            is_granted = call.run()
            return is_granted
        finally:
            # Here and not in `run`: a Ctrl-C between the two would leave a grant that nobody was told of (H6).
            if not is_granted:
                call.stop()

    def _re_enter(self) -> bool:
        """H9: the owner task may lock again; a grant that it lost unnoticed is reported once, then forgotten."""
        tenure = self.tenure
        if tenure is None or tenure.task != self.runtime.current_task():
            return False
        if tenure.is_in_force():
            self.gate.set_depth(self.gate.depth + 1)
            return True
        # Nobody believes in it any more: it is undone instead of left to lapse (H6).
        self._disown(tenure)
        self.gate.leave()
        raise tenure.loss_error()

    def enter(self, until_ns: int) -> bool:
        """H9: one task of this process at a time; the others wait for it, or are told no."""
        while True:
            tenure = self.tenure
            if tenure is not None and not tenure.task.is_alive():
                tenure.lose("the task that locked it has ended without unlocking")
            if self.gate.try_enter():
                # A grant of a task that died inside is left to lapse, for its work may go on elsewhere (H13).
                self.forget()
                return True
            left_ns = until_ns - self.runtime.monotonic_ns()
            if left_ns <= 0:
                return False
            self.gate.wait(min(left_ns, self.terms.renew_interval_ns))
            self._check_usable()

    def new_attempt(self, known: Stored[LockFile], reserved: Reserved) -> Attempt[LockFile]:
        """The acquiring write on `known`, stamped before it leaves (H1, M22)."""
        sent = self._now()
        until_ms = self.rules.valid_until_ms(sent.wall_ns, self.terms)
        return self._attempt(sent, sent.wall_ns, until_ms, reserved.token, reserved.mark, known.version)

    def new_renewal(self, current: Lease[LockFile]) -> Attempt[LockFile]:
        """The write that extends `current`: validUntil never falls (H19), the token stays (H21)."""
        sent, previous = self._now(), current.attempt
        estimate_ns = self.rules.estimate_wall(previous, sent, self.terms)
        until_ms = self.rules.renewed_valid_until_ms(previous, estimate_ns, self.terms)
        record = previous.record
        return self._attempt(sent, estimate_ns, until_ms, record.fence, record.mark, current.version)

    def _attempt(
        self,
        sent: Moment,
        wall_estimate_ns: int,
        until_ms: int,
        token: int | None,
        mark: int | None,
        if_version: Version | None,
    ) -> Attempt[LockFile]:
        return Attempt(
            record=LockFile(self.owner, until_ms, False, self.cell.new_nonce(), token, mark),
            sent=sent,
            deadline=self.rules.deadline_after(sent, self.terms),
            wall_estimate_ns=wall_estimate_ns,
            if_version=if_version,
        )

    def begin(self, first: Lease[LockFile]) -> bool:
        """Begin the tenure of a write that landed; False if it is too late to be believed (H3)."""
        tenure = self.parts.tenure(first, key=self.cell.key, runtime=self.runtime, notices=self.notices)
        heartbeat = self.parts.heartbeat(
            tenure, cell=self.cell, terms=self.terms, new_renewal=self.new_renewal, on_renewed=self._renewed,
            name=self._task_name,
        )  # fmt: skip
        # From here on a call that ends without a grant forgets the tenure, for instance because no heartbeat
        # could be started (H10) or because of a Ctrl-C.
        self.tenure, self._last_loss = tenure, tenure.loss
        heartbeat.start()
        # A lock that another task has closed meanwhile gives no grant.
        self._check_usable()
        if not tenure.announce():
            self.forget()
            return False
        self.waiting.won()
        self.notices.granted(tenure.grant())
        self._note(AuditState.START, tenure, tenure.granted_at)
        self.cleanup.settle_all()
        return True

    def _renewed(self, tenure: Tenure[LockFile]) -> None:
        left_ns = tenure.lease.deadline.remaining_ns(self._now())
        self.notices.metric("lock.expiration.deadline", left_ns / NS_PER_S)
        self.notices.tell(LockEventKind.RENEWED, tenure.grant())
        self._note(AuditState.RENEW, tenure, tenure.lease.attempt.sent)

    # ---- unlock ----

    def unlock(self) -> None:
        """Give the lock back; the outermost unlock of nested ones writes.

        Raises LockLost if the grant had ended before, LockNotHeld for a task
        that does not hold it (H9), ReleaseFailed if the store could not be told
        (H24): the protected work is done then, and others wait for one validity at most.
        """
        tenure = self.tenure
        depth = self.gate.depth
        try:
            self._leave_one_level()
        except LockError:
            raise
        except BaseException:
            if tenure is not None and tenure is self.tenure and tenure.task == self.runtime.current_task():
                # Broken off before anything was done. The caller has left its critical section all the same.
                self.gate.set_depth(depth - 1)
                if depth == 1:
                    self._end_use(tenure)
            raise

    def _leave_one_level(self) -> None:
        self._check_process()
        tenure = self.tenure
        if tenure is None or tenure.task != self.runtime.current_task():
            raise LockNotHeld(f"unlocking {self.cell.key}, which this task has not locked: fix the calling code")
        if self.gate.depth > 1:
            self.gate.set_depth(self.gate.depth - 1)
            return
        was_held = tenure.is_in_force()
        try:
            self._disown(tenure)
            self._give_back(tenure, was_held=was_held)
        finally:
            self._end_use(tenure)

    def _disown(self, tenure: Tenure[LockFile]) -> None:
        """H7: from here on nobody believes, whatever becomes of the release."""
        if self.tenure is tenure:
            # Ours to undo until the store has told that the release landed.
            self.cleanup.add(tenure.writes())
            self.forget()

    def forget(self) -> list[Attempt[LockFile]]:
        """The present tenure, if any, is over: nobody believes in it, nobody renews it. Returns its writes."""
        tenure = self.tenure
        if tenure is None:
            return []
        tenure.end()
        self.tenure = None
        return tenure.writes()

    def _end_use(self, tenure: Tenure[LockFile]) -> None:
        """However the unlock ended, by a Ctrl-C or an error too: what may be left in the store is undone (H6)."""
        try:
            self._disown(tenure)
            self.cleanup.start_for(tenure.writes())
        finally:
            self.gate.leave()

    def _give_back(self, tenure: Tenure[LockFile], *, was_held: bool) -> None:
        ended = self._now()
        held_ns = ended.mono_ns - tenure.granted_at.mono_ns
        self.waiting.held(held_ns)
        self.notices.metric("lock.acquire.duration", held_ns / NS_PER_S)
        if tenure.is_superseded:
            self.cleanup.settle(tenure.writes())
            raise tenure.loss_error()
        ending, left = self.cleanup.release(tenure)
        if ending is Ending.UNKNOWN:
            # Still ours to undo: it goes on in the background until the lease lapses.
            self.notices.metric("lock.release.failure")
        else:
            self.cleanup.settle(tenure.writes())
        if ending is Ending.FREED:
            if left is not None:
                self.shortcut.released(left)
            self.notices.metric("lock.release.success")
            self.waiting.released(self.runtime.monotonic_ns())
            self._note(AuditState.END, tenure, ended)
        if not was_held:
            raise tenure.loss_error()
        if ending is Ending.SUPERSEDED:
            raise tenure.loss_error("on release it was found deleted, or in somebody else's hands")
        if ending is Ending.UNKNOWN:
            raise ReleaseFailed(
                f"unlocking {self.cell.key}: the store did not take the release; the protected work is done, do not "
                f"repeat it. Others wait until the lease lapses, {self.terms.validity_ns / NS_PER_S:g} s at most"
            )
        self.notices.tell(LockEventKind.RELEASED, tenure.grant())

    def __enter__(self) -> Self:
        """Wait for a grant as long as a lease may last. Raises LockTimeout where `lock` says False."""
        if not self._acquire(self.terms.validity_ns + self.terms.buffer_ns):
            raise LockTimeout(f"locking {self.cell.key}: somebody else held it all the time; wait longer with lock()")
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

    # ---- the end ----

    def close(self) -> None:
        """End the heartbeat and give back what is held by the calling task. May be called again, also after a Ctrl-C.

        A grant of another task is marked lost, not released: its task may be
        in the middle of its critical section (U16). Failures were reported to
        the listener; they are not raised. What may still be left in the store
        is undone once before this returns, and otherwise in the background.
        In a forked child it does nothing: the lock is the parent's (H9).
        """
        if self.runtime.process_id() != self._process_id:
            return
        self._closing.set()
        tenure = self.tenure
        if tenure is not None:
            if tenure.task == self.runtime.current_task():
                self.gate.set_depth(1)
                with contextlib.suppress(LockError):
                    self.unlock()
            else:
                tenure.lose("the lock was closed by another task")
        self.cleanup.finish()

    def exit_hook(self) -> None:
        """For the end of the process: a grant still in use is marked lost and left to lapse (H14, U16)."""
        if self.runtime.process_id() != self._process_id:
            return
        if self.tenure is not None:
            self.tenure.lose("the process ends inside the critical section")
            self.forget()
        self.close()

    # ---- for operators ----

    def repair(self) -> bool:
        """Replace a corrupt lock object by a released record, if it is still the same one (H17).

        True: done. False: nothing to repair, or somebody else was quicker.
        Raises OutcomeUnknown if the store gave no definite answer.
        """
        self._check_process()
        return repair(self.cell, self.owner)

    def self_test(self) -> None:
        """Does the store honour conditions? Ask once per deployment, before the first lock (H23, U13).

        Errors: CapabilityMissing, BackendUnavailable; see `lockref.stores.probe.selftest`.
        """
        ensure_usable(self._store, self.cell.key.rpartition("/")[0], runtime=self.runtime)

    # ---- may this object still be used? ----

    def pause(self, duration_ns: int) -> None:
        """Wait, between two passes of a call; raises LockError if the lock was closed meanwhile."""
        self._closing.wait(duration_ns)
        self._check_usable()

    def _check_process(self) -> None:
        if self.runtime.process_id() != self._process_id:
            # H9: a forked child shares owner and memory with its parent; only one of them may act.
            raise LockForked(
                f"using the lock {self.cell.key} in process {self.runtime.process_id()}, a forked child of the process "
                f"{self._process_id} that made it: only the parent may act; make a new lock in the child"
            )

    def _check_usable(self) -> None:
        self._check_process()
        if self._closing.is_set():
            raise LockError(f"locking {self.cell.key} with a lock that is closed: make a new one")

    def _now(self) -> Moment:
        return Moment(self.runtime.wall_ns(), self.runtime.monotonic_ns())

    def _note(self, state: AuditState, tenure: Tenure[LockFile], at: Moment) -> None:
        """H25: one line of audit; hands over and returns."""
        if self._audit is not None:
            self._audit.note(state, owner=self.owner, began_ns=tenure.granted_at.wall_ns, at_ns=at.wall_ns)
