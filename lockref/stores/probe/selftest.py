"""Is this store fit to carry a lock? Asked of the store itself, before the first lock (H23).

A server that ignores conditions looks healthy until two clients hold one lock
(U13), and a health page says nothing about it. So the question is put in
writes. First one after the other: each condition met once, then not met. Then
as races, because a server that checks and writes in two steps answers every
single request right. A pass proves little about a distributed store; one
ignored condition proves enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lockref.errors import BackendUnavailable, CapabilityMissing
from lockref.runtime import NS_PER_MS, NS_PER_S, Runtime, ThreadRuntime
from lockref.stores.port import ObjectStore, Version, WriteReply
from lockref.stores.probe.bounded_request import Asking
from lockref.stores.probe.measured import Measurements
from lockref.stores.probe.races import RACES_NS_DEFAULT, ROUNDS_DEFAULT, Races
from lockref.stores.probe.readings import AfterRefusal, read_refusal
from lockref.words import Outcome

RACERS_DEFAULT: Final = 8
RACERS_THOROUGH: Final = 16
ROUNDS_THOROUGH: Final = 60
RACES_NS_THOROUGH: Final = 4500 * NS_PER_MS
"""For somebody who waits for the answer: `lockref doctor --store`."""

PATIENCE_DEFAULT_NS: Final = 10 * NS_PER_S


def ensure_usable(
    store: ObjectStore,
    key_prefix: str,
    *,
    address: str = "the store",
    racers: int = RACERS_DEFAULT,
    rounds: int = ROUNDS_DEFAULT,
    races_ns: int = RACES_NS_DEFAULT,
    patience_ns: int = PATIENCE_DEFAULT_NS,
    tolerated: frozenset[str] = frozenset(),
    runtime: Runtime | None = None,
) -> Measurements:
    """Return what was measured if the store keeps its conditions, as far as some writes can tell.

    tolerated: clauses that this store is known to break, such as `C8`. They raise no error; the caller tells of them.
    Errors: those of `measure`; CapabilityMissing if a condition was ignored, with
        the condition and what a lock would do without it.
    """
    found = measure(
        store,
        key_prefix,
        address=address,
        racers=racers,
        rounds=rounds,
        races_ns=races_ns,
        patience_ns=patience_ns,
        runtime=runtime,
    )
    require_kept(found, address=address, tolerated=tolerated)
    return found


def require_kept(found: Measurements, *, address: str, tolerated: frozenset[str] = frozenset()) -> None:
    """Raise CapabilityMissing if a condition was ignored that is not tolerated."""
    ignored = [finding for finding in found.ignored if finding.condition.clause not in tolerated]
    if ignored:
        told = "; ".join(finding.sentence for finding in ignored)
        raise CapabilityMissing(
            f"{address} ignores preconditions: it {told}. No lock is safe on it: choose another store"
        )


def measure(
    store: ObjectStore,
    key_prefix: str,
    *,
    address: str = "the store",
    racers: int = RACERS_DEFAULT,
    rounds: int = ROUNDS_DEFAULT,
    races_ns: int = RACES_NS_DEFAULT,
    patience_ns: int = PATIENCE_DEFAULT_NS,
    runtime: Runtime | None = None,
) -> Measurements:
    """Put the store's conditions to the test, and tell what it did.

    Writes small objects under fresh keys below `key_prefix` and removes them.

    address: what to call the store in a message.
    racers: how many requests are in flight together in a race; 0 leaves the races out.
    rounds: of each race at most. races_ns: for all races together; a slow store runs fewer rounds, at least one.
    patience_ns: time limit for all requests outside the races, retries after throttling included. When it has
        passed, no request is sent and BackendUnavailable is raised.
    Errors: BackendUnavailable if the store does not answer, is too slow or
        refuses us, with the address and how long we waited; CapabilityMissing if it has no conditional writes.
    """
    runtime = runtime or ThreadRuntime()
    nonce = runtime.token_bytes(8).hex()
    prefix = f"{key_prefix.strip('/')}/" if key_prefix.strip("/") else ""
    base = f"{prefix}selftest-{nonce}"
    found = Measurements(credentials=str(getattr(store, "credentials_note", "")))
    asking = Asking(store, found, address=address, patience_ns=patience_ns, runtime=runtime)
    try:
        _one_by_one(asking, f"{base}-conditions")
        # A store that ignores conditions needs no race to be found out.
        if racers and not any(found.findings[name].status == "ignored" for name in ("create", "replace")):
            Races(asking, base, racers=racers, rounds=rounds, budget_ns=races_ns).run()
    except BackendUnavailable:
        # An ignored condition is proven, even if the store fails later.
        if not found.ignored:
            raise
    return found


def _one_by_one(asking: Asking, key: str) -> None:
    """Each condition alone: met once, then not met. What is there is read back after every write."""
    store, findings = asking.store, asking.found.findings
    try:
        first = asking.version(
            "create an object", lambda: store.put_if_absent(key, b"1"), plainly=lambda: store.put(key, b"1")
        )
        _refused(asking, "create", lambda: store.put_if_absent(key, b"again"))
        version = _what_stays(asking, "create", key, b"1", refused=b"again")
        asking.version(
            "replace an object",
            lambda: store.put_if_version(key, b"2", version),
            plainly=lambda: store.put(key, b"2"),
        )
        _refused(asking, "replace", lambda: store.put_if_version(key, b"stale", first))
        version = _what_stays(asking, "replace", key, b"2", refused=b"stale")
        _delete(asking, key, stale=first, current=version)
        if asking.read(key).body is not None:
            reply = store.delete(key)
            if reply.outcome is not Outcome.APPLIED:
                findings["replace_absent"].detail = f"nothing can be deleted ({reply.reason})"
                return
        if (
            asking.refused(
                "a replacement of an object that is gone (C5)", lambda: store.put_if_version(key, b"ghost", version)
            )
            and asking.read(key).is_absent
        ):
            findings["replace_absent"].kept()
        else:
            findings["replace_absent"].ignored("accepted a replacement of an object that is gone")
            store.delete(key)
        again = asking.version("create an object", lambda: store.put_if_absent(key, b"1"))
        asking.found.versions_repeat.append(again == first)
    finally:
        # Nobody else knows the key, and some servers know no conditional delete.
        store.delete(key)


def _refused(asking: Asking, name: str, send: Callable[[], WriteReply]) -> None:
    """Send what must be refused. It is noted at once if it was not: such a store may not get as far as a read."""
    finding = asking.found.findings[name]
    if not asking.refused(f"{finding.condition.words} ({finding.condition.clause})", send):
        finding.ignored(f"accepted {finding.condition.words}")


def _what_stays(asking: Asking, name: str, key: str, body: bytes, *, refused: bytes) -> Version:
    """After a refusal: the last confirmed write is there (C21), and not the refused one. Returns the version there."""
    finding, shown = asking.found.findings[name], asking.found.findings["read_after_write"]
    reply = asking.read(key)
    # A write that was confirmed instead of refused has been noted already (`_refused`), and that stays.
    end = read_refusal(is_done=False, is_delete=False, sent=refused, before=body, after=reply.body)
    if reply.body == body:
        shown.kept()
    if end is AfterRefusal.RIGHT:
        finding.kept()
    elif end is AfterRefusal.TOOK_BYTES:
        finding.ignored(f"does not hold what was written: it refused {finding.condition.words}, and took its bytes")
    elif end is AfterRefusal.CHANGED:
        # Neither body is there: the read is an old one, or the write is lost. The condition is not to blame (C21).
        shown.ignored("does not hold what was written, right after it confirmed the write")
    # A store that lost the object has no version to go on with: the next write says so.
    return reply.version or Version("0")


def _delete(asking: Asking, key: str, *, stale: Version, current: Version) -> None:
    """A delete with a stale version spares the object; with the current one it removes it (C8)."""
    finding = asking.found.findings["delete"]
    reply = asking.write(lambda: asking.store.delete(key, stale))
    is_there = asking.read(key).body is not None
    if reply.outcome is Outcome.APPLIED or not is_there:
        finding.ignored(f"accepted a delete of a stale version{' and did nothing' if is_there else ''}")
        return
    if reply.outcome is not Outcome.PRECONDITION_FAILED:
        # 501 is an honest answer. No answer says nothing.
        finding.status = "refused" if reply.outcome is Outcome.REJECTED else "not_measured"
        finding.detail = reply.reason
        return
    reply = asking.write(lambda: asking.store.delete(key, current))
    if reply.outcome is not Outcome.APPLIED:
        finding.status, finding.detail = "refused", f"with the current version, too: {reply.reason}"
    elif asking.read(key).is_absent:
        finding.kept()
    else:
        finding.ignored("confirmed a delete and kept the object")
