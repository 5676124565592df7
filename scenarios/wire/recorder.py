"""Record the requests of every client on the wire as events of the usual history.

The record holds the store's own answer, even if a fault keeps that answer from the client: a judge needs to know what
took effect. The wire does not show calls, beliefs and guards. The recorder invents none, and the clauses about them do
not apply.

An object is a lock if some body of it was read as a lock record. A write to an object that `protects` names is an
*effect*, if the store accepted the write. The effect belongs to the lock that guards the object, and carries the number
of its request: the write took effect between this request and its answer. The judge finds out who held the lock then.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from lockref.clouds.traffic import Exchange, ObjectReply, ObjectRequest, State
from lockref.errors import LockrefError
from lockref.history import Recorder, Stamp
from lockref.lab.lock_rows import lock_columns, sized
from lockref.provider import LockView, StateDecoder
from lockref.runtime import Runtime, WallNs
from lockref.words import ABSENT, IF_ABSENT, Kind, Op, Outcome, detail
from scenarios.wire.dates import date_ns
from scenarios.wire.decoders import LastingDecoder
from scenarios.wire.protection import Protection
from scenarios.wire.reading.dialect import Dialect
from scenarios.wire.reading.versions import SeenVersions, whole

_DELETED: Final = ObjectReply(outcome=Outcome.APPLIED)


@dataclass(slots=True)
class OpenRequest:
    """A request under way. op: its meaning for a lock, as far as known. number: of its events; ABSENT until sent.

    parts: of a request that deletes several objects, the deletion of each, once it is sent.
    """

    client: str
    exchange: Exchange
    request: ObjectRequest
    op: Op
    view: LockView | None
    is_lock: bool
    number: int = ABSENT
    sent_ns: int = ABSENT
    is_answered: bool = False
    parts: list[OpenRequest] = field(default_factory=list)


class WireRecorder:
    """Writes the events of all clients of one run. Safe to share between threads.

    decode: reads a body as a lock record. protects: which objects a lock protects, see `Protection`.
    clock_offsets_ns: by client, its wall clock minus ours.
    learned: called when an object is first seen to be a lock, before any event tells of that lock.
    failure: the first error of a decoder; nothing is decoded after it.
    requests: by client, how many it has sent. clocks_off_ns: by client, how far the date of its requests was from the
    time that its clock was to show, at best; only of clients that date their requests. unfinished: by client, how
    many of its successes did not come to their end.
    unguarded: protected objects that were written, and the locks of which one may guard it; they are not judged.
    promised_ns: the longest time for which a record has kept others out.
    """

    def __init__(
        self,
        recorder: Recorder,
        dialect: Dialect,
        decode: StateDecoder,
        *,
        protects: tuple[str, ...],
        runtime: Runtime,
        clock_offsets_ns: Mapping[str, int],
        learned: Callable[[], None] = lambda: None,
    ) -> None:
        self._learned = learned
        self._record = recorder.event
        self._is_detailed = recorder.is_detailed
        self.dialect = dialect
        self._decode = decode
        self._ttl_ns = decode.ttl_ns if isinstance(decode, LastingDecoder) else None
        self._protection = Protection(protects)
        self._runtime = runtime
        self._offsets_ns = clock_offsets_ns
        self._numbers = itertools.count(1)
        self._mutex = runtime.mutex()
        self._lives: dict[str, int] = {}
        self._contents: dict[tuple[str, str], State] = {}
        self._writers: dict[tuple[str, str], str] = {}
        self._versions = SeenVersions()
        self._granted: dict[tuple[str, str], tuple[str, int | None]] = {}
        self._effects: list[tuple[str, Callable[[], bool]]] = []
        self.locks: dict[str, None] = {}
        self.requests: dict[str, int] = {}
        self.clocks_off_ns: dict[str, int] = {}
        self._unfollowed: dict[int, ObjectRequest] = {}
        self.unfinished: dict[str, int] = {}
        self.unguarded: dict[str, tuple[str, ...]] = {}
        self.effects = 0
        self.promised_ns = 0
        self.failure: LockrefError | None = None

    @property
    def unfollowed(self) -> dict[str, str]:
        """The objects whose new content the requests do not tell, and why not; `ANY_OBJECT` stands for every one."""
        requests = list(self._unfollowed.values())
        return {key: request.unreadable for request in reversed(requests) for key in request.unfollowed}

    def began(self, client: str) -> None:
        """A new process of this client starts. For the lock it is another client than the process before it."""
        self._lives[client] = self._lives.get(client, 0) + 1

    def asked(self, client: str, exchange: Exchange) -> OpenRequest:
        """Read a request of this client, as far as its bytes have come."""
        # Decoded outside the mutex: a decoder may be a file of the user's, and slow. What it needs of other clients it
        # asks for under the mutex, in `_view`.
        request = self.dialect.request(exchange)
        view = self._view(request.key, request.state, writer=client) if request.op is Op.WRITE else None
        with self._mutex:
            is_lock = view is not None or request.key in self.locks
            return OpenRequest(client, exchange, request, self._op(client, request, view), view, is_lock)

    def sent(self, asked: OpenRequest, at_ns: int) -> None:
        """The whole request has gone to the server, at `at_ns`. It cannot take effect earlier."""
        with self._mutex:
            # Numbered at sending, not at asking: a request whose head came may never be forwarded, and then it has no
            # event.
            asked.number, asked.sent_ns = next(self._numbers), at_ns
            self.requests[asked.client] = self.requests.get(asked.client, 0) + 1
            self._note_lock(asked.request.key, asked.view)
            self._versions.sent(asked.request, asked.number)
            if asked.request.unfollowed:
                # From the sending on: without an answer it may have taken effect.
                self._unfollowed[asked.number] = asked.request
            self._note_clock(asked, at_ns)
        if self._ttl_ns and asked.view is not None and not asked.view.is_released:
            # The store dates the object when the write takes effect, which is not before its sending.
            asked.view = replace(asked.view, valid_until_ns=WallNs(self._wall_ns(at_ns) + self._ttl_ns))
        token, owner, until_ns, _ = lock_columns(asked.view)
        state = asked.request.state if self._is_detailed and asked.view is not None else None
        length = None if state is None else len(state.body)
        stamp = self._stamp(asked.client, at_ns)
        self._note_promise(asked.view, stamp)
        self._record(
            Kind.SENT, stamp, asked.client, asked.request.key, asked.op,
            request=asked.number, attempt=0, if_version=whole(asked.request.condition),
            content=self._content(asked.request.state), token=token, owner=owner, valid_until_ns=until_ns,
            detail=_told(asked.view, asked.request.verb, length),
        )  # fmt: skip
        # At the sending and not at the answer: one that never comes leaves open which of the objects are gone.
        for key in asked.request.keys:
            alone = ObjectRequest(verb=asked.request.verb, op=Op.DELETE, key=key)
            with self._mutex:
                each = OpenRequest(asked.client, asked.exchange, alone, Op.DELETE, None, key in self.locks)
            self.sent(each, at_ns)
            asked.parts.append(each)

    def unreached(self, asked: OpenRequest, at_ns: int, why: str) -> None:
        """A request that is recorded as sent did not reach the server, so it never takes effect."""
        for each in (asked, *asked.parts):
            each.is_answered = True
            self._reply_row(each, at_ns, ObjectReply(outcome=Outcome.REJECTED, reason=why))
        self._unfollowed.pop(asked.number, None)
        with self._mutex:
            self._versions.ended(asked.request, asked.number)

    def answered(self, asked: OpenRequest, at_ns: int) -> ObjectReply:
        """The server has answered, at `at_ns`. Returns the answer as the record has it."""
        reply = self.dialect.reply(asked.exchange, asked.request)
        if asked.exchange.is_unfinished and reply.outcome is Outcome.AMBIGUOUS:
            self.unfinished[asked.client] = self.unfinished.get(asked.client, 0) + 1
        asked.is_answered = True
        request = asked.request
        # Before the row is written, so that the row shows the state that a HEAD has confirmed.
        if request.op is Op.READ and reply.outcome is Outcome.APPLIED and not reply.is_absent:
            reply = self._completed(request.key, reply)
        self._reply_row(asked, at_ns, reply)
        if reply.outcome not in (Outcome.APPLIED, Outcome.AMBIGUOUS):
            self._unfollowed.pop(asked.number, None)
        if reply.outcome is Outcome.APPLIED and not reply.is_absent:
            # After the row: what the answer taught must not colour the row of the same answer.
            self._learn(asked, reply)
            if request.op in (Op.WRITE, Op.DELETE) and not asked.is_lock and self.is_protected(request.key):
                self._effect(asked)
        told = _DELETED if reply.outcome is Outcome.APPLIED else ObjectReply(outcome=reply.outcome, reason=reply.reason)
        for each in asked.parts:
            self._part_answered(each, at_ns, reply.exceptions.get(each.request.key, told))
        # An ambiguous write stays open in `_versions` for ever. It may land at any later time, and until a reading
        # shows another version its own is a candidate.
        if reply.outcome is not Outcome.AMBIGUOUS:
            with self._mutex:
                self._versions.ended(request, asked.number)
        return reply

    def settle(self) -> None:
        """The run is over: write the effects that came before their lock was seen. What has no lock is unguarded."""
        for key, write in self._effects:
            if not write():
                self.unguarded.setdefault(key, ())
        self._effects.clear()

    def _completed(self, key: str, reply: ObjectReply) -> ObjectReply:
        """Fill in the content of a read whose answer has no body (such as HEAD), if its version is known."""
        if reply.state is not None:
            return reply
        known = self._contents.get((key, reply.version))
        return ObjectReply(outcome=reply.outcome, version=reply.version, state=known)

    def _reply_row(self, asked: OpenRequest, at_ns: int, reply: ObjectReply) -> None:
        request = asked.request
        state = reply.state if request.op is Op.READ else request.state
        view = asked.view
        if request.op is Op.READ or (reply.state is not None and reply.outcome is Outcome.APPLIED):
            # The answer to a write may tell more than the request, such as when the server stored it.
            writer = asked.client if request.op is Op.WRITE else ""
            view = self._view(request.key, reply.state, writer=writer) or view
        with self._mutex:
            self._note_lock(request.key, view)
            replaced = self._versions.replaced(request)
        shows_nothing = not reply.is_absent and state is None and reply.outcome is Outcome.APPLIED
        if request.op is Op.READ and (request.names_version or shows_nothing):
            # Such a read does not tell the present content: it shows an older version, or only that an object exists.
            key, op = "", Op.NONE
        else:
            key, op = request.key, asked.op
        if request.op is Op.WRITE:
            self._note_promise(view, self._stamp(asked.client, asked.sent_ns))
        token, owner, until_ns, _ = lock_columns(view)
        condition = "" if request.op is Op.READ else reply.condition or replaced
        self._record(
            Kind.REPLIED, self._stamp(asked.client, at_ns), asked.client, key, op, reply.outcome,
            request=asked.number, attempt=0, if_version=condition, version=reply.version,
            content=self._content(state), token=token, owner=owner, valid_until_ns=until_ns,
            detail=f"missing {reply.reason}".strip() if reply.is_absent and request.op is not Op.READ else reply.reason,
        )  # fmt: skip

    def _part_answered(self, each: OpenRequest, at_ns: int, reply: ObjectReply) -> None:
        """Record what became of one object, where one request deletes several."""
        each.is_answered = True
        self._reply_row(each, at_ns, reply)
        if reply.outcome is Outcome.APPLIED and not each.is_lock and self.is_protected(each.request.key):
            self._effect(each)

    # What is known of objects.

    def _view(self, key: str, state: State | None, *, writer: str) -> LockView | None:
        """The lock that a state describes. writer: the client that writes it; "" for a reading."""
        if state is None or self.failure is not None or self.is_protected(key):
            return None
        try:
            views = self._decode(key, state.body)
        except LockrefError as error:
            self.failure = error
            return None
        if not views:
            return None
        # A doubt: of a state with several locks only the first is recorded.
        view = views[0]
        if view.owner or view.is_released:
            return view
        # A record that names no owner belongs to its writer. Each process of a client is another owner.
        place = (key, state.content)
        with self._mutex:
            owner = f"{writer}.{self._lives.get(writer, 1)}" if writer else self._writers.get(place, "unknown")
        return LockView(
            owner=owner,
            token=view.token,
            valid_until_ns=view.valid_until_ns,
            duration_ns=view.duration_ns,
            is_released=view.is_released,
            nonce=view.nonce,
        )

    def _op(self, client: str, request: ObjectRequest, view: LockView | None) -> Op:
        if view is None:
            return request.op
        if view.is_released:
            return Op.RELEASE
        # A create can only begin a grant. A replacement is a renewal if it writes the same owner and token as this
        # client's last accepted write, and else a take-over. Rejected: to compare owners alone, since a lock may take
        # over under its own name.
        if request.condition == IF_ABSENT:
            return Op.ACQUIRE
        return Op.RENEW if self._granted.get((client, request.key)) == (view.owner, view.token) else Op.ACQUIRE

    def _note_promise(self, view: LockView | None, sent: Stamp) -> None:
        """Remember the longest time for which a record keeps others out, from its sending, on its writer's clock."""
        if view is not None and view.valid_until_ns is not None and not view.is_released:
            self.promised_ns = max(self.promised_ns, view.valid_until_ns - sent[1])

    def _note_clock(self, asked: OpenRequest, at_ns: int) -> None:
        """Compare the date that the client has put on its request with what its clock was to show."""
        dated_ns = date_ns(asked.exchange.headers)
        if dated_ns is not None:
            off_ns = abs(dated_ns - self._stamp(asked.client, at_ns)[1])
            self.clocks_off_ns[asked.client] = min(off_ns, self.clocks_off_ns.get(asked.client, off_ns))

    def _note_lock(self, key: str, view: LockView | None) -> None:
        if view is not None and key not in self.locks:
            self.locks[key] = None
            self._learned()

    def _learn(self, asked: OpenRequest, reply: ObjectReply) -> None:
        request, mine = asked.request, (asked.client, asked.request.key)
        state = reply.state if request.op is Op.READ else request.state
        with self._mutex:
            if state is not None and reply.version:
                self._contents[request.key, reply.version] = state
            if not request.names_version or request.op is not Op.READ:
                self._versions.saw(request.key, reply.version)
            if request.op is Op.WRITE and asked.view is not None:
                # Only an accepted write tells the writer: after a refused one the same bytes may be another client's.
                for written in (request.state, reply.state):
                    if written is not None:
                        self._writers[request.key, written.content] = asked.view.owner
            if asked.op in (Op.ACQUIRE, Op.RENEW) and asked.view is not None:
                self._granted[mine] = (asked.view.owner, asked.view.token)
            elif asked.op in (Op.RELEASE, Op.DELETE):
                self._granted.pop(mine, None)

    def is_protected(self, key: str) -> bool:
        """True for an object that a lock protects."""
        return self._protection.covers(key)

    def _effect(self, asked: OpenRequest) -> None:
        """The store accepted a write to a protected object."""
        self.effects += 1
        stamp, key = self._stamp(asked.client, asked.sent_ns), asked.request.key

        def write() -> bool:
            """False while no lock is known that guards the object."""
            # Asked again at the end for objects whose lock was not seen yet: a program that writes first and locks
            # later has the very bug that is looked for. The stamp is that of the write, whenever the row is written.
            guards = self._protection.guards(key, tuple(self.locks))
            if len(guards) > 1:
                self.unguarded[key] = tuple(guards)
            elif guards:
                self._record(
                    Kind.EFFECT, stamp, asked.client, guards[0], Op.WRITE, Outcome.APPLIED,
                    request=asked.number, content=self._content(asked.request.state),
                    detail=detail(object=key, verb=asked.request.verb),
                )  # fmt: skip
            return bool(guards)

        if not write():
            self._effects.append((key, write))

    # Rows.

    def _stamp(self, client: str, at_ns: int) -> Stamp:
        return at_ns, self._wall_ns(at_ns) + self._offsets_ns.get(client, 0), at_ns, ""

    def _wall_ns(self, at_ns: int) -> int:
        """Our own wall clock at this instant.

        The monotonic clock is read first, as in every stamp of a real process. If the machine stops this thread between
        the two readings, the wall clock seems too far ahead, and a validity to end too early: no takeover is accused
        (S5, S6). The other way round a rival would seem to come before the end of a validity that was over.
        """
        mono_ns = self._runtime.monotonic_ns()
        return at_ns + self._runtime.wall_ns() - mono_ns

    @staticmethod
    def _content(state: State | None) -> str:
        return "" if state is None else state.content


def _told(view: LockView | None, verb: str, length: int | None = None) -> str:
    if length is not None:
        return sized(view, length, verb=verb)
    if view is None or view.duration_ns is None:
        return detail(verb=verb)
    return detail(verb=verb, duration_ns=view.duration_ns)
