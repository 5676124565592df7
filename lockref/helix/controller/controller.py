"""A controller. Once it is elected as the leader, it reads the cluster, decides and sends messages; others stand by.

Each pass reads everything anew (`reading`). After an election, and after every break of the connection, the leader
first calls `sync`. So it overlooks nothing that an earlier leader has sent (Z12, Z14).

The messages of a deposed leader must not land (Z11, T18). So every batch of messages is a transaction that also checks
two znodes: LEADER, which ends with this session, and HISTORY, to which each leader appends its name. A later leader has
changed HISTORY, so an older batch that arrives late fails as a whole. A leader may also get no answer to its own batch.
It then changes HISTORY itself before it decides again, so that the old batch cannot land beside the new decisions.

An instance may take a lock and not report it (T28). So a leader writes each order to take a lock into a book, in the
same transaction (`grants`). Its successors and the leader itself read that book.

Prior art: Helix #1066 asks whether it is still leader before it sends; the answer may be old when the batch arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lockref.coordination.port import Change, Operation, SessionState, Stat, WatchEvent, change, check
from lockref.coordination.session import Event, Session
from lockref.errors import BackendUnavailable, ConfigError, LockLost, StoreRejected
from lockref.helix.controller.asking import RETRY_PAUSE_NS, Asking, Interrupted
from lockref.helix.controller.batch import Batch
from lockref.helix.controller.book import Book
from lockref.helix.controller.controller_event import ControllerEvent, EventTeller
from lockref.helix.controller.looking import Looking
from lockref.helix.controller.reading import ClusterReader, Reading
from lockref.helix.orders import Orders
from lockref.helix.pipeline import Alarm, AlarmKind, Decision, Semantics, Snapshot, ThrottleRule, decide
from lockref.helix.rebalancers import Rebalancer, is_pure
from lockref.helix.records import layout
from lockref.helix.records.messages import Message
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.strange_rebalancer import Cabinet
from lockref.helix.zombies import Zombies
from lockref.ports import Reply
from lockref.runtime import NS_PER_MS, NS_PER_S, Runtime
from lockref.words import Outcome

REFUSED_PAUSES: Final = 8
"""After a refusal a controller tries again, so many times within one session timeout."""

HISTORY_LENGTH: Final = 10
"""So many leaders stay in HISTORY, as in Helix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The settings of a controller. Durations in nanoseconds.

    session_timeout_ns: how long the server waits for a silent controller. period_ns: after this time without an event
    the controller decides again, and repeats orders that had no effect. rebalancer: used instead of every resource's
    own; "" for none. rebalancer_limit_ns: the longest time for an answer of a rebalancer that is not built in.
    is_descending: rebalancers get the live instances in descending order. checks_leadership: every batch checks that no
    other controller leads; False is the original. zombie_after_ns: an instance that lives and answers no message for so
    long is named; None: nobody is.
    """

    session_timeout_ns: int = 30_000_000_000
    period_ns: int = 60 * NS_PER_S
    semantics: Semantics = Semantics.OURS
    rebalancer: str = ""
    rebalancer_limit_ns: int = 10 * NS_PER_S
    is_descending: bool = False
    throttles: tuple[ThrottleRule, ...] = ()
    checks_leadership: bool = True
    zombie_after_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass of a leader: its reading, its decision, the number of messages sent, and its duration."""

    snapshot: Snapshot
    decision: Decision
    sent: int
    took_ns: int


