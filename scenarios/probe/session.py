"""A probe under way: its connections to the store, its fresh keys, its counts, and the objects it must remove.

Three kinds of answer prove nothing: no connection, a time-out, and a 5xx. They raise `Unanswered`. The step that asked
may try again on a fresh key. A clause that never gets an answer has no verdict. Throttling and conflicts are answers
about the moment, so the same request is sent again for a while.
"""

from __future__ import annotations

import calendar
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, cast

from lockref.clouds.calls import ANYTHING, DELETE, PUT, READ, WRITES, Answer, Call
from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_MS, NS_PER_S, Runtime, ThreadRuntime
from lockref.stores.probe.bounded_request import DENIALS
from lockref.stores.probe.readings import AfterRefusal, read_refusal
from lockref.words import Outcome
from scenarios import interrupts
from scenarios.probe import exchange, local
from scenarios.probe.exchange import REQUEST_TIMEOUT_NS, HeldRequest, WireStore
from scenarios.probe.findings import Finding
from scenarios.probe.local import LocalStore

Store = WireStore | LocalStore

ROUNDS_MAX: Final = 300
"""Rounds of a race. So many clean rounds bound the rate of faults at 1 %."""

PREFIX: Final = "lockref-probe-"
_BEGAN: Final = "%Y%m%dT%H%M%SZ"
THROTTLE_PATIENCE_NS: Final = 6 * NS_PER_S
LAST_TIMEOUT_NS: Final = 2 * NS_PER_S
"""The least time-out of a request, also of one that begins right before the end of the probe."""

BESIDE_NS: Final = 4 * NS_PER_S
CONFLICT_TRIES_MAX: Final = 6
_PAUSE_NS: Final = 100 * NS_PER_MS


