"""Getting a grant: look, decide, write on condition, and begin the tenure if it is not too late.

One call makes passes until it is granted, denied or out of time (L5). Each
pass looks at the record, lets `lease.decide` judge it, and writes on the
version that it saw. Its own writes whose answers were lost are recognised in
what it reads later (H5); a call that ends without a grant leaves none behind.
"""

from __future__ import annotations

from lockref.errors import OutcomeUnknown, StoreRejected
from lockref.provider import LockEventKind
from lockref.runtime import NS_PER_MS, MonoNs
from lockref.storage import lease
from lockref.storage.audit import AuditState
from lockref.storage.exchange import Wiring, describe
from lockref.storage.fence import UNFENCED, FenceMark, Refusal, Reserved
from lockref.storage.heartbeat import Heartbeat
from lockref.storage.lease import Attempt, Lease, Sight, Step, Stored, Wait
from lockref.storage.lockfile import LockFile
from lockref.storage.polling import PollPolicy
from lockref.storage.release import Releaser
from lockref.storage.tenure import Tenure
from lockref.stores.port import Outcome, Version, WriteReply

_ROUNDS_MAX = 4
"""Looks and writes of one pass over the lock before it pauses."""

_LAST_LOOK_NS = 5 * NS_PER_MS
"""A waiter's last look begins this long before its time is up."""


class Call:
    """One acquiring call: its limits, its writes, and what it has learned.

    waits_until_ns: how long the caller waits for somebody else to finish.
    deadline_ns: the same, but at least one request timeout: how long to find
        out what is not known yet, such as the fate of a write (S7).
    """

    def __init__(self, *, waits_until_ns: int, deadline_ns: int) -> None:
        self.waits_until_ns = waits_until_ns
        self.deadline_ns = deadline_ns
        # All writes of this call, in order; a look recognises any of them (H5).
        self.attempts: list[Attempt] = []
        # What `attempts` led to, if one landed; a grant only if the call returns.
        self.tenure: Tenure | None = None
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


