"""One client's calls on its lock, written down as the history wants them.

A client is a (node, task). Around each call it writes CALL and RETURN; the
number of the acquire's call is the *tenure*. What it believes is written at
the instants where belief matters: right after the grant, at each guard before
a protected write, and when the guard says no, the lock reports a loss or the
release begins (or ends, where the lock says so). The client never stops at an error: it records it and goes on,
because what happens after an error is half of what goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from lockref.errors import ConfigError, LockError, OutcomeUnknown, ReleaseFailed
from lockref.history import CUT_SHORT, Recorder, Stamp
from lockref.lab.contract import checked_grant, checked_yes
from lockref.lab.recording import OpenCalls
from lockref.provider import Grant, LockEvent, LockEventKind, LockProvider
from lockref.runtime import NS_PER_S, Runtime
from lockref.words import ABSENT, Kind, Op, Outcome, detail
from scenarios.workloads.resource import ProtectedResource, ResourceClient, Write

# Python 3.11 takes long to find a member of an enumeration; these are asked for with every request.
_KIND_BELIEVED = Kind.BELIEVED
_KIND_CALL = Kind.CALL
_KIND_DISBELIEVED = Kind.DISBELIEVED
_KIND_RETURN = Kind.RETURN
_LOST = LockEventKind.LOST
_OP_ACQUIRE = Op.ACQUIRE
_OP_GUARD = Op.GUARD
_OP_RELEASE = Op.RELEASE
_OUTCOME_APPLIED = Outcome.APPLIED
_REFUSALS = (_OP_ACQUIRE, _OP_GUARD)

YIELD_NS = 1_000_000
"""Between the read and the write based on it: the yield of RFC-91's test."""


@dataclass(frozen=True, slots=True)
class Asks:
    """The questions of a client to its lock before each protected write (`workload.asks`).

    guard: whether it may still write. token: the fencing token, anew. shows_token: its writes carry one; where it is
    not asked anew, that of the acquire.
    """

    guard: bool = True
    token: bool = False
    shows_token: bool = True


ASKS: Mapping[str, Asks] = {
    "guard": Asks(),
    "token": Asks(guard=False, token=True),
    "both": Asks(token=True),
    "nothing": Asks(guard=False, shows_token=False),
}
"""By the name that a scenario gives as `workload.asks`."""


@dataclass(slots=True)
class Tenure:
    """One grant as its client knows it, from the granted return to the release.

    token: as the acquire returned it. shown: what the protected resource is shown; None where it is shown none.
    is_reported_lost: the lock's listener told of its loss. is_refused: the guard has said no.
    """

    number: int
    owner: str
    token: int | None
    version: str
    shown: int | None
    attempts: int = 0
    believes: bool = True
    is_reported_lost: bool = False
    is_refused: bool = False


class ClientsListener:
    """The reports of the lock of one process, passed on to the clients of that process. None of them needs metrics."""

    __slots__ = ("_clients",)
    hears_metrics = False

    def __init__(self, clients: list[Client]) -> None:
        self._clients = clients

    def __call__(self, event: LockEvent) -> None:
        for client in self._clients:
            client.heard(event)


