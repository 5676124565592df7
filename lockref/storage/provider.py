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

Here is what a user calls; methods are blocking and thread-safe. How a grant is
got is in `acquisition.py`, kept in `renewal.py`, given back in `release.py`;
what it lives on is in `tenure.py`, and `exchange.py` says how these layers
build on each other. Their steps are small methods so that a test can break any
of them alone. Wire format and its extra fields are in `lockfile.py`; decisions
without I/O are in `lease.py`.

Fencing tokens (H21) rise strictly from grant to grant of hardened clients, also
with Hudi writers in between, who have none, and when the lock object was
deleted. How, at what cost, and the two exceptions (the lock object deleted
twice during one acquire, the fence object deleted) are in `fence.py`.
"""

from __future__ import annotations

import atexit
import contextlib
from dataclasses import replace
from types import TracebackType
from typing import Self

from lockref.errors import LockError, LockLost, LockNotHeld, LockTimeout, OutcomeUnknown, ReleaseFailed
from lockref.provider import Grant, LockContext, LockEventKind, LockListener
from lockref.runtime import NS_PER_MS, NS_PER_S, Event, Runtime, ThreadRuntime
from lockref.storage import lockfile
from lockref.storage.acquisition import Call, Contender
from lockref.storage.audit import AuditState, AuditTrail
from lockref.storage.config import StorageLockConfig, whole_number
from lockref.storage.exchange import Wiring, describe
from lockref.storage.lease import LeaseTerms, Step
from lockref.storage.lockfile import LockFile
from lockref.storage.notices import LossCallback
from lockref.storage.place import key_in
from lockref.storage.release import Ending
from lockref.storage.tenure import Tenure
from lockref.stores.port import ObjectStore, Outcome
from lockref.stores.probe.selftest import ensure_usable

_OPTIONS = ("margin_ms", "request_timeout_ms")


class StorageLock(Contender):
    """A lock in an object store, safe within a declared clock bound, compatible with Hudi's.

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
        super().__init__(
            Wiring(
                runtime=runtime or ThreadRuntime(),
                store=store,
                key=key or key_in(store, config.base_path),
                terms=LeaseTerms(
                    validity_ns=config.validity_ns,
                    renew_interval_ns=config.renew_interval_ns,
                    margin_ns=config.stop_margin_ns,
                    buffer_ns=config.drift_bound_ns,
                    request_timeout_ns=request_timeout_ns
                    or LeaseTerms.default_request_timeout_ns(config.renew_interval_ns),
                ),
                poll_interval_ns=config.poll_interval_ns,
                listener=listener,
                on_loss=on_loss,
                audit=audit,
            )
        )

    @classmethod
    def from_context(cls, context: LockContext) -> Self:
        """A lock for one process of the laboratory. Options: `margin_ms`, `request_timeout_ms`.

        Errors: ConfigError for a timing or an option that RFC-91's lock cannot have.
        """
        settings = context.settings
        options = {
            name: whole_number(settings.options, name, default=0) * NS_PER_MS
            for name in _OPTIONS
            if name in settings.options
        }
        timeout_ns = options.get("request_timeout_ms") or LeaseTerms.default_request_timeout_ns(
            settings.renew_interval_ns
        )
        return cls(
            context.open_store(timeout_ns),
            config=StorageLockConfig.from_settings(settings, margin_ns=options.get("margin_ms")),
            key=settings.key,
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

    def remaining(self) -> float:
        """`remaining_ns` in seconds, the unit of `lock`."""
        return self.remaining_ns() / NS_PER_S

    def assert_held(self) -> None:
        """Call before each protected write (H2).

        Raises LockLost, LockNotHeld if nothing was locked, LockForked in a forked child of the process that locked.
        """
        self._check_process()
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

    # ---- lock and unlock ----

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
        now_ns = self._runtime.monotonic_ns()
        call = Call(
            waits_until_ns=now_ns + timeout_ns,
            deadline_ns=now_ns + max(timeout_ns, self.terms.request_timeout_ns),
        )
        tenure = self._tenure
        depth = 0 if tenure is None else tenure.count
        try:
            if self._re_enter():
                return True
        except LockLost:
            self._start_cleanup(list(self._strays))
            raise
        except BaseException:
            # An entry that is broken off counts for nothing (H9).
            if tenure is not None and tenure.task == self._runtime.current_task():
                tenure.count = depth
            raise
        is_granted = False
        try:
            if not self._become_user(now_ns + timeout_ns):
                if self.holds():
                    return False
                # S7: the other task is still contending, so nobody is known to have it.
                raise OutcomeUnknown(f"locking {self._key}: another task of this process is busy with it; try again")
            self._cleanup_epoch += 1
            self._polls.begin()
            self._step_back(call)
            is_granted = self._contend(call)
            return is_granted
        finally:
            if not is_granted:
                self._stop_contending(call)

    def unlock(self) -> None:
        """Give the lock back; the outermost unlock of nested ones writes.

        Raises LockLost if the grant had ended before, LockNotHeld for a task
        that does not hold it (H9), ReleaseFailed if the store could not be told
        (H24): the protected work is done then, and others wait for one validity at most.
        """
        tenure = self._tenure
        depth = 0 if tenure is None else tenure.count
        try:
            self._leave_one_level()
        except LockError:
            raise
        except BaseException:
            if tenure is not None and tenure is self._tenure and tenure.task == self._runtime.current_task():
                # Broken off before anything was done. The caller has left its critical section all the same.
                tenure.count = depth - 1
                if not tenure.count:
                    self._end_use(tenure)
            raise

    def _leave_one_level(self) -> None:
        self._check_process()
        ending: Tenure | None = None
        try:
            with self._mutex:
                tenure = self._tenure
                if tenure is None or tenure.task != self._runtime.current_task():
                    raise LockNotHeld(f"unlocking {self._key}, which this task has not locked: fix the calling code")
                if tenure.count > 1:
                    tenure.count -= 1
                    return
                was_held = self._is_in_force(tenure)
                ending = tenure
                self._disown(tenure)
            self._give_back(tenure, was_held=was_held)
        finally:
            if ending is not None:
                self._end_use(ending)

    def _disown(self, tenure: Tenure) -> None:
        """H7: from here on nobody believes, whatever becomes of the release. The mutex is held."""
        if self._tenure is tenure:
            # Ours to undo until the store has told that the release landed.
            self._strays = [*self._strays, *tenure.writes()]
            self._tenure = None
        tenure.stopped.set()

    def _end_use(self, tenure: Tenure) -> None:
        """However the unlock ended, by a Ctrl-C or an error too: what may be left in the store is undone (H6)."""
        try:
            with self._mutex:
                self._disown(tenure)
                strays = [stray for stray in self._strays if stray in tenure.writes()]
            if strays:
                # With what earlier calls have left, which no other task undoes from now on.
                self._start_cleanup(list(self._strays))
        finally:
            with self._mutex:
                self._leave()

    def _give_back(self, tenure: Tenure, *, was_held: bool) -> None:
        ended = self._now()
        held_ns = self._runtime.monotonic_ns() - tenure.granted_at.mono_ns
        self._polls.held(held_ns)
        self._metric("lock.acquire.duration", held_ns / NS_PER_S)
        if tenure.is_superseded:
            self._settle(tenure.writes())
            raise self._loss_error(tenure)
        ending = self._release(tenure)
        if ending is not Ending.UNKNOWN:
            self._settle(tenure.writes())
        if ending is Ending.UNKNOWN:
            # Still ours to undo: it goes on in the background until the lease lapses.
            self._metric("lock.release.failure")
        elif ending is Ending.FREED:
            self._metric("lock.release.success")
            self._yields_until_ns = self._runtime.monotonic_ns() + self._polls.courtesy_ns()
            self._note(AuditState.END, tenure, ended)
        if not was_held:
            raise self._loss_error(tenure)
        if ending is Ending.SUPERSEDED:
            tenure.loss_reason = "on release it was found deleted, or in somebody else's hands"
            raise self._loss_error(tenure)
        if ending is Ending.UNKNOWN:
            raise ReleaseFailed(
                f"unlocking {self._key}: the store did not take the release; the protected work is done, do not "
                f"repeat it. Others wait until the lease lapses, {self.terms.validity_ns / NS_PER_S:g} s at most"
            )
        self._tell(LockEventKind.RELEASED, self._grant_of(tenure))

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

    # ---- the end ----

    def close(self) -> None:
        """End the heartbeat and give back what is held by the calling task. May be called again, also after a Ctrl-C.

        A grant of another task is marked lost, not released: its task may be
        in the middle of its critical section (U16). Failures were reported to
        the listener; they are not raised. What may still be left in the store
        is undone once before this returns, and otherwise in the background.
        In a forked child it does nothing: the lock is the parent's (H9).
        """
        if self._runtime.process_id() != self._process_id:
            return
        self._closing.set()
        tenure = self._tenure
        if tenure is not None:
            if tenure.task == self._runtime.current_task():
                tenure.count = 1
                with contextlib.suppress(LockError):
                    self.unlock()
            else:
                self._lose(tenure, "the lock was closed by another task")
        if strays := self._unlapsed(self._strays):
            is_undone = False
            try:
                is_undone = self._try_to_undo(strays)
            finally:
                if not is_undone:
                    self._start_cleanup(strays)

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
            # No token: others may have been given larger ones than we have seen, and the mark is above them all (H21).
        )
        written = self._release_write(reply.version, body)
        match self._interpret(written):
            case Step.DONE:
                return True
            case Step.LOOK | Step.GONE if written.outcome is not Outcome.AMBIGUOUS:
                return False
            case _:
                raise OutcomeUnknown(f"repairing {self._key}: {describe(written)}; look at it and try again")

    def self_test(self) -> None:
        """Does the store honour conditions? Ask once per deployment, before the first lock (H23, U13).

        Errors: CapabilityMissing, BackendUnavailable; see `lockref.stores.probe.selftest`.
        """
        ensure_usable(self._store, self._key.rpartition("/")[0], runtime=self._runtime)


def release_at_exit(lock: StorageLock) -> None:
    """Let the end of the process close `lock`: nothing is released under a running critical section (H14).

    For a program that may end without `close`. A grant that is still in use
    when the interpreter ends is marked lost and left to lapse: its work may not
    be whole. What an earlier `unlock` could not release is tried once more.
    A forked child leaves its parent's lock alone. Opt-in, because such a hook
    keeps the lock alive as long as the process.
    """
    atexit.register(lock.exit_hook)
