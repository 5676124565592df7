"""Does this store keep the one promise that the lock stands on? (H23, U13)

Old emulators and some S3-compatibles accept the condition headers and ignore
them, or check and write in two steps. Both look healthy until two clients
race. The test races on an object of its own next to the lock object and
removes it afterwards; it takes about twenty requests.

What it shows is a violation, never its absence: a check-then-write store with
a narrow window may pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockref.errors import BackendUnavailable, CapabilityMissing, StoreRejected
from lockref.runtime import Runtime
from lockref.stores.port import ObjectStore, Outcome, Version, WriteReply

RACERS = 6
ROUNDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestResult:
    """What was seen: creates and replacements raced for, and how many racers won each."""

    create_winners: tuple[int, ...]
    replace_winners: tuple[int, ...]


def self_test(store: ObjectStore, *, key: str, runtime: Runtime, request_timeout_ns: int) -> SelfTestResult:
    """Check conditional writes on `key`, an object that nobody else uses.

    Raises CapabilityMissing if a condition was not honoured, StoreRejected if
    the store refuses such requests, BackendUnavailable if it does not answer.
    """
    probe = _Probe(store, key, runtime, request_timeout_ns)
    try:
        creates, replaces = [], []
        for number in range(ROUNDS):
            creates.append(probe.race(f"create {number}", version=None))
            current = probe.version()
            replaces.append(probe.race(f"replace {number}", version=current))
            probe.must_fail(store.put_if_version(key, b"stale", current), "a replacement with a stale version")
            probe.must_fail(store.put_if_absent(key, b"again"), "a create over an existing object")
            gone = probe.version()
            store.delete(key)
            probe.must_fail(store.put_if_version(key, b"ghost", gone), "a replacement of a deleted object")
        return SelfTestResult(create_winners=tuple(creates), replace_winners=tuple(replaces))
    finally:
        store.delete(key)


class _Probe:
    def __init__(self, store: ObjectStore, key: str, runtime: Runtime, request_timeout_ns: int) -> None:
        self._store = store
        self._key = key
        self._runtime = runtime
        self._request_timeout_ns = request_timeout_ns

    def race(self, label: str, *, version: Version | None) -> int:
        """Let RACERS write at once; exactly one may win. The number of winners."""
        replies: list[WriteReply] = []

        def write(number: int) -> None:
            body = f"{label} racer {number}".encode()
            if version is None:
                replies.append(self._store.put_if_absent(self._key, body))
            else:
                replies.append(self._store.put_if_version(self._key, body, version))

        tasks = [
            self._runtime.spawn(lambda number=number: write(number), name=f"self-test-{number}")  # type: ignore[misc]
            for number in range(RACERS)
        ]
        for task in tasks:
            task.join(2 * self._request_timeout_ns)
        for reply in replies:
            self._refuse(reply, label)
        winners = sum(reply.outcome is Outcome.APPLIED for reply in replies)
        # A winner whose answer was lost may be among those that we did not hear from.
        unheard = RACERS - len(replies) + sum(reply.outcome is Outcome.AMBIGUOUS for reply in replies)
        if winners > 1:
            raise CapabilityMissing(
                f"testing conditional writes on {self._key}: {winners} of {RACERS} racers won one {label}; "
                f"this store does not make them atomic: no lock can stand on it, choose another"
            )
        if winners == 0 and unheard:
            raise BackendUnavailable(f"testing conditional writes on {self._key}: {unheard} requests had no answer")
        return winners

    def version(self) -> Version:
        reply = self._store.read(self._key)
        if reply.version is None:
            raise BackendUnavailable(
                f"testing conditional writes on {self._key}: reading back what was written gave {reply.outcome.name} "
                f"{reply.reason}"
            )
        return reply.version

    def must_fail(self, reply: WriteReply, what: str) -> None:
        self._refuse(reply, what)
        if reply.outcome is Outcome.APPLIED:
            raise CapabilityMissing(
                f"testing conditional writes on {self._key}: {what} succeeded; this store ignores the condition: "
                f"no lock can stand on it, choose another"
            )

    def _refuse(self, reply: WriteReply, what: str) -> None:
        if reply.outcome is Outcome.REJECTED:
            raise StoreRejected(
                f"testing conditional writes on {self._key}: {what} was refused ({reply.status} {reply.reason}): "
                f"give this client the right to write there, or choose another store"
            )
