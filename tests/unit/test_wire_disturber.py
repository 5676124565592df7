"""A plan at work on programs: whom it strikes, when, and how often."""

from __future__ import annotations

import signal

import pytest

from lockref.history import Kind, Op, Recorder
from lockref.runtime import NS_PER_MS, ThreadRuntime
from scenarios.wire.conversation import Exchange
from scenarios.wire.decoders import load_decoder
from scenarios.wire.disturber import Disturber
from scenarios.wire.objects import ObjectRequest
from scenarios.wire.recorder import Asked, WireRecorder
from scenarios.wire.s3 import S3Dialect
from scenarios.wire.tap import Strike, Tap
from sim.faults.answers import Error
from sim.faults.fault import Fault, Treatment, Trigger
from sim.faults.network import Delay, LoseRequest
from sim.faults.plan import FaultPlan
from sim.faults.process import Crash, Pause

LOCK, STATE = "b/locks/x", "b/state/x"


class Process:
    """A program that notes what is done to it."""

    def __init__(self) -> None:
        self.signals: list[int] = []
        self.resumed = ThreadRuntime().event()
        self.starts = 0
        self.is_dead = False

    def start(self) -> None:
        self.starts += 1

    def signal(self, number: int) -> bool:
        self.signals.append(number)
        if number == signal.SIGCONT:
            self.resumed.set()
        return not self.is_dead

    def kill(self) -> None:
        self.is_dead = True

    def wait(self, timeout_ns: int) -> bool:
        return True


class Bench:
    """A disturber with two clients and a recorder in memory."""

    def __init__(self, *faults: Fault, heal_ns: int | None = None) -> None:
        self.recorder = Recorder()
        runtime = ThreadRuntime()
        self.wire = wire = WireRecorder(
            self.recorder,
            S3Dialect(),
            load_decoder("auto"),
            protects=("state/*",),
            runtime=runtime,
            clock_offsets_ns={},
        )
        self.programs = {"n1": Process(), "n2": Process()}
        plan = FaultPlan.of(*faults, heal_ns=heal_ns)
        self.disturber = Disturber(plan, self.programs, wire, is_protected=wire.is_protected, seed=1)

    def asks(self, client: str, op: Op, key: str = LOCK) -> tuple[Asked, str | None]:
        """A request; and the id of the fault that strikes its bytes."""
        exchange = Exchange(method="PUT", path=f"/{key}", parameters={}, headers={}, asked_ns=1)
        asked = Asked(client, exchange, ObjectRequest(verb="PUT object", op=op, key=key), op, None, key == LOCK)
        fault, self.act = self.disturber.before(asked)
        return asked, None if fault is None else fault.id

    def struck(self, *asked: tuple[str, Op] | tuple[str, Op, str]) -> list[str | None]:
        return [self.asks(*each)[1] for each in asked]

    def kinds(self) -> int:
        return int((self.recorder.matrix()[:, 6] == Kind.FAULT).sum())


def test_a_filter_strikes_what_it_names():
    """Client, operation and service; the second that passes and the one after it."""
    bench = Bench(LoseRequest(id="f", client="n1", op="acquire", service="store", nth=2, times=2))
    wanted = ("n1", Op.ACQUIRE)
    assert bench.struck(wanted, ("n2", Op.ACQUIRE), ("n1", Op.RENEW), wanted, wanted, wanted) == [
        None, None, None, "f", "f", None,
    ]  # fmt: skip
    assert bench.disturber.fired == {"f": 2}


def test_what_the_lock_protects_is_another_service():
    """`service: resource` means writes to protected objects."""
    bench = Bench(Delay(id="f", service="resource", by_ns=5))
    assert bench.struck(("n1", Op.WRITE), ("n1", Op.WRITE, STATE)) == [None, "f"]
    assert bench.act.request_ns == 5


def test_to_delete_a_lock_is_to_release_it():
    """Many locks are released by a deletion; that of another object is none."""
    bench = Bench(Error(id="f", op="release", status="reset", cut="c1"))
    assert bench.struck(("n1", Op.DELETE, STATE), ("n1", Op.DELETE), ("n1", Op.RELEASE)) == [None, "f", "f"]


@pytest.mark.parametrize(("cut", "at"), [("c0", "before"), ("c1", "before"), ("c2", "applied"), ("c4", "delivered")])
def test_a_pause_strikes_at_its_cut(cut, at):
    """Stopped where the plan says, and let go on; at c0 the request waits as long."""
    bench = Bench(Pause(id="p", client="n1", for_ns=NS_PER_MS, when=Trigger(client="n1", op="acquire", cut=cut)))
    program = bench.programs["n1"]
    asked, held = bench.asks("n1", Op.ACQUIRE)
    stopped = {"before": list(program.signals)}
    assert held == ("p" if cut == "c0" else None)
    bench.disturber.applied(asked)
    stopped["applied"] = list(program.signals)
    bench.disturber.delivered(asked)
    stopped["delivered"] = list(program.signals)
    assert program.resumed.wait(10_000_000_000)
    first = next(place for place, signals in stopped.items() if signal.SIGSTOP in signals)
    assert first == at
    assert program.signals == [signal.SIGSTOP, signal.SIGCONT]
    assert bench.struck(("n1", Op.ACQUIRE)) == [None], "a trigger names one request"


def test_a_crash_before_the_request_leaves_keeps_it_from_the_server():
    """At c0 the process is killed and its request goes nowhere; at c1 the request still lands."""
    for cut, treatment in (("c0", Treatment.RESET), ("c1", Treatment.PASS)):
        bench = Bench(Crash(id="k", client="n1", when=Trigger(client="n1", op="renew", cut=cut)))
        bench.asks("n1", Op.RENEW)
        assert bench.programs["n1"].is_dead
        assert bench.act.request is treatment
        assert bench.kinds() == 1


def test_nothing_strikes_after_the_end():
    """A run that is over, or healed, is left alone."""
    bench = Bench(LoseRequest(id="f"), heal_ns=0)
    assert bench.struck(("n1", Op.READ)) == [None]
    bench = Bench(LoseRequest(id="f"))
    bench.disturber.end()
    assert bench.struck(("n1", Op.READ)) == [None]


def test_a_fault_is_for_its_own_request():
    """A request whose connection broke is answered never; no later request inherits what awaited its answer."""
    bench = Bench(Crash(id="k", client="n1", when=Trigger(client="n1", op="acquire", cut="c4")))
    bench.asks("n1", Op.ACQUIRE)
    for _ in range(2000):
        # Objects that are gone leave their place in memory to new ones.
        other, _ = bench.asks("n2", Op.READ)
        bench.disturber.applied(other)
        bench.disturber.delivered(other)
    assert not bench.programs["n1"].is_dead


def test_a_connection_that_ends_takes_its_request_along(monkeypatch):
    """What awaited an answer is dropped, however late anybody would tell of one."""
    bench = Bench(Crash(id="k", client="n1", when=Trigger(client="n1", op="write", cut="c4")))
    told: list[Asked] = []

    def before(asked: Asked) -> Strike:
        told.append(asked)
        return choose(asked)

    choose = bench.disturber.before
    monkeypatch.setattr(bench.disturber, "before", before)
    tap = Tap("n1", bench.wire, bench.disturber)
    tap.opened(1, 1)
    tap.choose(1, b"PUT /b/other HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx")
    tap.closed(1, 2)
    bench.disturber.delivered(told[0])
    assert not bench.programs["n1"].is_dead