class Controller:
    """One controller.

    name: its name in LEADER and HISTORY. on_pass: called after every pass; on_alarm: with alarms; on_event: when it
    begins or ceases to lead, and when its session is lost or opened.
    """

    # A variant may replace this decision.
    _decide = staticmethod(decide)

    def __init__(
        self,
        session: Session,
        *,
        cluster: str,
        name: str,
        runtime: Runtime,
        settings: ControllerSettings | None = None,
        on_pass: Callable[[Pass], None] = lambda _pass: None,
        on_alarm: Callable[[Alarm], None] = lambda _alarm: None,
        on_event: Callable[[ControllerEvent], None] = lambda _event: None,
    ) -> None:
        self._session = session
        self._paths = layout.ClusterPaths(cluster)
        self._name = name
        self._runtime = runtime
        self._settings = settings = ControllerSettings() if settings is None else settings
        self._on_pass = on_pass
        self._on_alarm = on_alarm
        self._asking = Asking(session, runtime)
        cabinet = Cabinet(runtime, settings.rebalancer_limit_ns)
        self._reader = ClusterReader(
            Looking(session, self._asking.require),
            self._paths,
            semantics=settings.semantics,
            override=settings.rebalancer,
            rebalancer=cabinet.of,
        )
        # The original keeps no book, so only our own semantics do.
        self._keeps_book = settings.semantics is Semantics.OURS and settings.checks_leadership
        self._book = Book(session, self._asking, self._paths)
        self._orders = Orders(settings.period_ns)
        self._zombies = Zombies(settings.zombie_after_ns)
        self._events = EventTeller(on_event)
        self._term: int | None = None
        self._reign_zxid = 0
        self._told: tuple[Alarm, ...] = ()
        # By resource; None for a view that an earlier leader has written.
        self._sent_views: dict[str, Mapping[str, Mapping[str, str]] | None] = {}
        self._last: tuple[Snapshot, Mapping[str, Rebalancer], Decision] | None = None
        self._has_led = False
        self._has_predecessors = False
        self._is_stopping = False

    @property
    def is_leader(self) -> bool:
        """True if this controller believes that it leads. Only the server knows for certain."""
        return self._term is not None and not self._is_stopping

    def run(self) -> None:
        """Stand by, lead, stand by again, until `stop`, however long no server answers.

        Errors, before it has led for the first time: BackendUnavailable if no server answers; ConfigError where the
        cluster is not as it must be; StoreRejected for what asking again cannot mend. Later it raises alarms instead.
        """
        self._session.start(self._runtime, timeout_ns=self._settings.session_timeout_ns)
        self._events.opened()
        while not self._is_stopping:
            try:
                self._lead_or_stand_by()
            # The session is the leadership: with it went LEADER, and everything that was read may be old. So nothing is
            # kept.
            except LockLost:
                self._begin_anew()
            except (StoreRejected, ConfigError) as error:
                if self._is_stopping:
                    return
                if not self._has_led:
                    raise
                # It has worked before. Somebody has taken a right away, or written nonsense, and may mend that.
                self._on_alarm(Alarm(AlarmKind.REFUSED, str(error)))
                self._runtime.sleep(self._session.timeout_ns // REFUSED_PAUSES)

    def _begin_anew(self) -> None:
        """The session is over, and with it the leadership."""
        self._term = None
        self._told = ()
        self._reader.forget()
        self._zombies.forget()
        self._session.end()
        if not self._is_stopping:
            self._events.lost()
        while not self._is_stopping:
            try:
                self._session.start(self._runtime, timeout_ns=self._settings.session_timeout_ns)
                self._events.opened()
                return
            except BackendUnavailable:
                self._runtime.sleep(RETRY_PAUSE_NS)

    def stop(self) -> bool:
        """End the session: another controller may lead at once. Idempotent; any thread may call it during `run`.

        Returns whether the session is known to be over. The term stays: a pass under way may be about to send under it,
        and finds that its session is over.
        """
        self._is_stopping = True
        return self._session.close()

    def _lead_or_stand_by(self) -> None:
        self._asking.answered(lambda: self._session.sync())
        self._term = self._elected()
        while not self._is_stopping:
            self._events.leadership(is_leader=self._term is not None)
            if self._term is None:
                # Who leads again raises anew what is still so: whoever logs alarms begins anew with each reign.
                self._told = ()
                self._await_event(None)
                self._term = self._elected()
            else:
                try:
                    is_in_doubt = self._pass_and_wait()
                except Interrupted:
                    self._runtime.sleep(RETRY_PAUSE_NS)
                    is_in_doubt = True
                if is_in_doubt:
                    # What happened while nobody answered was told to nobody (Z14).
                    self._asking.answered(lambda: self._session.sync())
                    self._term = self._still_leading()

    # Leadership.

    def _elected(self) -> int | None:
        """Try to become the leader. Returns the version of HISTORY that says so; None if another one leads."""
        session, paths = self._session, self._paths
        own = layout.session_name(session.id)
        record = ZNRecord(self._name, {"LIVE_INSTANCE": own, "SESSION_ID": own})
        while True:
            # The answer is not looked at. "Exists", "created" and no answer all lead to the same question: whose is the
            # znode? Prior art: Curator's protected create, by way of kazoo, which puts a mark into the znode's name to
            # find it again. Here no mark is needed: the znode's Stat names its owner.
            session.create(paths.leader, record.to_json(), is_ephemeral=True)
            found = self._asking.answered(lambda: session.exists(paths.leader, is_watching=True))
            if not isinstance(found.version, Stat):
                self._require(lambda: session.exists(paths.root), paths.root, f"there is no cluster {paths.cluster!r}")
                continue
            # A create whose answer was lost may have succeeded: the znode tells whose it is (T20).
            if found.version.owner != session.id:
                if not found.version.owner:
                    words = f"{paths.leader} belongs to no session: nobody leads until somebody removes it"
                    self._on_alarm(Alarm(AlarmKind.UNREADABLE, words))
                return None
            # The identity of this reign. The session is not enough: LEADER may be removed and made again by a late
            # request of the same session, and another controller may have led in between.
            self._reign_zxid = found.version.created_zxid
            term = self._written_into_history(is_continuing=False)
            self._sent_views = self._views_of_predecessors()
            return term

    def _views_of_predecessors(self) -> dict[str, Mapping[str, Mapping[str, str]] | None]:
        """By resource, the external views that earlier leaders have left; None in the place of each.

        So a view goes with its resource, also where the leader that wrote it leads no more. Nobody decides by a view:
        a leader that may not list them leads, and leaves those of resources that are gone.
        """
        if not self._has_predecessors:
            return {}
        path = self._paths.external_views
        try:
            found = self._asking.answered(lambda: self._session.children(path))
        except StoreRejected as error:
            words = f"{path} cannot be listed ({error}): views of resources that are gone may stay"
            self._on_alarm(Alarm(AlarmKind.REFUSED, words))
            return {}
        return dict.fromkeys(found.body or ())

    def _require(self, ask: Callable[[], Reply], path: str, problem: str) -> tuple[int, bytes]:
        """The version and the body of a znode that every cluster has. ask: for this znode.

        A server that lags may show the time before the cluster was made, so an absent znode is asked for again.
        Errors: ConfigError with `problem` if it stays absent for one session timeout.
        """
        until_ns = self._runtime.monotonic_ns() + self._session.timeout_ns
        while True:
            found = self._asking.answered(ask)
            if isinstance(found.version, Stat):
                return found.version.version, found.body or b""
            if self._runtime.monotonic_ns() >= until_ns:
                raise ConfigError(f"{problem}: {path} is not there")
            self._runtime.sleep(RETRY_PAUSE_NS)

    def _written_into_history(self, *, is_continuing: bool) -> int:
        """Enter this leader, and take the book over, as one transaction. Returns the version of HISTORY.

        is_continuing: this controller has led all the time, and only wants that no earlier batch can land.
        """
        paths = self._paths
        while True:
            version, body = self._require(
                lambda: self._session.get(paths.leader_history),
                paths.leader_history,
                f"the cluster {paths.cluster!r} is not whole",
            )
            # HISTORY is the fence of the cluster. Every batch checks its version, so a batch of an earlier leader,
            # still on its way, fails as a whole. Rejected: to check LEADER alone, which a new leader makes anew under
            # the same path.
            entered, self._has_predecessors = self._entered(body)
            operations = [change(paths.leader_history, entered, version)]
            if self._keeps_book:
                operations += self._book.renewal(version, self._term if is_continuing else None)
            reply = self._session.multi(operations)
            if reply.outcome is Outcome.APPLIED and isinstance(reply.version, Stat):
                if self._keeps_book:
                    self._book.read(is_continuing=is_continuing)
                return reply.version.version
            self._asking.pause(reply)

    def _entered(self, body: bytes) -> tuple[bytes, bool]:
        """HISTORY with one more leader, and whether there may have been others before.

        What holds no record is begun anew: nobody decides by what it says.
        """
        paths = self._paths
        record, is_first = ZNRecord("HISTORY"), True
        if body:
            try:
                record = ZNRecord.from_json(body, paths.leader_history)
                is_first = not record.lists.get("HISTORY")
            except ConfigError as error:
                is_first = False
                self._on_alarm(Alarm(AlarmKind.UNREADABLE, f"{error}. It is written anew"))
        entry = f"{{CONTROLLER={self._name}, SESSION={layout.session_name(self._session.id)}}}"
        entries = [*record.lists.get("HISTORY", ()), entry][-HISTORY_LENGTH:]
        names = [*record.lists.get(paths.cluster, ()), self._name][-HISTORY_LENGTH:]
        entered = ZNRecord("HISTORY", record.simple, record.maps, {"HISTORY": entries, paths.cluster: names})
        return entered.to_json(), not is_first

    def _still_leading(self) -> int | None:
        return self._term if self._is_reigning() else self._elected()

    def _is_reigning(self) -> bool:
        """Is LEADER that of this reign? One of an earlier request may have landed late, after somebody else had led."""
        found = self._asking.answered(lambda: self._session.exists(self._paths.leader, is_watching=True)).version
        return isinstance(found, Stat) and (found.owner, found.created_zxid) == (self._session.id, self._reign_zxid)

    def _await_event(self, timeout_ns: int | None) -> Event | None:
        event = self._session.next_event(timeout_ns)
        if event is SessionState.LOST or (event is None and self._session.state is SessionState.LOST):
            raise LockLost("the controller's session has ended", reason="session ended")
        if event is SessionState.SUSPENDED:
            self._events.suspended()
        elif event is SessionState.CONNECTED:
            self._events.resumed()
        if event is not None:
            self._reader.heard(event)
        return event

    # One pass.

    def _pass_and_wait(self) -> bool:
        """Decide until there is nothing to send, then wait for an event. Raises Interrupted, LockLost.

        True if what came puts in doubt that it leads: it was disconnected, or LEADER was removed.
        """
        began_ns = self._runtime.monotonic_ns()
        reading = self._read()
        # Read, decide, send: each pass begins from what the server has now, and does not ask which event woke it. So a
        # lost event costs a period and no more (level-triggered, as Kubernetes calls it).
        snapshot = reading.snapshot
        self._book.settle(reading.settled)
        decision = self._decided(reading)
        if reading.is_paused:
            decision = replace(decision, messages=(), removals=())
        complaints = [Alarm(AlarmKind.UNREADABLE, text) for text in self._book.complaints]
        zombies = self._zombies.named(snapshot, began_ns)
        alarms = [*complaints, *reading.alarms, *zombies, *decision.alarms]
        # The original sends at each pass what it decides. Ours repeats an order only after a period, so that a slow
        # instance does not collect copies of one message.
        due = decision.messages
        if self._settings.semantics is Semantics.OURS:
            due, unheeded = self._orders.due(decision.messages, snapshot, self._runtime.monotonic_ns())
            alarms += unheeded
        alarms += self._remove(decision.removals)
        sent = self._send(due, snapshot)
        self._show(decision, reading.configured)
        for alarm in alarms:
            # An alarm is raised once while it lasts. One that goes away and comes back is raised again.
            if alarm not in self._told:
                self._on_alarm(alarm)
        self._told = tuple(alarms)
        self._has_led = True
        done = replace(decision, alarms=tuple(dict.fromkeys(alarms)))
        took_ns = self._runtime.monotonic_ns() - began_ns
        self._on_pass(Pass(snapshot=snapshot, decision=done, sent=sent, took_ns=took_ns))
        event = self._await_event(self._zombies.next_ns(self._runtime.monotonic_ns(), self._settings.period_ns))
        is_in_doubt = False
        # Events come in crowds: one pass answers all that have arrived. Each may be the one that puts in doubt.
        while event is not None:
            removal = WatchEvent(Change.DELETED, self._paths.leader, self._session.id)
            is_in_doubt |= event is SessionState.CONNECTED or event == removal
            event = self._await_event(0)
        return is_in_doubt

    def _read(self) -> Reading:
        return self._reader.read(self._book.pages, self._book.zxid)

    def _decided(self, reading: Reading) -> Decision:
        """The decision about what was read: the last one, if that was made from the same, by rules that know no past.

        A stranger's rule is asked in each pass: it may know more than its question.
        """
        snapshot, rules = reading.snapshot, reading.rebalancers
        if self._last is None or self._last[0] != snapshot or self._last[1] != rules:
            decision = self._decide(
                snapshot,
                rules,
                semantics=self._settings.semantics,
                throttles=self._settings.throttles,
                is_descending=self._settings.is_descending,
            )
            if not all(is_pure(rule) for rule in rules.values()):
                self._last = None
                return decision
            self._last = snapshot, rules, decision
        return self._last[2]

    # What a pass does.

    def _send(self, messages: Sequence[Message], snapshot: Snapshot) -> int:
        """Send them in batches that fail as a whole once another controller leads (Z11, T18).

        What they tell is written down with them (T28). Where nothing is sent, what is over is struck out.
        """
        batch = self._batch(snapshot)
        sent = 0
        for message in messages:
            if batch.is_full:
                sent += self._commit(batch)
                batch = self._batch(snapshot)
            batch.add(replace(message, id=self._runtime.token_bytes(16).hex()))
        if batch.messages or batch.pages:
            sent += self._commit(batch)
        return sent

    def _batch(self, snapshot: Snapshot) -> Batch:
        return Batch(
            snapshot,
            self._paths,
            controller=self._name,
            session=layout.session_name(self._session.id),
            now_ms=self._runtime.wall_ns() // NS_PER_MS,
            known=self._book.pages if self._keeps_book else None,
            unwritten=self._book.unwritten(),
        )

    def _commit(self, batch: Batch) -> int:
        guards: list[Operation] = []
        if self._settings.checks_leadership:
            assert self._term is not None, "only a leader sends"
            guards = [check(self._paths.leader), check(self._paths.leader_history, self._term)]
        # One transaction: guards, messages, and the book's page that says so. If the page were written afterwards, a
        # crash in between would leave an order that the next leader does not know of (T28).
        reply = self._session.multi([*guards, *batch.operations, *self._book.operations(batch.pages)])
        if reply.outcome is Outcome.APPLIED:
            self._reader.sent(batch.messages)
            self._book.committed(batch.pages)
            orders = [message for _, message in batch.messages]
            self._orders.sent(orders, batch.snapshot, self._runtime.monotonic_ns())
            return len(orders)
        self._asking.pause(reply)
        # Another one leads, an instance was removed meanwhile, or nobody knows whether the batch will land.
        self._lead_on_or_stop(is_open=reply.outcome is Outcome.AMBIGUOUS)
        raise Interrupted

    def _lead_on_or_stop(self, *, is_open: bool) -> None:
        """After a batch that was not confirmed. is_open: it may still land, so HISTORY changes before the next one."""
        if not self._is_reigning():
            self._term = self._elected()
            return
        history = self._asking.answered(lambda: self._session.exists(self._paths.leader_history)).version
        # Somebody who does not lead may have written HISTORY: then no batch of ours would ever pass.
        if is_open or not isinstance(history, Stat) or history.version != self._term:
            self._term = self._written_into_history(is_continuing=True)
        elif self._keeps_book:
            self._book.refresh()

    def _remove(self, paths: Sequence[str]) -> list[Alarm]:
        """Messages that nobody will execute (Z20). What cannot be removed stays, with an alarm."""
        alarms: list[Alarm] = []
        for path in paths:
            reply = self._session.delete(path)
            if reply.outcome is Outcome.PRECONDITION_FAILED and not reply.missing:
                alarms.append(
                    Alarm(AlarmKind.UNREADABLE, f"{path} has no live receiver and cannot be removed: {reply.reason}")
                )
                continue
            self._asking.require(reply)
        return alarms

    def _show(self, decision: Decision, configured: Sequence[str]) -> None:
        """Write EXTERNALVIEW where it changed. Nobody decides by it: a lost write is made good with the next change.

        The view of a resource that is neither configured nor reported any more goes.
        """
        for resource in [each for each in self._sent_views if each not in decision.views and each not in configured]:
            reply = self._session.delete(self._paths.external_view(resource))
            if reply.outcome is Outcome.APPLIED or reply.missing:
                del self._sent_views[resource]
        for resource, view in decision.views.items():
            if self._sent_views.get(resource) == view:
                continue
            path = self._paths.external_view(resource)
            body = ZNRecord(resource, {"NUM_PARTITIONS": str(len(view))}, view).to_json()
            reply = self._session.set(path, body)
            if reply.missing:
                reply = self._session.create(path, body)
            if reply.outcome is Outcome.APPLIED:
                self._sent_views[resource] = view
