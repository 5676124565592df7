"""Locks whose record does not tell alone what a write does: it depends on what the writer was doing.

Three kinds are correct: a token that rises with each write, a direct hand-over to a waiter, a release by a stamp in the
past. Each has wrong twins.
"""

from __future__ import annotations

from typing import Any, ClassVar

from lockref.errors import OutcomeUnknown, ReleaseFailed
from lockref.provider import LockContext, RecordView
from lockref.runtime import NS_PER_MS, WallNs
from lockref.stores.port import ReadReply, Version
from lockref.words import Outcome
from tests.quality.planted.strangers import PlainLock, decode_line


class TokenPerWrite(PlainLock):
    """Correct: each write has a token of its own, as a generation of GCS is. The client works with the first."""

    def next_token(self, view: RecordView | None) -> int:
        return self.token_seen + 1

    def renew(self, epoch: int) -> None:
        mono_ns, wall_ns = self.runtime.monotonic_ns(), self.runtime.wall_ns()
        until_ms = max(self.until_ms, (wall_ns + self.settings.validity_ns) // NS_PER_MS)
        token = self.token + 1
        body = self.line(until_ms, token, "held")
        reply = self.put(body, self.version)
        version = reply.version
        if reply.outcome in (Outcome.AMBIGUOUS, Outcome.PRECONDITION_FAILED):
            seen = self.store.read(self.key)
            if seen.outcome is Outcome.APPLIED:
                version = seen.version if seen.body == body else None
                if version is None and epoch == self.epoch and seen.version != self.version:
                    self.version = seen.version if self.is_mine(seen) else None
        if version is not None and epoch == self.epoch and self.holds():
            self.token = self.token_seen = token
            self.extend(version, mono_ns, wall_ns, until_ms)

    def is_mine(self, seen: ReadReply) -> bool:
        view = None if seen.body is None else self.decode(seen.body)
        if view is None or view.owner != self.me or view.is_released:
            return False
        # A renewal of ours that was not heard of: the next one goes on from its token.
        self.token = self.token_seen = max(self.token, view.token or 0)
        return True

    def release(self, version: Version) -> None:
        for _ in range(4):
            # Made anew each time: a renewal of ours may have landed meanwhile, and no token may be written twice.
            self.token += 1
            if self.put(self.line(self.runtime.wall_ns() // NS_PER_MS, self.token, "free"), version).outcome is (
                Outcome.APPLIED
            ):
                return
            seen = self.store.read(self.key)
            if seen.outcome is Outcome.APPLIED:
                if not self.is_mine(seen):
                    return
                assert seen.version is not None
                version = seen.version
            self.runtime.sleep(self.timeout_ns)
        raise ReleaseFailed("the store did not take the release")


def decode_stamp(body: bytes) -> RecordView | None:
    """As `decode_line`, where the state says nothing: only the stamp does."""
    parts = body.decode("ascii", "replace").split(" ")
    if len(parts) != 5 or not parts[1].isdecimal() or not parts[2].isdecimal():
        return None
    return RecordView(
        owner=parts[0], token=int(parts[2]), valid_until_ns=WallNs(int(parts[1]) * NS_PER_MS), nonce=parts[4]
    )


class ReleasesByStamp(PlainLock):
    """Correct: gives back by a stamp that has passed on every clock, and has no other word for it."""

    decode_record: ClassVar[Any] = staticmethod(decode_stamp)

    def decode(self, body: bytes) -> RecordView | None:
        return decode_stamp(body)

    def put(self, body: bytes, version: Version | None) -> Any:
        return super().put(body.replace(b" free ", b" - ").replace(b" held ", b" - "), version)

    def landed(self, body: bytes, end_ns: int) -> Version | None:
        return super().landed(body.replace(b" held ", b" - "), end_ns)

    def past_ms(self) -> int:
        return (self.runtime.wall_ns() - self.settings.validity_ns) // NS_PER_MS

    def is_mine(self, seen: ReadReply) -> bool:
        view = None if seen.body is None else self.decode(seen.body)
        assert view is None or view.valid_until_ns is not None
        return super().is_mine(seen) and view.valid_until_ns > self.past_ms() * NS_PER_MS  # type: ignore[union-attr]

    def release(self, version: Version) -> None:
        for _ in range(4):
            if self.put(self.line(self.past_ms(), self.token, "free"), version).outcome is Outcome.APPLIED:
                return
            seen = self.store.read(self.key)
            if seen.outcome is Outcome.APPLIED:
                if not self.is_mine(seen):
                    return
                assert seen.version is not None
                version = seen.version
            self.runtime.sleep(self.timeout_ns)
        raise ReleaseFailed("the store did not take the release")


def decode_with_waiter(body: bytes) -> RecordView | None:
    """As `decode_line`, and the waiter's name behind it."""
    return decode_line(body.rpartition(b" ")[0])


def waiter_in(body: bytes) -> str:
    """Who waits, by the name in the record; "-" for nobody."""
    return body.rpartition(b" ")[2].decode("ascii", "replace")


NOBODY = "-"


class HandsOver(PlainLock):
    """Correct: a waiter writes its name into the record, and the holder's unlock makes it the owner."""

    decode_record: ClassVar[Any] = staticmethod(decode_with_waiter)

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.waiter = NOBODY
        self.waits = False
        self.noted = False

    def decode(self, body: bytes) -> RecordView | None:
        return decode_with_waiter(body)

    def line(self, until_ms: int, token: int, state: str) -> bytes:
        return super().line(until_ms, token, state) + f" {self.waiter}".encode()

    # Waiting.

    def acquire(self, timeout_ns: int) -> bool:
        # What is left of the caller's time takes the name out of the record again.
        own_ns = timeout_ns - 8 * self.timeout_ns
        self.waits, self.noted, self.waiter = own_ns > 0, False, NOBODY
        if super().acquire(own_ns if self.waits else timeout_ns):
            return True
        return self.noted and self.withdraw()

    def attempt(self, end_ns: int) -> bool | None:
        if self.waits and self.enter():
            found = self.store.read(self.key)
            if self.was_given(found):
                return True
            view = None if found.body is None else self.decode(found.body)
            if view is not None and view.owner != self.me and not self.is_free(view) and not self.noted:
                assert found.body is not None
                if waiter_in(found.body) == NOBODY and self.runtime.monotonic_ns() < end_ns:
                    self.noted = True
                    self.put(self.with_waiter(found.body, self.me), found.version)
        self.waiter = NOBODY
        return super().attempt(end_ns)

    def with_waiter(self, body: bytes, waiter: str) -> bytes:
        return body.rpartition(b" ")[0] + f" {waiter}".encode()

    def was_given(self, found: ReadReply) -> bool:
        """Did the holder make us the owner? Then its stamp counts, on both our clocks."""
        view = None if found.outcome is not Outcome.APPLIED or found.body is None else self.decode(found.body)
        if not self.noted or view is None or view.owner != self.me or view.is_released:
            return False
        assert view.valid_until_ns is not None, "a line has a stamp"
        assert view.token is not None, "a line has a token"
        assert found.version is not None, "what was read has a version"
        wall_ns = view.valid_until_ns - self.settings.validity_ns
        mono_ns = self.runtime.monotonic_ns() - max(0, self.runtime.wall_ns() - wall_ns)
        self.token = self.token_seen = view.token
        self.waiter = NOBODY
        self.begin(found.version, mono_ns, wall_ns, view.valid_until_ns // NS_PER_MS)
        if not self.holds():
            self.version = None
            return False
        self.epoch += 1
        epoch = self.epoch
        self.runtime.spawn(lambda: self.beat(epoch), name="heartbeat")
        return True

    def withdraw(self) -> bool:
        """Take the name out of the record; True if the lock was given to it first."""
        for _ in range(3):
            if not self.enter():
                return False
            found = self.store.read(self.key)
            if self.was_given(found):
                return True
            self.leave()
            if found.outcome is not Outcome.APPLIED:
                continue
            if found.body is None or waiter_in(found.body) != self.me:
                return False
            if self.put(self.with_waiter(found.body, NOBODY), found.version).outcome is Outcome.APPLIED:
                return False
        raise OutcomeUnknown("the holder may make us the owner yet")

    # Keeping and giving.

    def is_mine(self, seen: ReadReply) -> bool:
        is_mine = super().is_mine(seen)
        if is_mine:
            assert seen.body is not None
            self.waiter = waiter_in(seen.body)
        return is_mine

    def release(self, version: Version) -> None:
        for _ in range(4):
            if self.put(self.last_line(), version).outcome is Outcome.APPLIED:
                return
            seen = self.store.read(self.key)
            if seen.outcome is Outcome.APPLIED:
                if not self.is_mine(seen):
                    return
                assert seen.version is not None
                version = seen.version
            self.runtime.sleep(self.timeout_ns)
        raise ReleaseFailed("the store did not take the release")

    def last_line(self) -> bytes:
        """A free record, or the waiter's."""
        if self.waiter == NOBODY:
            return self.line(self.runtime.wall_ns() // NS_PER_MS, self.token, "free")
        until_ms = (self.runtime.wall_ns() + self.settings.validity_ns) // NS_PER_MS
        nonce = self.runtime.token_bytes(4).hex()
        return f"{self.waiter} {until_ms} {self.token + 10} held {nonce} {NOBODY}".encode()


# From here on wrong.


class TokensOverlap(TokenPerWrite):
    """Renewals raise the token, and the next grant begins where the last one began: its token was seen before (S2)."""

    def next_token(self, view: RecordView | None) -> int:
        return max(self.token_seen - 1, 1)


class ReleasesByTheNextStamp(ReleasesByStamp):
    """Its unlock writes a stamp ahead, as a renewal does, and says that the lock is free (S7)."""

    def past_ms(self) -> int:
        return (self.runtime.wall_ns() + self.settings.validity_ns) // NS_PER_MS

    def is_mine(self, seen: ReadReply) -> bool:
        return PlainLock.is_mine(self, seen)


class RenewsIntoThePast(ReleasesByStamp):
    """Its heartbeat writes a stamp that has passed, and the holder works on (S3)."""

    def renew(self, epoch: int) -> None:
        version = self.version
        if version is not None:
            reply = self.put(self.line(self.past_ms(), self.token, "held"), version)
            if reply.version is not None and epoch == self.epoch:
                self.begin(reply.version, self.runtime.monotonic_ns(), self.runtime.wall_ns(), self.until_ms)


class GivesAndKeeps(HandsOver):
    """The heartbeat makes the waiter the owner, while the holder works on (S3, S5)."""

    def renew(self, epoch: int) -> None:
        version = self.version
        seen = self.store.read(self.key)
        if version is None or seen.outcome is not Outcome.APPLIED or not self.is_mine(seen):
            return
        if self.waiter == NOBODY:
            super().renew(epoch)
        else:
            self.put(self.last_line(), seen.version)


class WaiterGivesItself(HandsOver):
    """The waiter does not write its name beside the owner's, but in its place (S5)."""

    def with_waiter(self, body: bytes, waiter: str) -> bytes:
        if waiter == NOBODY:
            return super().with_waiter(body, waiter)
        until_ms = (self.runtime.wall_ns() + self.settings.validity_ns) // NS_PER_MS
        view = self.decode(body)
        assert view is not None, "a waiter has read the record"
        assert view.token is not None, "a line has a token"
        return f"{waiter} {until_ms} {view.token + 10} held {self.runtime.token_bytes(4).hex()} {NOBODY}".encode()


class GivesBlindly(HandsOver):
    """Its unlock writes the waiter's record over whatever stands there (S5, S6)."""

    def put(self, body: bytes, version: Version | None) -> Any:
        if version is None or body.startswith(self.me.encode()) or self.version is not None or self.noted:
            return super().put(body, version)
        return self.store.put(self.key, body)
