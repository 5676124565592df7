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

from dataclasses import replace
from types import TracebackType
from typing import ClassVar, Self

from lockref.errors import LockError, LockTimeout
from lockref.locks.assembly import Parts, assemble
from lockref.locks.gated import GatedClient
from lockref.locks.notices import LossCallback
from lockref.locks.tenure import Tenure
from lockref.provider import Grant, LockContext, LockListener
from lockref.runtime import NS_PER_S, Event, Runtime, ThreadRuntime
from lockref.storage import lockfile
from lockref.storage.audit import AuditTrail
from lockref.storage.config import StorageLockConfig, laboratory_options
from lockref.storage.lockfile import LockFile
from lockref.storage.operations import repair
from lockref.storage.parts import RFC91, refuse_former_steps
from lockref.storage.place import key_in
from lockref.stores.port import ObjectStore
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

    parts: ClassVar[Parts] = RFC91
    decode_record = staticmethod(lockfile.decode)
    record_format = "rfc91"
    is_reentrant = True
    # Every loss is reported to the listener (H12).
    claims = ("L4",)
    is_fork_safe = True

    def __init_subclass__(cls) -> None:
        refuse_former_steps(cls)

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
        self._store = store
        # H22: one owner per instance, whatever the process or host.
        self.owner = self.parts.owner(runtime)
        self.gated: GatedClient[LockFile] = assemble(
            self.parts, store, key, owner=self.owner, serialize=lockfile.serialize, parse=lockfile.parse,
            terms=self.terms, poll_interval_ns=config.poll_interval_ns, runtime=runtime, listener=listener,
            on_loss=on_loss, audit=audit,
        )  # fmt: skip
        self.client, self.gate = self.gated.client, self.gated.gate
        self.cell, self.cleanup, self.notices = self.client.cell, self.client.cleanup, self.client.notices

    @property
    def tenure(self) -> Tenure[LockFile] | None:
        """The grant of this client that has not been given back, in force or not; None if there is none.

        None in a forked child, too, which has inherited the memory, not the grant (H9).
        """
        return self.gated.tenure

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
        self.gated.assert_held()

    @property
    def grant(self) -> Grant | None:
        """The grant in force; None when there is none."""
        return self.gated.grant

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
        return self.client.loss

    # ---- lock ----

    def try_lock(self) -> bool:
        """One attempt, as `lock` with no time: at most two request timeouts (L5). False: somebody else has it."""
        return self.gated.acquire(0)

    def lock(self, timeout_s: float) -> bool:
        """Wait for a grant; no request begins after `timeout_s`, or one request timeout where that is longer (L5).

        So the call returns one request timeout after that at the latest.
        False: somebody else's lease was seen; OutcomeUnknown: nothing definite was.
        """
        return self.gated.acquire(round(timeout_s * NS_PER_S))

    # ---- unlock ----

    def unlock(self) -> None:
        """Give the lock back; the outermost unlock of nested ones writes.

        Raises LockLost if the grant had ended before, LockNotHeld for a task
        that does not hold it (H9), ReleaseFailed if the store could not be told
        (H24): the protected work is done then, and others wait for one validity at most. No request begins after
        three request timeouts, or one second where that is longer (L5).
        """
        tenure, depth = self.client.tenure, self.gate.depth
        try:
            self.gated.release()
        except LockError:
            raise
        except BaseException:
            # Here and not further in: between any two calls a Ctrl-C may come.
            self.gated.break_off(tenure, depth)
            raise

    def __enter__(self) -> Self:
        """Wait for a grant as long as a lease may last. Raises LockTimeout where `lock` says False."""
        if not self.gated.acquire(self.terms.validity_ns + self.terms.buffer_ns):
            raise LockTimeout(f"locking {self.cell.key}: somebody else held it all the time; wait longer with lock()")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gated.leave(self.unlock, error)

    # ---- the end ----

    def close(self) -> None:
        """End the heartbeat and give back what is held by the calling task. May be called again, also after a Ctrl-C.

        A grant of another task is marked lost, not released: its task may be
        in the middle of its critical section (U16). Failures were reported to
        the listener; they are not raised. What may still be left in the store
        is undone once before this returns, and otherwise in the background.
        In a forked child it does nothing: the lock is the parent's (H9).
        """
        self.gated.close(self.unlock)

    def exit_hook(self) -> None:
        """For the end of the process: a grant still in use is marked lost and left to lapse (H14, U16)."""
        self.gated.exit_hook(self.close)

    # ---- for operators ----

    def repair(self) -> bool:
        """Replace a corrupt lock object by a released record, if it is still the same one (H17).

        True: done. False: nothing to repair, or somebody else was quicker.
        Raises OutcomeUnknown if the store gave no definite answer.
        """
        self.gate.check_process()
        return repair(self.cell, self.owner)

    def self_test(self) -> None:
        """Does the store honour conditions? Ask once per deployment, before the first lock (H23, U13).

        Errors: CapabilityMissing, BackendUnavailable; see `lockref.stores.probe.selftest`.
        """
        ensure_usable(self._store, self.cell.key.rpartition("/")[0], runtime=self.runtime)
