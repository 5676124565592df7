"""Simulated services: state machines that take requests and answer them.

A service knows no world, no client, no network and no record. It is handed a
`ServiceContext` before the first request, for timers and for what it does of
its own accord. How to add one: tests/README.md.

Maelstrom's linearizable key-value store is twenty lines of this kind: a state,
a request, the next state and a reply. Real services have three things more,
and so have these: they push, they have timers, and people reach into them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lockref.clouds.statuses import outcome_of
from lockref.errors import ConfigError
from lockref.ports import Reply, Request
from lockref.words import Op, Outcome
from sim.journey import Refusal

EXPIRE = "expire"
"""The act of `tamper` by which a table's time to live removes an item."""


class ServiceContext(Protocol):
    """The part of its world that a service is handed."""

    @property
    def now_ns(self) -> int:
        """True time."""
        ...

    def call_at(self, true_ns: int, act: Callable[[], object]) -> None:
        """Call `act` at that instant: a timer of the service."""
        ...

    def push(self, node: str, message: object) -> None:
        """Send a message that answers no request, such as a watch event.

        It may be lost on its way, as a reply may. What is pushed to one process arrives in the order of the calls.
        """
        ...

    def changed(self, op: Op, key: str, version: str = "", body: bytes | None = None) -> None:
        """Say that the state changed without a request, so that it is recorded: by an operator, a timer, a session."""
        ...


class Service(Protocol):
    """One service: object store, table, protected resource."""

    @property
    def capabilities(self) -> object:
        """The service's promises, for `Channel.capabilities`."""
        ...

    def start(self, context: ServiceContext) -> None:
        """Called once, before the first request."""
        ...

    def apply(self, request: Request, at_ns: int) -> Reply:
        """Let the request take effect at this instant of true time.

        A request whose condition fails changes nothing and answers
        PRECONDITION_FAILED; the same request without its condition may follow
        at the same instant, where a fault makes the service overlook it (U13).
        """
        ...

    def refuse(self, request: Request, refusal: Refusal) -> Reply:
        """The answer to a request that a fault refuses; `refused` is that of every HTTP service."""
        ...

    def present_keys(self) -> list[str]:
        """The keys of all present objects, sorted."""
        ...

    def past(self, key: str, lag_ns: int) -> Reply:
        """The answer to a read of `key` as it was `lag_ns` ago; 0 is now. Changes nothing (A8)."""
        ...

    def tamper(self, act: str, key: str, *, body: bytes | None = None, attribute: str = "") -> int:
        """Change the state from outside, and say so to the context: an operator, a lifecycle rule, a session's end.

        body: what `put` writes. attribute: where the state says for `expire` until when it may live.
        Returns how many changes it made. Raises ConfigError for an act that this service does not know.
        """
        ...


def unknown_act(act: str, known: tuple[str, ...]) -> ConfigError:
    """The error for an act that a service does not know."""
    return ConfigError(f"tampering act is {act!r}; this service knows {', '.join(known) or 'none'}")


def refused(request: Request, refusal: Refusal) -> Reply:
    """The refusal of a service over HTTP, in the place of acting: the status decides what may have happened (A1, A5).

    A read carries no condition, so a status that says that one failed is a plain refusal.
    """
    status, reason = refusal
    if request.op is not Op.READ:
        return Reply(outcome_of(status), missing=status == 404, status=status, reason=reason)
    if status == 404:
        return Reply(Outcome.APPLIED, status=404, reason=reason)
    outcome = outcome_of(status)
    if outcome is Outcome.PRECONDITION_FAILED:
        outcome = Outcome.REJECTED
    return Reply(outcome, status=status, reason=reason)
