"""The carriers of simulated tasks: greenlets, or gated real threads.

The kernel decides who runs; a substrate only moves control to a task and
back. Exactly one task runs at a time on both, so the same schedule gives the
same trace. Greenlets are the fast carrier. Real threads are slower and catch
what greenlets cannot: a lock that waits on a primitive which its Runtime does
not know would hang the gate, and is reported.

The substrates are shaped after kazoo's handlers: one client, several carriers.
"""

from __future__ import annotations

import threading  # noqa: TID251 - the gated substrate is made of real threads
from collections.abc import Callable
from typing import Protocol

import greenlet

from lockref.errors import ConfigError, DeterminismError

GATE_PATIENCE_S = 60.0
"""Real seconds that a gated thread may take for one step before it counts as blocked outside its Runtime."""


GATED_PREFIX = "gated "
"""Begins the name of every gated thread, by which the auditor knows it as part of a run."""


class Carrier(Protocol):
    """One task's stack."""

    @property
    def resume(self) -> Callable[[], object]:
        """Called by the kernel: run the task until it parks or ends; re-raise what it raised."""
        ...

    @property
    def park(self) -> Callable[[], object]:
        """Called by the task: give control back to the kernel until resumed."""
        ...


CarrierFactory = Callable[[Callable[[], None], str], Carrier]


class GreenletCarrier:
    """A task on a greenlet. It is made on its first resume, so that its parent is the kernel's greenlet."""

    __slots__ = ("park", "resume")

    def __init__(self, body: Callable[[], None], _name: str) -> None:
        # `switch` of the two greenlets is kept and called directly. A method of our own around it would cost a Python
        # frame for each of the two switches of a step, and steps are what a seed consists of.
        hub = greenlet.getcurrent()
        self.resume = greenlet.greenlet(body, hub).switch
        self.park = hub.switch


class GatedThreadCarrier:
    """A task on a real thread that runs only between `resume` and the next `park`."""

    __slots__ = ("_body", "_ended", "_failure", "_gate", "_hub_gate", "_is_lost", "_name", "_thread")

    def __init__(self, body: Callable[[], None], name: str) -> None:
        self._body = body
        self._name = name
        # Two semaphores, one for each direction, as in a rendezvous. Rejected: one condition with a flag, where a task
        # that parks at once could take its own wake-up; and `threading.Event`, which has to be cleared and so has the
        # same race.
        self._gate = threading.Semaphore(0)
        self._hub_gate = threading.Semaphore(0)
        self._failure: BaseException | None = None
        self._ended = False
        self._is_lost = False
        # A daemon thread: one that blocks outside its Runtime is given up below, and must not keep the interpreter
        # alive.
        self._thread = threading.Thread(target=self._run, name=f"{GATED_PREFIX}{name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._gate.acquire()
        try:
            self._body()
        except BaseException as failure:  # noqa: BLE001 - carried to the kernel's thread, which raises it
            self._failure = failure
        self._ended = True
        self._hub_gate.release()

    def resume(self) -> None:
        # A lost thread may wake later and run the lock's code beside the hub. It is never resumed again, so it stops at
        # its next `park`. What it does until then is outside the trace; the error has ended the run by then.
        if self._is_lost:
            return
        self._gate.release()
        # The only place in a simulation that reads real time. It decides nothing in the trace: it only ends a run that
        # hangs.
        if not self._hub_gate.acquire(timeout=GATE_PATIENCE_S):
            self._is_lost = True
            raise DeterminismError(
                f"task {self._name!r} did not come back within {GATE_PATIENCE_S:g} real seconds: it blocks or loops "
                "outside its Runtime; wait through runtime.sleep, event and mutex only"
            )
        if self._ended:
            self._thread.join()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def park(self) -> None:
        self._hub_gate.release()
        self._gate.acquire()


SWITCHES_BETWEEN_TASKS = frozenset({"greenlet"})
"""The substrates on which the task that runs may resume another one. A gated thread that did so would wait for it."""

CARRIERS: dict[str, CarrierFactory] = {"greenlet": GreenletCarrier, "thread": GatedThreadCarrier}


def carrier_factory(substrate: str) -> CarrierFactory:
    """The carrier behind a substrate's name. Raises ConfigError for any other name."""
    try:
        return CARRIERS[substrate]
    except KeyError:
        raise ConfigError(f"substrate is {substrate!r}; expected one of {', '.join(sorted(CARRIERS))}") from None
