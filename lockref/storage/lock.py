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
`Cleanup`, and `Rules` (the decisions, without I/O). `LeaseLock` has its calls. `docs/the-lock.md` tells the whole on
two pages. Rejected: layers of one class, where every layer wrote the others' state
and a reader needed all of them for any step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Self

from lockref.locks.assembly import Parts, assemble
from lockref.locks.gated import GatedClient
from lockref.locks.lease_lock import LeaseLock
from lockref.locks.notices import LossCallback
from lockref.provider import LockContext, LockListener
from lockref.runtime import Runtime, ThreadRuntime
from lockref.storage import lockfile
from lockref.storage.audit import AuditTrail
from lockref.storage.config import StorageLockConfig, laboratory_options
from lockref.storage.lockfile import LockFile
from lockref.storage.operations import repair
from lockref.storage.parts import RFC91
from lockref.storage.place import key_in
from lockref.stores.port import ObjectStore
from lockref.stores.probe.selftest import ensure_usable


class StorageLock(LeaseLock[LockFile]):
    """A lock in an object store, safe within a declared clock bound, compatible with Hudi's. Blocking, thread-safe.

    store: where the lock object lives; its own request timeout should be
        `terms.request_timeout_ns`, as `from_context` makes it (H18).
    config: timing and the table's base path, as Hudi's properties give them.
    key: of the lock object in `store`. Default: that of the table at the config's base path, as
        Hudi has it; a store that lies elsewhere is refused (`key_in`).
    margin_ns: M; default is the config's, else the drift bound. request_timeout_ns: default r/3, at most 5 s.
    listener: told of every grant, renewal, loss, release and metric.
    on_loss: told when a grant is lost. audit: writes down every tenure, off the lock path (H25).
    `LeaseLock` tells its calls and errors.
    """

    parts: ClassVar[Parts[LockFile]] = RFC91
    decode_record = staticmethod(lockfile.decode)
    record_format = "rfc91"

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
        runtime = runtime or ThreadRuntime()
        terms = config.terms(request_timeout_ns)
        self._store = store
        gated: GatedClient[LockFile] = assemble(
            # H22: one owner per instance, whatever the process or host.
            self.parts, store, key or key_in(store, config.base_path), owner=self.parts.owner(runtime),
            serialize=lockfile.serialize, parse=lockfile.parse, terms=terms, poll_interval_ns=config.poll_interval_ns,
            runtime=runtime, listener=listener, on_loss=on_loss, audit=audit,
        )  # fmt: skip
        super().__init__(gated, patience_ns=terms.validity_ns + terms.buffer_ns)

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
