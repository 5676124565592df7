"""C17: races while one node of the store is stopped, or cut off. The store may answer with errors then, but no race may
have two winners.

The user gives two commands: one stops a node, the other one starts it again. Requests go to the endpoints that still
answer. When the node is back, every endpoint must show each write that was confirmed meanwhile.
"""

from __future__ import annotations

import functools
import subprocess
from dataclasses import dataclass
from typing import Final

from lockref.clouds.calls import ANYTHING, PUT, READ, Call
from lockref.errors import BackendUnavailable, ConfigError
from lockref.runtime import NS_PER_MS, NS_PER_S
from scenarios.probe.exchange import WireStore
from scenarios.probe.findings import Finding
from scenarios.probe.questions import races
from scenarios.probe.session import Session, Store

COMMAND_TIMEOUT_S: Final = 60
BACK_NS: Final = 60 * NS_PER_S
"""How long a node that was started may take until its endpoint answers."""
_ALIVE_NS: Final = 3 * NS_PER_S
_PAUSE_NS: Final = 200 * NS_PER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the store. stop, start: command lines for the user's shell."""

    stop: str
    start: str


def node_of(stop: str, start: str) -> Node | None:
    """The node of two command lines; None if both are empty. Errors: ConfigError if only one is given."""
    if bool(stop) != bool(start):
        raise ConfigError("--stop-node and --start-node belong together: a node that was stopped is started again")
    return Node(stop=stop, start=start) if stop else None


def node_stopped(session: Session, finding: Finding, end_ns: int, *, node: Node | None) -> None:
    """Creates and replacements race at the endpoints that answer without the node. Errors: as `Session.read`."""
    if not session.store.is_wire:
        finding.has_no("it has no nodes")
        return
    if node is None:
        finding.note(finding.unanswered, "not asked: --stop-node and --start-node say how to stop a node of the store")
        return
    everywhere = session.stores
    confirmed: dict[str, bytes] = {}
    if failure := _run(node.stop):
        finding.note(finding.unanswered, f"the command that stops a node failed ({failure})")
    else:
        try:
            session.stores = [store for store in everywhere if _answers(store, session.key("alive"))]
            finding.facts["endpoints_that_answered"] = f"{len(session.stores)} of {len(everywhere)}"
            if session.stores:
                _race(session, finding, end_ns, confirmed)
            else:
                finding.note(finding.unanswered, "no endpoint answered while the node was stopped")
        except BackendUnavailable as error:
            finding.note(finding.unanswered, f"while the node was stopped: {error}")
        finally:
            session.stores = everywhere
            if failure := _run(node.start):
                finding.note(finding.unanswered, f"the command that starts the node again failed ({failure})")
    _look_again(session, finding, confirmed)


def _race(session: Session, finding: Finding, end_ns: int, confirmed: dict[str, bytes]) -> None:
    key, body = session.key("meanwhile"), session.body("meanwhile")
    call = Call(verb=PUT, key=key, body=body, none_match=ANYTHING)
    answer = session.send(call)
    finding.saw(call, answer, note="while the node was stopped")
    if answer.is_applied:
        confirmed[key] = body
    for part, (name, round_) in enumerate((("creates", races.create_round), ("replacements", races.replace_round))):
        races.repeat(
            session,
            finding,
            functools.partial(round_, spread=True),
            name=f"{name} with a node stopped",
            end_ns=session.runtime.monotonic_ns() + session.left_ns(end_ns) // (2 - part),
            share=3,
        )


def _look_again(session: Session, finding: Finding, confirmed: dict[str, bytes]) -> None:
    """Wait until every endpoint answers again, and check that each shows the confirmed writes."""
    until_ns = session.runtime.monotonic_ns() + BACK_NS
    for place, store in enumerate(session.stores):
        while not _answers(store, session.key("back")):
            if session.runtime.monotonic_ns() > until_ns:
                finding.note(finding.unanswered, f"endpoint {place + 1} does not answer after the node was started")
                return
            session.runtime.sleep(_PAUSE_NS)
        for key, body in confirmed.items():
            shown = store.send(Call(verb=READ, key=key))
            if shown.is_absent or (shown.body is not None and shown.body != body):
                finding.saw(Call(verb=READ, key=key), shown, note=f"by endpoint {place + 1}, with the node back")
                finding.note(finding.unsafe, "lost a write that it had confirmed while the node was stopped")


def _answers(store: Store, key: str) -> bool:
    """Does the endpoint answer a read?"""
    if not isinstance(store, WireStore):
        return True
    store.close()  # A kept connection to the stopped node would hang.
    way = store.by(store.address, timeout_ns=_ALIVE_NS)
    try:
        answer = way.send(Call(verb=READ, key=key))
        return answer.is_absent or answer.is_applied
    finally:
        way.close()


def _run(command: str) -> str:
    """Run the command; "" if it succeeded, else the reason. Its output is not shown: it may hold secrets."""
    try:
        done = subprocess.run(
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {COMMAND_TIMEOUT_S} s"
    except OSError as error:
        return type(error).__name__
    return f"exit code {done.returncode}" if done.returncode else ""