def new_prefix(runtime: Runtime) -> str:
    """The prefix for the objects of a probe that begins now: `lockref-probe-20260131T120000Z-0123456789ab`.

    It tells a later probe how old they are, if this one is killed before it removes them.
    """
    began = datetime.fromtimestamp(runtime.wall_ns() // NS_PER_S, tz=UTC).strftime(_BEGAN)
    return f"{PREFIX}{began}-{runtime.token_bytes(6).hex()}"


def began_wall_ns(prefix: str) -> int | None:
    """When the probe with this prefix began, on the clock of its machine; None where the name does not tell it."""
    try:
        began = datetime.strptime(prefix.removeprefix(PREFIX).partition("-")[0], _BEGAN).replace(tzinfo=UTC)
    except ValueError:
        return None
    return calendar.timegm(began.utctimetuple()) * NS_PER_S


class Unanswered(Exception):
    """A request brought no answer that proves anything: no connection, a time-out, a 5xx, or lasting throttling."""


class NotSupported(Unanswered):
    """The store honestly refuses every request of a kind that the step needs, and carries out the same without it."""


class OutOfTime(Exception):
    """The time that the probe may take is over."""


class Session:
    """The state that all steps of a probe share.

    stores: the store by each endpoint; steps that need one endpoint take the first. end_ns: on the monotonic clock;
    after it only requests that clean up are sent. rounds_max: of each race. has_sent: a request may have arrived at the
    store. serves_one_at_a_time: the server does not answer one connection while another one is open.
    """

    def __init__(
        self,
        stores: Sequence[Store],
        *,
        address: str,
        end_ns: int,
        rounds_max: int = ROUNDS_MAX,
        runtime: Runtime | None = None,
    ) -> None:
        self.runtime = runtime or ThreadRuntime()
        self.stores = list(stores)
        self.address = address
        self.end_ns = end_ns
        self.rounds_max = rounds_max
        self.prefix = new_prefix(self.runtime)
        self.requests = 0
        self.durations: dict[str, list[int]] = {}
        self.servers: list[str] = []
        self.keys: dict[str, None] = {}
        self._doubtful: set[str] = set()
        self.uploads: dict[tuple[str, str], None] = {}
        self._numbers = itertools.count(1)
        self._silences = 0
        self.has_sent = False
        self._refused_delete = ""
        self._understood: set[str] = set()
        self._rejected: set[str] = set()
        self.serves_one_at_a_time = False

    @property
    def store(self) -> Store:
        """The store by its first endpoint."""
        return self.stores[0]

    @property
    def keeps_connections(self) -> bool:
        """Connections are kept for the next request: no endpoint has hung up on one that was to be used again."""
        return all(store.keeps_connections for store in self.stores if isinstance(store, WireStore))

    def understands(self, call: Call) -> bool:
        """The store has carried out a request with such a condition, so a refusal is none of what it does not know."""
        return _condition_of(call) in self._understood

    def lacks(self, call: Call) -> bool:
        """The store rejects every request with such a condition, and carries out the same without one (501, 400, 405).

        That is an honest refusal, whatever its status.
        """
        condition, plain = _condition_of(call), _condition_of(Call(verb=call.verb, key=call.key))
        return condition in self._rejected and condition not in self._understood and plain in self._understood

    def key(self, about: str) -> str:
        """A fresh key. The session remembers it and removes the object at the end."""
        key = f"{self.prefix}/{about}-{next(self._numbers)}"
        self.keys[key] = None
        return key

    def body(self, about: str = "record", *, size: int = 0) -> bytes:
        """Fresh bytes, at least `size` of them, that no other body equals."""
        head = f"{about} {next(self._numbers)} {self.runtime.token_bytes(8).hex()}".encode()
        return head if size <= len(head) else head + b"." * (size - len(head))

    def left_ns(self, end_ns: int | None = None) -> int:
        """The time until the probe ends, or until the step that ends at `end_ns`. Nanoseconds; negative when over."""
        end = self.end_ns if end_ns is None else min(end_ns, self.end_ns)
        return int(end - self.runtime.monotonic_ns())

    def check_time(self) -> None:
        """Raise if the probe must stop, else fit the stores' time-outs to the time that is left.

        Errors: OutOfTime; KeyboardInterrupt, also for a Ctrl-C that Python dropped.
        """
        interrupts.raise_if_heard()
        left_ns = self.left_ns()
        if left_ns <= 0:
            raise OutOfTime
        for store in self.stores:
            if isinstance(store, WireStore):
                store.timeout_ns = min(REQUEST_TIMEOUT_NS, max(LAST_TIMEOUT_NS, left_ns))

    def send(self, call: Call, store: Store | None = None) -> Answer:
        """Send one request and return any answer. Errors: OutOfTime, Inexpressible."""
        self.check_time()
        if call.verb in WRITES and call.verb != DELETE:
            self.keys[call.key] = None
        answer = (store or self.store).send(call)
        self._count(call, answer)
        return answer

    def patiently(self, call: Call, store: Store | None = None) -> Answer:
        """One request, and again for a while where it meets a conflict or is throttled. Errors: as `send`."""
        until_ns = self.runtime.monotonic_ns() + THROTTLE_PATIENCE_NS
        for tries in itertools.count(1):
            answer = self.send(call, store)
            if answer.outcome is Outcome.CONFLICT and tries < CONFLICT_TRIES_MAX:
                self.runtime.sleep(_PAUSE_NS)
            elif answer.outcome is Outcome.THROTTLED and self.runtime.monotonic_ns() < until_ns:
                self.runtime.sleep(_PAUSE_NS * min(tries, 10))
            else:
                return answer
        raise AssertionError("counting has no end")

    def ask(self, call: Call, store: Store | None = None, *, takes_success: bool = False) -> Answer:
        """Send a request until its answer proves something. Errors: as `send`; Unanswered.

        takes_success: for a request that must be refused. A 2xx status then counts as an answer, even if the body makes
            no sense.
        """
        answer = self.patiently(call, store)
        if takes_success and answer.looks_done:
            return answer
        if may_have_landed(answer):
            raise Unanswered(f"{call.verb} of {call.key}: {answer.words}")
        return answer

    def make(self, key: str, body: bytes, *, absent: bool = True, store: Store | None = None) -> str:
        """Create an object, or overwrite it if it may be present; return its version. Errors: Unanswered."""
        call = Call(verb=PUT, key=key, body=body, none_match=ANYTHING if absent else None)
        answer = self.ask(call, store)
        if self.lacks(call):
            raise NotSupported(f"a create: refused as unknown ({answer.words})")
        if not answer.is_applied:
            raise Unanswered(f"{'create' if absent else 'write'} of {key}: {answer.words}")
        return answer.version

    def replace(self, key: str, body: bytes, version: str) -> str:
        """Replace an object under its current version; return the new version. Errors: Unanswered."""
        call = Call(verb=PUT, key=key, body=body, match=version)
        answer = self.ask(call)
        if self.lacks(call):
            raise NotSupported(f"a replacement by version: refused as unknown ({answer.words})")
        if not answer.is_applied:
            raise Unanswered(f"replacement of {key}: {answer.words}")
        return answer.version

    def remove(self, key: str) -> None:
        """Delete without a condition; an absent object is fine. Errors: Unanswered, also if the delete is refused."""
        if not self.clear(key):
            raise Unanswered(f"delete of {key}: {self._refused_delete}")

    def clear(self, key: str) -> bool:
        """Delete an object that is not needed any more. False if we have no right to delete. Errors: Unanswered."""
        answer = self.ask(Call(verb=DELETE, key=key))
        if answer.outcome is Outcome.REJECTED and (found := self.read(key)).version:
            # A bucket's policy may forbid only those deletes that carry no condition.
            answer = self.ask(Call(verb=DELETE, key=key, match=found.version))
        if answer.outcome is Outcome.REJECTED:
            self._refused_delete = answer.words
            return False
        if not (answer.is_applied or answer.is_missing):
            raise Unanswered(f"delete of {key}: {answer.words}")
        # A request with an unknown outcome may land after the delete, so a doubtful key is removed again at the end.
        if key not in self._doubtful:
            self.keys.pop(key, None)
        return True

    def read(self, key: str, store: Store | None = None) -> Answer:
        """Read the object: the answer has a body, or `is_absent`. Errors: Unanswered."""
        answer = self.ask(Call(verb=READ, key=key), store)
        if answer.body is None and not answer.is_absent:
            raise Unanswered(f"read of {key}: {answer.words}")
        return answer

    def version(self, key: str) -> str:
        """The object's current version. Errors: Unanswered, also if a read shows no version."""
        found = self.read(key)
        if not found.version:
            raise Unanswered(f"read of {key}: it shows no version")
        return found.version

    def race(self, calls: Sequence[Call], *, spread: bool = False) -> list[Answer]:
        """Send all calls at once, to one endpoint or spread over all of them. Errors: OutOfTime."""
        self.check_time()
        self.keys |= dict.fromkeys(call.key for call in calls)
        over = self.stores if spread else self.stores[:1]
        entries = [(over[number % len(over)], call) for number, call in enumerate(calls)]
        if self.store.is_wire:
            answers = exchange.race(cast("list[tuple[WireStore, Call]]", entries))
        else:
            answers = local.race(cast("list[tuple[LocalStore, Call]]", entries))
        self.counted(calls, answers)
        if all(answer.is_unsent for answer in answers):
            raise BackendUnavailable(f"{self.address} accepts no connection any more")
        return answers

    def hold(self, call: Call) -> HeldRequest:
        """Send a request without its last byte. The store must be reached by network. Errors: OutOfTime."""
        self.check_time()
        assert isinstance(self.store, WireStore), "only a request on the network can be held up"
        return self.store.hold(call)

    def ask_beside(self, held: HeldRequest, call: Call) -> Answer | None:
        """Send a request while another one is held up. None if the server serves one connection at a time.

        Errors: as `send`. If there is no answer, the held request is dropped.
        """
        assert isinstance(self.store, WireStore), "only a request on the network can be held up"
        beside = self.store.by(self.store.address, timeout_ns=BESIDE_NS)
        try:
            answer = self.send(call, beside)
        except BaseException:
            held.drop()
            raise
        finally:
            beside.close()
        if answer.status is not None:
            return answer
        held.drop()
        self.serves_one_at_a_time = True
        for store in self.stores:
            store.close()
            if isinstance(store, WireStore):
                store.keeps_connections = False
        return None

    def counted(self, calls: Sequence[Call], answers: Sequence[Answer]) -> None:
        """Count requests that `send` did not send. Objects that may still appear are removed at the end."""
        self.requests += len(calls)
        self.keys |= dict.fromkeys(call.key for call in calls)
        self._doubtful |= {call.key for call, answer in zip(calls, answers, strict=True) if is_doubtful(answer)}
        for call, answer in zip(calls, answers, strict=True):
            self._note_support(call, answer)

    def keep(self, key: str) -> None:
        """Note that requests for this key have an unknown outcome: the object is removed at the end."""
        self.keys[key] = None
        self._doubtful.add(key)

    def _count(self, call: Call, answer: Answer) -> None:
        self.requests += 1
        self.has_sent = self.has_sent or not answer.is_unsent
        if is_doubtful(answer):
            self._doubtful.add(call.key)
        self._note_support(call, answer)
        if answer.server and answer.server not in self.servers:
            self.servers.append(answer.server)
        if answer.status is not None or answer.is_applied or answer.is_refused:
            self._silences = 0
            if answer.duration_ns and call.verb in (*WRITES, READ):
                self.durations.setdefault(_kind(call, answer), []).append(answer.duration_ns)
            return
        self._silences += 1
        if answer.is_unsent and self._silences >= 3:
            raise BackendUnavailable(f"{self.address} accepts no connection any more ({answer.reason})")
        if self._silences >= 4:
            raise BackendUnavailable(f"{self.address} does not answer any more ({answer.reason})")

    def _note_support(self, call: Call, answer: Answer) -> None:
        if answer.is_applied:
            self._understood.add(_condition_of(call))
        elif answer.outcome is Outcome.REJECTED and answer.status not in DENIALS:
            self._rejected.add(_condition_of(call))


def _condition_of(call: Call) -> str:
    """The kind of the request, and the kind of its condition."""
    match = "" if call.match is None else "any version" if call.match == ANYTHING else "a version"
    none_match = "" if call.none_match is None else "any version" if call.none_match == ANYTHING else "a version"
    return f"{call.verb} if {match}, unless {none_match}"


def may_have_landed(answer: Answer) -> bool:
    """True if the fate of the request is unknown: no answer, a server's failure, or a server that is too busy (A5)."""
    return answer.outcome in (Outcome.AMBIGUOUS, Outcome.THROTTLED)


def is_doubtful(answer: Answer) -> bool:
    """The request may take effect later."""
    return answer.outcome is Outcome.AMBIGUOUS and not answer.is_unsent


def _kind(call: Call, answer: Answer) -> str:
    """The kind of request under which its latency is counted, such as `create refused`."""
    if call.verb == PUT:
        verb = "create" if call.none_match is not None else "replace" if call.match is not None else "overwrite"
    else:
        verb = f"conditional {call.verb}" if call.match is not None or call.none_match is not None else call.verb
    if call.verb == READ:
        return verb
    told = {Outcome.APPLIED: "done", Outcome.PRECONDITION_FAILED: "refused"}.get(answer.outcome, "other")
    return f"{verb} {told}"


def wrong_after(call: Call, answer: Answer, after: Answer, *, words: str, body: bytes | None) -> str:
    """The fault that a request shows which must be refused; "" for none.

    words: what was asked, such as "a replacement of a stale version". after: a read afterwards. body: what must
    be there then, as before; None: nothing.
    """
    end = read_refusal(
        is_done=answer.looks_done, is_delete=call.verb == DELETE, sent=call.body, before=body, after=after.body
    )
    if end is AfterRefusal.RIGHT:
        return ""
    # The reading is a verb and, behind a comma, what followed.
    verb, comma, followed = end.partition(",")
    if verb == "accepted":
        return f"{verb} {words}{followed} ({answer.words})"
    return f"{verb} {words} ({answer.words}){comma}{followed}"


def odd_refusal(answer: Answer, expected: int) -> str:
    """The difference of a refusal from the cloud's own; "" if there is none. expected: its status, 0 for none."""
    if answer.outcome is Outcome.REJECTED:
        # A client takes it for a mistake of its own, and not for a lock that somebody else has.
        return f"answered {answer.words}, as a request that is wrong"
    return f"answered {answer.words}, expected {expected}" if expected and answer.status != expected else ""


def refused(session: Session, finding: Finding, call: Call, *, words: str, expected: int, body: bytes | None) -> None:
    """Send a request that must be refused, and check that the object did not change.

    words: the request in words, such as "a replacement of a stale version". expected: the status that the cloud's own
    service gives; 0 for any. body: of the object, before and after the request; None if there must be no object.
    """
    answer = session.ask(call, takes_success=True)
    finding.saw(call, answer, note=words)
    after = session.read(call.key)
    wrong = wrong_after(call, answer, after, words=words, body=body)
    if wrong:
        finding.saw(Call(verb=READ, key=call.key), after, note="afterwards")
        finding.note(finding.unsafe, wrong)
    elif answer.outcome is Outcome.REJECTED and not session.understands(call):
        finding.note(finding.unsupported, f"{words}: refused as unknown ({answer.words})")
    else:
        finding.kept += 1
        if odd := odd_refusal(answer, expected):
            finding.note(finding.deviations, f"{words}: {odd}")
