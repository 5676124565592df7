"""C16: races from several processes, over every endpoint. A lock inside one server process excludes nobody elsewhere.

Each process sends its requests without their last bytes, reports `ready`, and sends the last bytes when it hears `go`.
A write to a folder cannot be held up; there the process starts the write when it hears `go`.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from typing import TYPE_CHECKING, Any, Final, cast

from lockref.clouds.calls import ANYTHING, PUT, Answer, Call
from lockref.clouds.uri import cloud_of
from lockref.errors import LockrefError
from lockref.runtime import NS_PER_S
from lockref.stores.address import StoreAddress
from scenarios.probe import exchange, local
from scenarios.probe.exchange import WireStore
from scenarios.probe.findings import Finding, Rate
from scenarios.probe.opening import open_endpoint
from scenarios.probe.questions import races
from scenarios.probe.questions.races import Form
from scenarios.probe.session import Unanswered
from scenarios.worlds.processes.orphans import end_with_parent

if TYPE_CHECKING:
    from types import TracebackType

    from scenarios.probe.dialect import Dialect
    from scenarios.probe.session import Session

PROCESSES: Final = 2
START_TIMEOUT_S: Final = 30
ANSWER_TIMEOUT_S: Final = 30


def _racer(place: Dialect | StoreAddress, control: Connection) -> None:
    """The main function of a racing process. It receives calls, sends `ready`, waits for `go`, and sends the answers.

    place: a dialect with its signer, so that the process need not load an SDK; or the address of a local store.
    """
    end_with_parent()
    asker = _Asker(control)
    with contextlib.suppress(_Gone):
        try:
            store = open_endpoint(place) if isinstance(place, StoreAddress) else WireStore(place)
        except LockrefError as error:
            asker.tell(str(error))
            return
        with contextlib.closing(store):
            asker.tell("")
            while True:
                _race_once(store, asker)


def _race_once(store: WireStore | local.LocalStore, asker: _Asker) -> None:
    keeps_connections, calls = asker.hear()
    if isinstance(store, WireStore):
        store.keeps_connections = keeps_connections
        held = [store.hold(call) for call in calls]
        asker.tell("ready")
        asker.hear()
        asker.tell(exchange.released(held))
    else:
        asker.tell("ready")
        asker.hear()
        asker.tell(local.race([(store, call) for call in calls]))


class _Gone(Exception):
    """The process that asked for the race has ended, or has given up."""


@dataclass(frozen=True, slots=True)
class _Asker:
    """The process that asks for races, as a racing process sees it. Errors: _Gone, of both calls."""

    control: Connection

    def hear(self) -> Any:
        try:
            return self.control.recv()
        except (EOFError, OSError) as error:
            raise _Gone from error

    def tell(self, word: object) -> None:
        try:
            self.control.send(word)
        except OSError as error:
            raise _Gone from error


@dataclass(slots=True)
class _Racer:
    process: Any
    control: Connection


class Racers:
    """Processes that race at one store, by its endpoints in turn. A context manager, which starts them and ends them.

    They take a second or more to start, so they are started before they are needed; `failure` waits for them.
    """

    def __init__(self, places: Sequence[Dialect | StoreAddress]) -> None:
        self._places = list(places)
        self._racers: list[_Racer] = []
        self._failure: str | None = None

    @property
    def failure(self) -> str:
        """Why they cannot race; "" once all are ready."""
        if self._failure is None:
            self._failure = "" if self._racers else "none was started"
            for racer in self._racers:
                self._failure = self._failure or _told(racer.control, START_TIMEOUT_S)
        return self._failure

    @property
    def count(self) -> int:
        return len(self._racers)

    def __enter__(self) -> Racers:
        context = multiprocessing.get_context("spawn")
        # A terminal's Ctrl-C reaches every process; the one that was asked for the probe ends these. They inherit the
        # mask, so that the signal does not strike them while they start.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        with contextlib.ExitStack() as started:
            started.callback(self._end)
            try:
                self._start(context)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            started.pop_all()
        return self

    def _start(self, context: SpawnContext) -> None:
        for number in range(max(PROCESSES, len(self._places)) if self._places else 0):
            control, there = context.Pipe()
            place = self._places[number % len(self._places)]
            process = context.Process(target=_racer, args=(place, there), name=f"racer-{number}", daemon=True)
            process.start()
            there.close()
            self._racers.append(_Racer(process, control))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def give_up(self, reason: str) -> None:
        """End all processes. After an answer that came too late, later answers would be taken for the wrong call's."""
        self._failure = reason
        self._end()

    def _end(self) -> None:
        for racer in self._racers:
            racer.control.close()
        for racer in self._racers:
            racer.process.join(2)
            if racer.process.is_alive():
                racer.process.kill()
                racer.process.join(2)

    def race(self, calls: Sequence[Call], *, keeps_connections: bool = True) -> list[Answer]:
        """Send all calls at once, dealt out to the processes in turn; the answers are in the order of the calls.

        Errors: OSError, EOFError, TimeoutError.
        """
        dealt = [list(calls[number :: len(self._racers)]) for number in range(len(self._racers))]
        for racer, part in zip(self._racers, dealt, strict=True):
            racer.control.send((keeps_connections, part))
        for racer in self._racers:
            _received(racer.control)
        for racer in self._racers:
            racer.control.send("go")
        answers: list[Answer | None] = [None] * len(calls)
        for number, racer in enumerate(self._racers):
            for place, answer in enumerate(_received(racer.control)):
                answers[number + place * len(self._racers)] = answer
        return [answer for answer in answers if answer is not None]