class Contender(Releaser):
    """Contends with other clients for the lock, by conditional writes alone."""

    def __init__(self, wiring: Wiring) -> None:
        super().__init__(wiring)
        self._poll_interval_ns = wiring.poll_interval_ns
        self._polls = PollPolicy(wiring.poll_interval_ns, self.terms.validity_ns, self._runtime)
        self._yields_until_ns = 0
        self._fence = FenceMark(
            self._store, self._key, new_nonce=self._new_nonce, on_void=self._notices.fencing_is_void
        )
        # For the acquiring write that comes next.
        self._reserved = UNFENCED
        # The record that our last release wrote, while the next acquiring write relies on it without a read.
        # The flag below turns False once another client was seen to write in between.
        self._left_behind_unchecked: Stored | None = None
        self._trusts_left_behind = True

    def _contend(self, call: Call) -> bool:
        while True:
            call.passes += 1
            pause_ns = self._pass(call)
            if pause_ns is None:
                return True
            now_ns = self._runtime.monotonic_ns()
            is_denied = call.has_seen_other and not call.is_unresolved
            if (call.waits_until_ns if is_denied else call.deadline_ns) - now_ns <= _LAST_LOOK_NS:
                return self._answer_without_grant(call)
            # The last look falls just before the end of the caller's time.
            left_ns = call.waits_until_ns - now_ns
            if left_ns <= _LAST_LOOK_NS:
                left_ns = call.deadline_ns - now_ns
            self._closing.wait(min(pause_ns, left_ns - _LAST_LOOK_NS))
            self._check_usable()

    def _pass(self, call: Call) -> int | None:
        """Look, decide, write, until there is a reason to pause. None: granted; else the pause."""
        known = self._take_left_behind()
        if known is not None:
            # This write relies on a remembered version, not on a fresh read. If the store refuses it, we still do
            # not know that somebody else holds the lock (S7).
            call.is_informed = False
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
            reserved = self._reserve(call, known)
            if not isinstance(reserved, Reserved):
                if reserved is Refusal.TROUBLE:
                    break
                known = None
                continue
            self._reserved = reserved
            step, version = self._attempt(call, known)
            attempt, known = call.attempts[-1], None
            if step is Step.AGAIN:
                break
            if step is Step.LOOK and call.has_lost_race and self._runtime.monotonic_ns() < call.waits_until_ns:
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

    def _is_over(self, call: Call) -> bool:
        """No request starts after the caller's time, except to complete the first attempt (L5)."""
        is_first = call.passes == 1 and not call.attempts
        return not is_first and self._runtime.monotonic_ns() >= call.deadline_ns

    # ---- look and decide ----

    def _look(self, call: Call) -> Stored | None:
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
                    # A released record tells of nobody: it may be what another client's cleanup left (H6).
                    is_live = stored.record is not None and not stored.record.expired
                    call.has_seen_other = call.has_seen_other or (call.is_informed and is_live)
                case _:
                    pass
        self._check_left_behind(stored)
        call.is_informed = True
        return stored

    def _decide(self, known: Stored, call: Call) -> lease.Take | Wait:
        """May the lock be taken? Time-expired leases are taken over only β after their end."""
        strays = [*self._strays, *call.attempts]
        nonces = {attempt.record.nonce for attempt in strays if attempt.record.nonce is not None}
        decision = lease.decide(
            known, owner=self.owner, own_nonces=nonces, now_wall_ns=self._runtime.wall_ns(), terms=self.terms
        )
        if isinstance(decision, lease.Take) and decision.reason is lease.Reason.LAPSED:
            self._metric("lock.dangling")
        return decision

    def _take_left_behind(self) -> Stored | None:
        """The record of our own release, if it probably still stands. The write's condition settles it."""
        self._left_behind_unchecked, self._left_behind = self._left_behind, None
        return self._left_behind_unchecked if self._trusts_left_behind else None

    def _check_left_behind(self, stored: Stored) -> None:
        """If somebody else came in between, read first from now on, until our release is seen undisturbed again."""
        left, self._left_behind_unchecked = self._left_behind_unchecked, None
        if left is not None:
            self._trusts_left_behind = left.version == stored.version

    # ---- write ----

    def _attempt(self, call: Call, known: Stored) -> tuple[Step, Version | None]:
        """One acquiring write on what is known; what its answer means, and the version it made."""
        attempt = self._new_attempt(known)
        call.attempts.append(attempt)
        was_unresolved, call.is_unresolved = call.is_unresolved, True
        with self._mutex:
            self._strays.append(attempt)
        reply = self._acquire_write(attempt)
        step = self._interpret(reply)
        if step is Step.LOOK:
            # H5: neither a lost answer nor a 412 tells who has it now.
            call.trouble = describe(reply)
            is_refused = reply.outcome is Outcome.PRECONDITION_FAILED
            call.has_lost_race = is_refused and call.is_informed and not was_unresolved
            if is_refused:
                self._metric("lock.acquire.precondition.failure")
        elif step is not Step.DONE:
            # It did not land.
            call.trouble = describe(reply)
            call.is_unresolved = was_unresolved
            if step is Step.REFUSED:
                raise StoreRejected(
                    f"locking {self._key}: the store refused the write ({call.trouble}): "
                    f"give this client the right to write there, or choose another store"
                )
        return step, reply.version

    def _new_attempt(self, known: Stored) -> Attempt:
        """The acquiring write on `known`, stamped before it leaves (H1, M22)."""
        sent = self._now()
        record = LockFile(
            self.owner,
            lease.valid_until_ms(sent.wall_ns, self.terms),
            expired=False,
            nonce=self._new_nonce(),
            fence=self._next_token(known),
            mark=self._reserved.mark,
        )
        return Attempt(
            record=record,
            sent=sent,
            deadline=self._deadline(sent),
            wall_estimate_ns=sent.wall_ns,
            if_version=known.version,
        )

    def _reserve(self, call: Call, known: Stored) -> Reserved | Refusal:
        """H21: a token above all before it, whoever wrote in between. Asks the store only where the record has none."""

        def is_over() -> bool:
            return self._runtime.monotonic_ns() >= call.deadline_ns

        reserved = self._fence.reserve(known, seen=self._fence_seen_max, is_over=is_over)
        if reserved is Refusal.TROUBLE:
            call.trouble = "the fence object, which keeps tokens rising, could not be asked"
        return reserved

    def _next_token(self, known: Stored) -> int | None:
        """H21: the token that was reserved for the grant on `known`; None where it cannot be fenced."""
        return self._reserved.token

    def _acquire_write(self, attempt: Attempt) -> WriteReply:
        return self._write(attempt.if_version, attempt.record)

    # ---- begin the tenure ----

    def _grant(self, call: Call, first: Lease) -> bool:
        """Begin the tenure of a write that landed; False if it is too late to be believed (H3)."""
        tenure = Tenure(self, self._runtime.current_task(), first, self._runtime.event(), self._runtime.event())
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
        # From here on a call that ends without a grant withdraws the tenure, for instance because no heartbeat
        # could be started (H10) or because of a Ctrl-C.
        call.tenure = tenure
        with self._mutex:
            self._tenure, self._last_loss = tenure, tenure.loss
        heartbeat.start()
        # A lock that another task has closed meanwhile gives no grant.
        self._check_usable()
        if not self._is_in_time(tenure):
            self._withdraw(tenure)
            return False
        self._fence_seen_max = max(self._fence_seen_max, attempt.record.fence or 0)
        self._polls.won()
        self._metric("lock.acquire.attempts")
        self._metric("lock.acquire.success")
        self._tell(LockEventKind.GRANTED, self._grant_of(tenure))
        self._note(AuditState.START, tenure, attempt.sent)
        with self._mutex:
            # The grant has replaced whatever our earlier writes could have landed on.
            self._strays = []
        return True

    def _is_in_time(self, tenure: Tenure) -> bool:
        """H3: the last thing before the caller is told yes (E9, E10)."""
        with self._mutex:
            tenure.is_announced = self._is_in_force(tenure)
            return tenure.is_announced

    def _withdraw(self, tenure: Tenure) -> None:
        """Take back a tenure that the caller was never told of."""
        tenure.stopped.set()
        with self._mutex:
            if self._tenure is tenure:
                self._tenure = None

    # ---- pause, or end without a grant ----

    def _step_back(self, call: Call) -> None:
        """E34: a client that has just released lets those look who have been waiting, a moment and no longer."""
        now_ns = self._runtime.monotonic_ns()
        until_ns = min(self._yields_until_ns, now_ns + (call.waits_until_ns - now_ns) // 2)
        if until_ns > now_ns:
            self._closing.wait(until_ns - now_ns)
            self._check_usable()

    def _poll_pause_ns(self, known: Stored, wait: Wait) -> int:
        """H20: how long to wait before the next look; never beyond the end of the lease in the way."""
        assert known.record is not None, "nobody waits for an absent record"
        return self._polls.pause_ns(known.record, now_wall_ns=self._runtime.wall_ns(), lapses_in_ns=wait.for_ns)

    def _answer_without_grant(self, call: Call) -> bool:
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

    def _stop_contending(self, call: Call) -> None:
        """The call ends without a grant, perhaps by a Ctrl-C: leave nothing behind that could become one (L6)."""
        if self._user != self._runtime.current_task():
            # It ended before it was this task's turn.
            return
        try:
            tenure = call.tenure
            if tenure is not None:
                self._withdraw(tenure)
            with self._mutex:
                # What earlier calls have left is undone, too: this call has taken over their cleanup.
                strays = [stray for stray in self._unlapsed(self._strays) if stray not in call.attempts]
                if call.is_unresolved:
                    strays += call.attempts
                if tenure is not None:
                    strays += [write for write in tenure.writes() if write not in strays]
                self._strays = strays
            # Before another task of this process may enter: its writes are none of these.
            self._start_cleanup(list(strays))
        finally:
            with self._mutex:
                self._leave()
        self._metric("lock.acquire.failure")