class Client:
    """One (node, task) and its current tenure.

    on_belief: told when this client has come to believe; the simulation's
        omniscient observer listens.
    shares_provider: another client uses the same lock object, so that between
        its own tenures nobody can tell for whom `holds` speaks.
    believes_through_unlock: the lock declares that its holder may use it until `unlock` has returned.
    asks: what it asks before each protected write.
    on_fork: makes a child process with a copy of this client's lock; None where there is none to be had.
    stamp: when an event is, by all clocks. calls: told of each call, from its begin to its return.
    virtual_ns: true time where it passes only while somebody waits. It tells a
        guard that waits or asks the store from a local one. None in a real run.
    """

    __slots__ = (
        "_asks", "_believes_through_unlock", "_calls", "_given_back", "_is_cut_short", "_late_ns", "_lock",
        "_next_number", "_on_belief", "_on_fork", "_reads_first", "_record", "_resource", "_shares_provider", "_stamp",
        "_tells_wait", "_virtual_ns", "node", "provider", "runtime", "task", "tenure",
    )  # fmt: skip

    def __init__(
        self,
        *,
        node: str,
        task: str,
        runtime: Runtime,
        recorder: Recorder,
        stamp: Callable[[], Stamp],
        next_number: Callable[[], int],
        calls: OpenCalls,
        provider: LockProvider,
        resource: ProtectedResource,
        reads_first: bool,
        lock: str,
        on_belief: Callable[[Client], None] | None = None,
        on_fork: Callable[[Client], None] | None = None,
        shares_provider: bool = False,
        believes_through_unlock: bool = False,
        asks: Asks = ASKS["guard"],
        virtual_ns: Callable[[], int] | None = None,
    ) -> None:
        self.node = node
        self.task = task
        self.runtime = runtime
        self.provider = provider
        self.tenure: Tenure | None = None
        self._record = recorder.event
        self._tells_wait = recorder.is_detailed
        self._stamp = stamp
        self._next_number = next_number
        self._calls = calls
        self._resource = resource
        self._reads_first = reads_first
        self._lock = lock
        self._on_belief = on_belief
        self._on_fork = on_fork
        self._shares_provider = shares_provider
        self._believes_through_unlock = believes_through_unlock
        self._asks = asks
        self._virtual_ns = virtual_ns
        self._is_cut_short = False
        self._late_ns: int | None = None
        # The tenure before, while no call is under way: a lock that still says yes speaks for it (M27).
        self._given_back: Tenure | None = None

    def _event(
        self,
        kind: Kind,
        op: Op,
        outcome: Outcome = Outcome.NONE,
        request: int = ABSENT,
        tenure: Tenure | None = None,
        said: str = "",
        stamp: Stamp | None = None,
    ) -> None:
        # Not Journal.event: the client is the task that locked, whoever writes the row.
        if tenure is None:
            owner, token, version = "", ABSENT, ""
        else:
            owner, version = tenure.owner, tenure.version
            token = ABSENT if tenure.token is None else tenure.token
        if stamp is None:
            read = self._stamp
            stamp = read()
        true_ns, wall_ns, mono_ns, _ = stamp
        record = self._record
        record(
            kind, (true_ns, wall_ns, mono_ns, self.task), self.node, self._lock, op,
            outcome, request, ABSENT, "", version, "", token, owner, ABSENT, said,
        )  # fmt: skip

    def _grant(self) -> Grant:
        virtual_ns = self._virtual_ns
        since_ns = 0 if virtual_ns is None else virtual_ns()
        grant = checked_grant(self.provider.grant)
        if virtual_ns is not None and virtual_ns() != since_ns:
            raise _not_local("grant", virtual_ns() - since_ns)
        return grant

    def _holds(self) -> bool:
        virtual_ns = self._virtual_ns
        since_ns = 0 if virtual_ns is None else virtual_ns()
        is_held = checked_yes("holds", self.provider.holds())
        if virtual_ns is not None and virtual_ns() != since_ns:
            raise _not_local("holds", virtual_ns() - since_ns)
        return is_held

    def _believed(self, op: Op, tenure: Tenure, asked: Stamp) -> None:
        """The lock's yes, at the instant at which it was asked.

        A machine may stop a thread for seconds between the lock's answer and the next reading of a clock. The yes was
        right when it was given, and nobody may be accused of a belief that was written down later (S3, S4, L4).
        """
        self._event(_KIND_BELIEVED, op, request=tenure.number, tenure=tenure, stamp=asked)

    def patience(self, wait_ns: int, left_ns: int) -> int:
        """The longest wait of the next acquire: the client's own time, or the rest of the run if that is shorter.

        A call that is shortened so is cut short if it is not granted: nobody knows what it would have got.
        """
        self._is_cut_short = left_ns < wait_ns
        return min(wait_ns, left_ns)

    def intended(self, *, late_ns: int) -> None:
        """The next acquire was intended to begin so long ago (an open loop)."""
        self._late_ns = late_ns

    def acquire(self, wait_ns: int, *, is_nested: bool = False) -> None:
        """Call `lock` (or `try_lock` where there is no time to wait); a grant begins a tenure.

        is_nested: the client holds already. A no then says that this lock is
        not re-entrant, and nothing about anybody else.
        """
        self._resource.prepare(self.node, self.task, self.provider)
        number = self._next_number()
        self._given_back = None
        is_cut_short, self._is_cut_short = self._is_cut_short, False
        late_ns, self._late_ns = self._late_ns, None
        told = {"timeout_ns": wait_ns} if wait_ns and self._tells_wait else {}
        if late_ns is not None:
            told["late_ns"] = late_ns
        said = detail(**told) if told else ""
        self._event(_KIND_CALL, _OP_ACQUIRE, request=number, said=said)
        self._calls.began(self._lock, self.task, _OP_ACQUIRE)
        granted = False
        try:
            if wait_ns:
                granted = checked_yes("lock", self.provider.lock(wait_ns / NS_PER_S))
            else:
                granted = checked_yes("try_lock", self.provider.try_lock())
        except LockError as error:
            self._event(_KIND_RETURN, _OP_ACQUIRE, _outcome(error), number)
            return
        finally:
            self._calls.returned(self._lock, self.task, is_granted=granted)
        if not granted:
            denial = Outcome.REJECTED if is_nested else Outcome.PRECONDITION_FAILED
            self._event(_KIND_RETURN, _OP_ACQUIRE, denial, number, said=CUT_SHORT if is_cut_short else "")
            return
        grant = self._grant()
        shown = grant.token if self._asks.shows_token else None
        self.tenure = tenure = Tenure(number, grant.owner, grant.token, grant.version or "", shown)
        self._event(_KIND_RETURN, _OP_ACQUIRE, _OUTCOME_APPLIED, number, tenure)
        asked = self._stamp()
        if self._holds():
            self._believed(_OP_ACQUIRE, tenure, asked)
            if self._on_belief is not None:
                self._on_belief(self)
        else:
            self.disbelieve(_OP_ACQUIRE)

    def may_write(self) -> bool:
        """Ask the lock what this client asks before a protected write (`Asks`). False if it must not write."""
        if self._asks.guard and not self.guard():
            return False
        return self._ask_token() if self._asks.token else True

    def _ask_token(self) -> bool:
        """Ask the lock anew for the token to show. False if it has never told one: there is nothing to trust.

        Where the lock tells none any more, the client shows the last one: the resource has to refuse it.
        """
        tenure = self.tenure
        assert tenure is not None, "a token belongs to a tenure"
        token = self._grant().token
        if token is not None:
            tenure.shown = token
        return tenure.shown is not None

    def guard(self) -> bool:
        """Ask the lock whether the next protected write may go out."""
        tenure = self.tenure
        assert tenure is not None, "a guard belongs to a tenure"
        asked = self._stamp()
        if not self._holds():
            self.disbelieve(_OP_GUARD)
            return False
        self._believed(_OP_GUARD, tenure, asked)
        return True

    def write(self) -> None:
        """One protected write. Its effect is recorded where it happens; without an answer nobody knows."""
        tenure = self.tenure
        assert tenure is not None, "a protected write belongs to a tenure"
        tenure.attempts += 1
        try:
            based_on = ""
            if self._reads_first:
                assert isinstance(self._resource, ResourceClient), "only a resource tells its state"
                based_on = self._resource.state()
                self.runtime.sleep(YIELD_NS)
            write = Write(self.node, self.task, tenure.number, tenure.attempts, based_on, tenure.shown, tenure.owner)
            self._resource.write(write, self.guard)
        except LockError:
            # The resource refused it, or did not answer: its record says what took effect, the client goes on.
            return

    def write_without_lock(self, attempt: int) -> None:
        """A write that no lock guards: its own conditions must do."""
        write = Write(node=self.node, task=self.task, tenure=None, attempt=attempt, based_on="", token=None, owner="")
        with suppress(LockError):
            self._resource.write(write, lambda: True)

    def _ask_again(self) -> None:
        """After a reported loss, ask the guard once before the lock is given back.

        The listener is optional. A report of a lock that does not claim it is judged by what its guard says (L4).
        """
        tenure = self.tenure
        if tenure is not None and tenure.is_reported_lost and not tenure.is_refused:
            self.guard()

    def release(self) -> None:
        """Stop believing, then call `unlock`; also after a loss, as a `with` block would.

        Where the lock declares that its holder may use it until `unlock` has returned, belief ends only then.
        """
        if self._resource.keeps_lock:
            self._ask_again()
            self.disbelieve(_OP_RELEASE)
            self.tenure = None
            self._resource.conclude(is_released=False)
            return
        tenure = self._leave()
        number = self._next_number()
        self._event(_KIND_CALL, _OP_RELEASE, request=number)
        self._calls.began(self._lock, self.task, _OP_RELEASE)
        try:
            self.provider.unlock()
        except LockError as error:
            self._event(_KIND_RETURN, _OP_RELEASE, _outcome(error), number)
            self._resource.conclude(is_released=False)
        else:
            self._event(_KIND_RETURN, _OP_RELEASE, _OUTCOME_APPLIED, number)
            self._resource.conclude(is_released=True)
        finally:
            self._calls.returned(self._lock, self.task)
        self._has_left(tenure)

    def close(self) -> None:
        """Leave by closing the lock in place of unlocking it: perhaps that releases; in any case nobody uses it now.

        Where another task of the process may hold it, this client had nothing to give back, and no outcome is written.
        """
        tenure = self._leave()
        number = self._next_number()
        self._event(_KIND_CALL, _OP_RELEASE, request=number)
        self._calls.began(self._lock, self.task, _OP_RELEASE)
        with suppress(LockError):
            self.provider.close()
        self._calls.returned(self._lock, self.task)
        outcome = Outcome.NONE if tenure is None else Outcome.AMBIGUOUS
        self._event(_KIND_RETURN, _OP_RELEASE, outcome, number)
        self._has_left(tenure)

    def _leave(self) -> Tenure | None:
        """Before the call that gives the lock back. The observer asks during it only where belief lasts through it."""
        self._ask_again()
        tenure, self.tenure = self.tenure, None
        if not self._believes_through_unlock:
            self._disbelieve(tenure, _OP_RELEASE)
        elif tenure is not None and tenure.believes:
            self._given_back = tenure
        return tenure

    def _has_left(self, tenure: Tenure | None) -> None:
        """After that call. A belief that lasted through it ends now."""
        self._disbelieve(tenure, _OP_RELEASE)
        self._given_back = tenure

    def fork(self) -> None:
        """Let this client's process fork now, if it can."""
        if self._on_fork is not None:
            self._on_fork(self)

    def inherit(self, parents: Tenure) -> None:
        """In a forked child: it remembers the grant that its parent had, as if it were its own."""
        self.tenure = Tenure(self._next_number(), parents.owner, parents.token, parents.version, parents.shown)

    def go_on_with(self, outer: Tenure) -> None:
        """After an inner unlock: the tenure around it is the present one again."""
        self.tenure, self._given_back = outer, None
        self._calls.holds_on(self._lock, self.task)

    def disbelieve(self, why: Op) -> None:
        """The end of belief, written once in a tenure. why: what was asked when the lock said no, or the unlock.

        The guard's no is also written where a report of the lock has ended belief before.
        """
        self._disbelieve(self.tenure, why)

    def _disbelieve(self, tenure: Tenure | None, why: Op) -> None:
        if tenure is None:
            return
        is_first_no = why in _REFUSALS and not tenure.is_refused
        tenure.is_refused |= is_first_no
        if tenure.believes or is_first_no:
            tenure.believes = False
            self._event(_KIND_DISBELIEVED, why, request=tenure.number, tenure=tenure)

    def observed(self) -> None:
        """The omniscient observer asks, at an instant that another part chooses.

        If the client has given the lock back already, it is asked about its former tenure. A yes then
        extends that tenure's belief. While it gives the lock back, it is asked only if its lock declares that
        belief lasts through `unlock`.
        """
        tenure = self.tenure
        if tenure is None and not self._shares_provider:
            tenure = self._given_back
        elif tenure is not None and not tenure.believes:
            return
        if tenure is None:
            return
        asked = self._stamp()
        if self._holds():
            self._believed(Op.NONE, tenure, asked)

    def heard(self, event: LockEvent) -> None:
        """The lock's own report: a loss ends belief at once. Written once in a tenure, whatever the guard said (L4)."""
        tenure = self.tenure
        if event.kind is _LOST and tenure is not None and not tenure.is_reported_lost:
            tenure.is_reported_lost, tenure.believes = True, False
            self._event(_KIND_DISBELIEVED, Op.NONE, request=tenure.number, tenure=tenure)


def _not_local(what: str, took_ns: int) -> ConfigError:
    """An answer for which time passed came from a request or a wait, and was old when it was given (H2)."""
    return ConfigError(
        f"the lock's {what} took {took_ns} ns: it must answer at once, without a request and without waiting"
    )


def _outcome(error: LockError) -> Outcome:
    """A release that failed may have landed, as an acquire without an answer may; other errors are definite."""
    return Outcome.AMBIGUOUS if isinstance(error, (OutcomeUnknown, ReleaseFailed)) else Outcome.REJECTED