def _received(control: Connection) -> Any:
    if not control.poll(ANSWER_TIMEOUT_S):
        raise TimeoutError("a racing process fell silent")
    return control.recv()


def _told(control: Connection, timeout_s: float) -> str:
    """The first message of a process: "" when it is ready, or its error."""
    try:
        return str(control.recv()) if control.poll(timeout_s) else "a racing process did not get ready"
    except (EOFError, OSError):
        return "a racing process ended"


def places_of(session: Session, addresses: Sequence[StoreAddress]) -> list[Dialect | StoreAddress]:
    """The places that racing processes open; empty for a store that lives in this process alone."""
    if cloud_of(addresses[0]).is_in_process:
        return []
    if session.store.is_wire:
        return [cast("Dialect", store.dialect) for store in session.stores]
    return list(addresses)


def over_endpoints(session: Session, finding: Finding, end_ns: int) -> None:
    """Creates and replacements from here, dealt out over all endpoints."""
    finding.facts["endpoints"] = len(session.stores)
    if len(session.stores) == 1:
        return
    for part, (name, round_) in enumerate((("creates", races.create_round), ("replacements", races.replace_round))):
        until_ns = session.runtime.monotonic_ns() + session.left_ns(end_ns) // (2 - part)
        finding.part = ("create", "replace")[part]
        races.repeat(
            session, finding, functools.partial(round_, spread=True), end_ns=until_ns,
            name=f"{name} over {len(session.stores)} endpoints", part=finding.part,
        )  # fmt: skip


def by_processes(session: Session, finding: Finding, end_ns: int, *, racers: Racers) -> None:
    """Creates and replacements from several processes, each at an endpoint."""
    if not racers.count:
        finding.has_no("its objects live in one process")
        return
    if racers.failure:
        finding.part = ""
        finding.note(finding.unanswered, f"no process could race: {racers.failure}")
        return
    finding.facts["processes"] = racers.count
    for part, (name, absent) in enumerate((("creates", True), ("replacements", False))):
        until_ns = session.runtime.monotonic_ns() + session.left_ns(end_ns) // (2 - part)
        finding.part = ("create", "replace")[part]
        races.repeat(
            session, finding, functools.partial(_round, racers, absent), end_ns=until_ns,
            name=f"{name} from {racers.count} processes", part=finding.part,
        )  # fmt: skip


def _round(racers: Racers, absent: bool, session: Session, finding: Finding, rate: Rate, form: Form) -> None:
    key = session.key("race-spread")
    before = None if absent else session.body("start")
    version = "" if before is None else session.make(key, before)
    condition: dict[str, Any] = {"none_match": ANYTHING} if absent else {"match": version}
    calls = [
        Call(verb=PUT, key=key, body=session.body(size=form.size), headers=form.headers, **condition)
        for _ in range(rate.racing)
    ]
    session.check_time()
    try:
        answers = racers.race(calls, keeps_connections=session.keeps_connections)
    except (OSError, EOFError) as error:
        racers.give_up(f"{type(error).__name__}: {error}")
        # What the processes sent may land at any time.
        session.keep(key)
        raise Unanswered(f"a race from several processes: {error}") from error
    session.counted(calls, answers)
    races.judge(session, finding, rate, calls, answers, before=before)
    session.clear(key)


assert ANSWER_TIMEOUT_S * NS_PER_S > exchange.REQUEST_TIMEOUT_NS, "a process waits for its store first"
