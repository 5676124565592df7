"""Is this store fit to carry a lock? Asked of the store itself, before the first lock (H23).

A server that ignores conditions looks healthy until two clients hold one lock
(U13), and a health page says nothing about it. So the question is put in
writes: a create and its refusal, a replacement and the refusal of its stale
twin, and a small race that must have one winner. A pass proves little about a
distributed store; a failure proves enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lockref.errors import BackendUnavailable, CapabilityMissing
from lockref.runtime import NS_PER_MS, NS_PER_S, MonoNs, Runtime, ThreadRuntime
from lockref.stores.port import ObjectStore, Outcome, ReadReply, Version, WriteReply

RACERS_DEFAULT: Final = 4
PATIENCE_DEFAULT_NS: Final = 10 * NS_PER_S
_PAUSE_NS: Final = 100 * NS_PER_MS


def ensure_usable(
    store: ObjectStore,
    key_prefix: str,
    *,
    address: str = "the store",
    racers: int = RACERS_DEFAULT,
    patience_ns: int = PATIENCE_DEFAULT_NS,
    runtime: Runtime | None = None,
) -> None:
    """Return if the store keeps its conditions, as far as a few writes can tell.

    Writes two small objects under fresh keys below `key_prefix` and removes them.

    address: what to call the store in a message.
    racers: how many tasks create one object at once; 0 leaves the race out.
    patience_ns: how long throttling is waited out, over all requests together.
    Errors: BackendUnavailable if the store does not answer or refuses us, with
        the address and how long we waited; CapabilityMissing if a condition
        was ignored, with the condition.
    """
    runtime = runtime or ThreadRuntime()
    check = _SelfTest(store, address=address, patience_ns=patience_ns, runtime=runtime)
    nonce = runtime.token_bytes(8).hex()
    prefix = f"{key_prefix.strip('/')}/" if key_prefix.strip("/") else ""
    check.refusals(f"{prefix}selftest-{nonce}-conditions")
    if racers:
        check.race(f"{prefix}selftest-{nonce}-race", racers)


class _SelfTest:
    def __init__(self, store: ObjectStore, *, address: str, patience_ns: int, runtime: Runtime) -> None:
        self._store = store
        self._address = address
        self._runtime = runtime
        self._started_ns = runtime.monotonic_ns()
        self._deadline_ns = MonoNs(self._started_ns + patience_ns)

    def refusals(self, key: str) -> None:
        """Each condition one after the other: met once, then not met."""
        store = self._store
        first = self._patiently(lambda: store.put_if_absent(key, b"1"))
        old = self._require_version(first, "create an object")
        self._require_refusal(
            self._patiently(lambda: store.put_if_absent(key, b"again")), "a create of an object that exists (C1)"
        )
        second = self._patiently(lambda: store.put_if_version(key, b"2", old))
        self._require_version(second, "replace an object")
        self._require_refusal(
            self._patiently(lambda: store.put_if_version(key, b"stale", old)), "a replacement of a stale version (C4)"
        )
        self._require_body(key, b"2", "after one replacement")
        # Nobody else knows the key, and some servers know no conditional delete.
        store.delete(key)

    def race(self, key: str, racers: int) -> None:
        """Several creates at once; at most one may succeed, and its body must stay (C2)."""
        replies: dict[int, WriteReply] = {}
        start = self._runtime.event()

        def racer(number: int) -> Callable[[], None]:
            def create() -> None:
                start.wait()
                replies[number] = self._store.put_if_absent(key, _body(number))

            return create

        tasks = [self._runtime.spawn(racer(number), name=f"selftest-{number}") for number in range(racers)]
        start.set()
        for task in tasks:
            task.join()
        for reply in replies.values():
            if reply.outcome in (Outcome.AMBIGUOUS, Outcome.REJECTED):
                raise self._unavailable("race to create an object", reply)
        winners = [number for number, reply in sorted(replies.items()) if reply.outcome is Outcome.APPLIED]
        if len(winners) > 1:
            raise CapabilityMissing(
                f"{self._address} let {len(winners)} of {racers} simultaneous creates of one object succeed (C2): "
                "no lock is safe on it; choose another backend"
            )
        # No winner at all is allowed where every loser met a conflict or was throttled.
        for number in winners:
            self._require_body(key, _body(number), "after a race")
            self._store.delete(key)

    def _patiently(self, send: Callable[[], WriteReply]) -> WriteReply:
        """Send until the store neither throttles nor reports a conflict, or the patience is used up."""
        while True:
            reply = send()
            if reply.outcome not in (Outcome.THROTTLED, Outcome.CONFLICT):
                return reply
            if self._runtime.monotonic_ns() >= self._deadline_ns:
                return reply
            self._runtime.sleep(_PAUSE_NS)

    def _require_version(self, reply: WriteReply, what: str) -> Version:
        if reply.outcome is Outcome.APPLIED and reply.version is not None:
            return reply.version
        raise self._unavailable(what, reply)

    def _require_refusal(self, reply: WriteReply, what: str) -> None:
        if reply.outcome is Outcome.APPLIED:
            raise CapabilityMissing(
                f"{self._address} accepted {what}: it ignores preconditions, so no lock is safe on it; "
                "choose another backend"
            )
        if reply.outcome is not Outcome.PRECONDITION_FAILED:
            raise self._unavailable(f"be refused {what}", reply)

    def _require_body(self, key: str, body: bytes, when: str) -> None:
        reply = self._store.read(key)
        if reply.outcome is not Outcome.APPLIED:
            raise self._unavailable("read an object", reply)
        if reply.body != body:
            raise CapabilityMissing(
                f"{self._address} does not hold what was written {when}: the condition was not kept at the moment of "
                "the write; choose another backend"
            )

    def _unavailable(self, what: str, reply: WriteReply | ReadReply) -> BackendUnavailable:
        waited_ms = (self._runtime.monotonic_ns() - self._started_ns) / NS_PER_MS
        answer = reply.reason or reply.outcome.name.lower().replace("_", " ")
        return BackendUnavailable(
            f"{self._address} cannot be used: tried to {what}, waited {waited_ms:.0f} ms in all, and got: {answer}"
        )


def _body(number: int) -> bytes:
    return b"racer %d" % number
