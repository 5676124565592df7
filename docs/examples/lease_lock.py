"""A whole lock in one file: a lease in one JSON object, without a heartbeat.

It holds for at most one validity and never renews, so it needs no second task.
Everything else a lease lock owes its users is here: a condition on every
write, a deadline counted from before the write was sent, a re-read after every
answer that leaves the outcome open, a fencing token that survives release, and
honest answers.

    lockref sim e30 --provider docs/examples/lease_lock.py:LeaseLock --seeds 1..200
"""

from __future__ import annotations

import contextlib
import json

from lockref import Grant, LockContext, LockError, LockTimeout, Outcome, OutcomeUnknown, RecordView, ReleaseFailed
from lockref.errors import CorruptRecord, LockLost, LockNotHeld, StoreRejected
from lockref.runtime import NS_PER_S, MonoNs, Task, WallNs

MARGIN_NS = NS_PER_S // 2


class LeaseLock:
    """One JSON object: who, until when, under which number, and a nonce that makes every body unique."""

    def __init__(self, context: LockContext) -> None:
        self._runtime = context.runtime
        self._settings = context.settings
        self._request_timeout_ns = context.settings.validity_ns // 10
        self._store = context.open_store(self._request_timeout_ns)
        self._mutex = context.runtime.mutex()
        self._user: Task | None = None
        self._owner = context.runtime.token_bytes(8).hex()
        self._grant: Grant | None = None
        self._wall_deadline_ns = 0
        self._token_seen = 0

    @staticmethod
    def decode_record(body: bytes) -> RecordView | None:
        """Tells the checks what a stored record says; without it they judge beliefs and effects alone."""
        try:
            record = json.loads(body)
            return RecordView(
                owner=record["owner"],
                token=record["token"],
                valid_until_ns=WallNs(record["until"]),
                is_released=record["released"],
                nonce=record["nonce"],
            )
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def grant(self) -> Grant | None:
        return self._grant

    def holds(self) -> bool:
        """Both clocks: the monotonic one does not step, the wall one counts through a suspend."""
        grant = self._grant
        return (
            grant is not None
            and grant.deadline_ns is not None
            and self._runtime.monotonic_ns() < grant.deadline_ns
            and self._runtime.wall_ns() < self._wall_deadline_ns
        )

    def try_lock(self) -> bool:
        return self._acquire(0)

    def lock(self, timeout_s: float) -> bool:
        return self._acquire(int(timeout_s * NS_PER_S))

    def _acquire(self, timeout_ns: int) -> bool:
        # Even a single attempt may need three requests: look, write, look again.
        give_up_ns = self._runtime.monotonic_ns() + max(timeout_ns, 3 * self._request_timeout_ns)
        is_granted = False
        try:
            while True:
                answer = self._attempt(give_up_ns)
                if answer is True:
                    is_granted = True
                    return True
                left_ns = give_up_ns - self._runtime.monotonic_ns()
                if left_ns <= 0 or timeout_ns == 0:
                    # The last answer counts: whoever was denied before may have written since, unheard.
                    if answer is False:
                        return False
                    raise OutcomeUnknown("nobody else's grant was seen, and ours could not be written; try again later")
                pause_ns = int(self._settings.poll_interval_ns * self._runtime.random.uniform(0.2, 1.0))
                self._runtime.sleep(min(pause_ns, left_ns))
        finally:
            if not is_granted:
                self._leave()

    def _enter(self) -> bool:
        """One task of this process at a time; one that died has left its grant to lapse."""
        me = self._runtime.current_task()
        with self._mutex:
            if self._user == me and self.holds():
                raise LockError("this task holds the lock already: it cannot be entered twice")
            if self._user is not None and self._user != me and (self._user.is_alive() or self.holds()):
                return False
            self._user = me
            return True

    def _leave(self) -> None:
        with self._mutex:
            if self._user == self._runtime.current_task():
                self._user = None

    def _attempt(self, give_up_ns: int) -> bool | None:
        """True: granted. False: somebody else has it. None: it was left open."""
        if not self._enter():
            return False if self.holds() else None
        found = self._store.read(self._settings.key)
        if found.outcome is Outcome.REJECTED:
            raise StoreRejected(f"reading {self._settings.key}: {found.reason}")
        if found.outcome is not Outcome.APPLIED:
            return None
        view = None
        if found.body is not None:
            view = self.decode_record(found.body)
            if view is None:
                raise CorruptRecord(f"{self._settings.key} holds no record of this lock: repair it by hand")
            self._token_seen = max(self._token_seen, view.token or 0)
            assert view.valid_until_ns is not None
            expired = self._runtime.wall_ns() > view.valid_until_ns + self._settings.drift_bound_ns
            # Our own record is an earlier attempt whose answer was lost: replace it, like an expired one.
            if not view.is_released and not expired and view.owner != self._owner:
                return False
        # Time counts from here: whatever the request and its answer take is taken from the lease.
        mono_ns, wall_ns = self._runtime.monotonic_ns(), self._runtime.wall_ns()
        if mono_ns >= give_up_ns:
            return None
        token = self._token_seen + 1
        body = self._body(token, wall_ns + self._settings.validity_ns, released=False)
        if found.version is None:
            reply = self._store.put_if_absent(self._settings.key, body)
        else:
            reply = self._store.put_if_version(self._settings.key, body, found.version)
        version = reply.version
        if reply.outcome is Outcome.REJECTED:
            raise StoreRejected(f"writing {self._settings.key}: {reply.reason}")
        if reply.outcome is Outcome.PRECONDITION_FAILED or reply.outcome is Outcome.AMBIGUOUS:
            # Even a failed precondition may be our own write, sent twice below us: only a read can tell.
            if self._runtime.monotonic_ns() >= give_up_ns:
                return None
            seen = self._store.read(self._settings.key)
            if seen.outcome is not Outcome.APPLIED:
                return None
            if seen.body != body:
                other = None if seen.body is None else self.decode_record(seen.body)
                # While the version is the one that we wrote on, our write may still land.
                is_taken = other is not None and not other.is_released and seen.version != found.version
                return False if is_taken else None
            version = seen.version
        elif reply.outcome is not Outcome.APPLIED:
            return None
        self._wall_deadline_ns = wall_ns + self._settings.validity_ns - MARGIN_NS
        deadline_ns = MonoNs(mono_ns + self._settings.validity_ns - MARGIN_NS)
        self._grant = Grant(owner=self._owner, token=token, version=version, deadline_ns=deadline_ns)
        if self.holds():
            return True
        # The answer took longer than the lease: what was written is of no use, and it expires by itself.
        self._grant = None
        return None

    def unlock(self) -> None:
        if self._user != self._runtime.current_task() or self._grant is None or self._grant.version is None:
            raise LockNotHeld("unlock by a task that has not locked it")
        was_held = self.holds()
        # From here on nobody believes, whatever becomes of the release.
        grant, self._grant = self._grant, None
        try:
            self._release(grant)
        finally:
            self._leave()
        if not was_held:
            raise LockLost("the lease had ended before unlock", token=grant.token, reason="it had lapsed")

    def _release(self, grant: Grant) -> None:
        assert grant.version is not None, "a grant of this lock has one"
        body = self._body(grant.token or 0, self._wall_deadline_ns, released=True)
        for _ in range(3):
            reply = self._store.put_if_version(self._settings.key, body, grant.version)
            if reply.outcome is Outcome.APPLIED:
                return
            seen = self._store.read(self._settings.key)
            if seen.outcome is Outcome.APPLIED and seen.version != grant.version:
                return  # released by us unheard, or somebody else's by now
            self._runtime.sleep(self._settings.poll_interval_ns // 4)
        raise ReleaseFailed("the store did not confirm the release; others wait until the lease lapses")

    def __enter__(self) -> LeaseLock:
        if not self.lock(60.0):
            raise LockTimeout("somebody else held the lock for 60 s")
        return self

    def __exit__(self, *_: object) -> None:
        self.unlock()

    def close(self) -> None:
        with contextlib.suppress(LockError):
            self.unlock()

    def _body(self, token: int, until_ns: int, *, released: bool) -> bytes:
        nonce = self._runtime.token_bytes(8).hex()
        record = {"owner": self._owner, "token": token, "until": until_ns, "released": released, "nonce": nonce}
        return json.dumps(record, separators=(",", ":")).encode()
