"""One probe of one store: reach the store, put the questions, remove the objects, and return the findings.

A probe may end early, by an error or by Ctrl-C. The findings until then are kept, and clauses without an answer say so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lockref.clouds.calls import ANYTHING, PUT, READ, Answer, Call
from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime
from lockref.stores.probe.clauses import CLAUSES
from lockref.words import Outcome
from scenarios import interrupts
from scenarios.probe.cleanup import LOST_AT_ONCE_NS, Residue, remove_all
from scenarios.probe.exchange import WireStore
from scenarios.probe.findings import Finding
from scenarios.probe.opening import open_endpoint
from scenarios.probe.questions.latency import BUDGET_NS, measure_latencies
from scenarios.probe.questions.races import require_apart
from scenarios.probe.questions.spread import Racers, places_of
from scenarios.probe.questions.stopped_node import Node
from scenarios.probe.session import ROUNDS_MAX, NotSupported, OutOfTime, Session, Store, Unanswered, may_have_landed
from scenarios.probe.steps import TRIES, Step, steps_for

if TYPE_CHECKING:
    from lockref.stores.address import StoreAddress

FOR_NS_DEFAULT: Final = 25 * NS_PER_S
SHOWN_WITHIN_NS: Final = 2 * NS_PER_S
"""A store that does not show its first write by then is taken for none."""
REACH_TRIES: Final = 3
_PAUSE_NS: Final = 50 * NS_PER_MS
NO_VERSION_READ: Final = (
    "reads name no version, so no lock can replace what it has read; the versions here are from the objects' resources"
)


@dataclass(slots=True, kw_only=True)
class ProbeResult:
    """The result of a probe.

    durations: of requests that were sent alone, in nanoseconds by kind. ended: why the probe ended early; "" if it did
    not. is_reached: a first write was answered. is_gone: the store stopped answering, or never answered.
    is_interrupted: a signal ended the probe.
    """

    addresses: list[StoreAddress]
    findings: dict[str, Finding]
    began_wall_ns: int
    durations: dict[str, list[int]] = field(default_factory=dict)
    servers: list[str] = field(default_factory=list)
    residue: Residue = field(default_factory=lambda: Residue(""))
    requests: int = 0
    lasted_ns: int = 0
    ended: str = ""
    is_reached: bool = False
    is_gone: bool = False
    is_interrupted: bool = False


def probe(
    addresses: Sequence[StoreAddress],
    *,
    for_ns: int = FOR_NS_DEFAULT,
    rounds: int = ROUNDS_MAX,
    only: Collection[str] = (),
    node: Node | None = None,
    latency_cycles: int = 0,
    progress: Callable[[str], None] = lambda _text: None,
) -> ProbeResult:
    """Ask the store every clause, in about `for_ns`. The removal of the objects takes further time.

    addresses: of one store, one for each endpoint. rounds: of each race, at most. only: the clauses to ask; default
    all. node: the node of the store to stop for C17. latency_cycles: so many requests of each kind are sent alone after
    the questions, to learn how long they take, in further `BUDGET_NS` at most.
    Errors: ConfigError for a store that cannot be opened; CapabilityMissing for a service that holds no objects. A
    store that does not answer, or refuses even a plain write, is no error: see `ProbeResult.is_gone`.
    """
    runtime = ThreadRuntime()
    began_ns = runtime.monotonic_ns()
    findings = {clause: Finding(condition) for clause, condition in CLAUSES.items()}
    done = ProbeResult(addresses=list(addresses), findings=findings, began_wall_ns=runtime.wall_ns())
    with contextlib.ExitStack() as stack:
        try:
            stores = [stack.enter_context(contextlib.closing(open_endpoint(address))) for address in addresses]
        except BackendUnavailable as error:
            done.ended, done.is_gone = str(error), True
        else:
            # The time begins here: the load of an SDK says nothing about the store.
            end_ns = runtime.monotonic_ns() + for_ns
            session = Session(stores, address=str(addresses[0]), end_ns=end_ns, rounds_max=rounds, runtime=runtime)
            _ask_and_remove(session, done, only, node, latency_cycles, progress)
    require_apart(done.findings)
    done.lasted_ns = runtime.monotonic_ns() - began_ns
    _explain_silence(done)
    return done


def _ask_and_remove(
    session: Session,
    done: ProbeResult,
    only: Collection[str],
    node: Node | None,
    latency_cycles: int,
    progress: Callable[[str], None],
) -> None:
    done.durations, done.servers = session.durations, session.servers
    try:
        _reach(session)
        done.is_reached = True
        # The racing processes end before the removal begins. Otherwise their late requests could land after it.
        places = places_of(session, done.addresses) if not only or "C16" in only else []
        with Racers(places) as racers:
            steps = steps_for(len(session.stores), done.findings, racers, rounds=session.rounds_max, node=node)
            _ask_all(session, [step for step in steps if not only or step.clause in only], done, progress)
        if latency_cycles:
            progress("how long requests take that are sent alone")
            session.end_ns = session.runtime.monotonic_ns() + BUDGET_NS
            # A request that has no answer is no latency, and says nothing of the clauses.
            with contextlib.suppress(Unanswered, OutOfTime):
                measure_latencies(session, cycles=latency_cycles, end_ns=session.end_ns)
    except OutOfTime:
        done.ended = "its time was over"
    except BackendUnavailable as error:
        done.ended, done.is_gone = str(error), True
    except KeyboardInterrupt:
        done.ended, done.is_interrupted = "interrupted", True
    finally:
        if any(isinstance(store, WireStore) and store.reads_name_no_version for store in session.stores):
            # What else was found stays. A lock that replaces needs the version that it has read.
            done.findings["C4"].note(done.findings["C4"].unanswered, NO_VERSION_READ)
        with interrupts.deferred():
            if session.has_sent:
                progress(f"removing {session.prefix}")
                done.residue = remove_all(session)
        done.requests = session.requests + done.residue.requests


def _reach(session: Session) -> None:
    """Check that a first write and read succeed at every endpoint. Errors: BackendUnavailable, with the answer."""
    key = session.key("reach")
    body = session.body("reach")
    for store in session.stores:
        answer = _first(session, Call(verb=PUT, key=key, body=body, none_match=ANYTHING), store)
        if answer.outcome is Outcome.REJECTED:
            # Perhaps the store only does not know the condition.
            answer = _first(session, Call(verb=PUT, key=key, body=body), store)
        if may_have_landed(answer) or answer.outcome is Outcome.REJECTED:
            if answer.status is None:
                raise BackendUnavailable(
                    f"{session.address} cannot be used: a first write got no answer ({answer.words}); "
                    "is the server running, and is its address right?"
                )
            raise BackendUnavailable(
                f"{session.address} cannot be used: a first write was answered {answer.words}: {answer.reason}"
            )
        shown = _shown(session, key, body, store)
        if shown.body is None and not shown.is_absent:
            told = shown.words if shown.status is None else f"{shown.words}: {shown.reason}"
            raise BackendUnavailable(f"{session.address} cannot be used: a first read was answered {told}")
        if shown.body != body and store is session.store:
            raise BackendUnavailable(
                f"{session.address} cannot be used: it confirmed a first write ({answer.words}), and a read shows "
                f"{'nothing' if shown.body is None else 'other bytes'}: does a store answer there?"
            )


def _first(session: Session, call: Call, store: Store) -> Answer:
    """A request of the first ones: a lost answer is asked for again, unless the store let us wait for nothing."""
    for _ in range(REACH_TRIES - 1):
        began_ns = session.runtime.monotonic_ns()
        answer = session.patiently(call, store)
        is_quick = session.runtime.monotonic_ns() - began_ns < LOST_AT_ONCE_NS
        if answer.outcome is not Outcome.AMBIGUOUS or answer.is_unsent or not is_quick:
            return answer
    return session.patiently(call, store)


def _shown(session: Session, key: str, body: bytes, store: Store) -> Answer:
    """A first read, repeated for a while where it shows something else: old reads are no outage, but a fault (C21)."""
    until_ns = session.runtime.monotonic_ns() + min(SHOWN_WITHIN_NS, session.left_ns() // 2)
    while True:
        shown = _first(session, Call(verb=READ, key=key), store)
        is_old = shown.is_absent or (shown.body is not None and shown.body != body)
        if not is_old or store is not session.store or session.runtime.monotonic_ns() > until_ns:
            return shown
        session.runtime.sleep(_PAUSE_NS)


def _ask_all(session: Session, steps: Sequence[Step], done: ProbeResult, progress: Callable[[str], None]) -> None:
    for number, step in enumerate(steps):
        rest = sum(each.weight for each in steps[number:])
        share_ns = int(session.left_ns() * step.weight / rest) if rest else 0
        progress(f"{step.clause}  {CLAUSES[step.clause].words}")
        try:
            _ask(session, step, done.findings, session.runtime.monotonic_ns() + share_ns)
        except (OutOfTime, BackendUnavailable, KeyboardInterrupt):
            _leave_open(steps[number:], done.findings)
            raise


def _leave_open(steps: Sequence[Step], findings: Mapping[str, Finding]) -> None:
    """The probe ends within the first of these steps. A clause that was asked only in part gets no verdict.

    Some clauses are asked in two steps, with their races in the second. A clause that is proven unsafe stays unsafe.
    """
    for step in steps:
        finding = findings[step.clause]
        if (finding.kept or step is steps[0]) and not finding.unsafe:
            finding.part = ""
            finding.note(finding.unanswered, "not asked to its end: the probe ended early")


def _ask(session: Session, step: Step, findings: dict[str, Finding], end_ns: int) -> None:
    """Run one step, and run it again if an answer was lost. A fault that the first try has proven stays proven."""
    for tries in range(1, TRIES + 1):
        finding = findings[step.clause]
        try:
            step.run(session, finding, end_ns)
        except NotSupported as error:
            finding.note(finding.unsupported, str(error))
            return
        except Unanswered as error:
            if tries == TRIES or finding.unsafe:
                finding.note(finding.unanswered, str(error))
                return
            if not step.is_again:
                findings[step.clause] = Finding(finding.condition)
        else:
            return


def _explain_silence(done: ProbeResult) -> None:
    """Give each clause that was not reached a reason."""
    for finding in done.findings.values():
        if finding.told or finding.kept:
            continue
        finding.note(finding.unanswered, "not asked: the probe ended early" if done.ended else "not asked")
