"""C20: a counter that several clients raise by compare-and-swap. What was confirmed must all be counted."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lockref.clouds.calls import PUT, READ, Call
from lockref.grammar import decimal
from scenarios.probe.exchange import WireStore
from scenarios.probe.findings import Finding
from scenarios.probe.session import may_have_landed

if TYPE_CHECKING:
    from lockref.runtime import Event
    from scenarios.probe.session import Session, Store

WORKERS: Final = 5
INCREMENTS: Final = 10
TRIES_MAX: Final = 4 * WORKERS * INCREMENTS
"""The tries of one worker. Each worker loses to the others now and then."""


@dataclass(slots=True)
class _Work:
    """The work of one worker. confirmed: the values whose writes the store confirmed."""

    confirmed: list[int] = field(default_factory=list)
    unknown: int = 0
    requests: int = 0


def counter(session: Session, finding: Finding, end_ns: int) -> None:
    """Workers raise one number. At the end it is the number of confirmed increments, each value once."""
    key = session.key("counter")
    session.make(key, b"0 start")
    stop = session.runtime.event()
    works = [_Work() for _ in range(WORKERS)]
    tasks = [
        session.runtime.spawn(_worker(session, key, number, work, stop, end_ns), name=f"counter-{number}")
        for number, work in enumerate(works)
    ]
    try:
        for task in tasks:
            task.join()
    finally:
        stop.set()
    session.requests += sum(work.requests for work in works)
    confirmed = sorted(value for work in works for value in work.confirmed)
    unknown = sum(work.unknown for work in works)
    after = session.read(key)
    finding.saw(Call(verb=READ, key=key), after, note="at the end")
    total = _value(after.body)
    finding.facts |= {"confirmed": len(confirmed), "unknown": unknown, "total": total, "wanted": WORKERS * INCREMENTS}
    twice = len(confirmed) - len(set(confirmed))
    if twice:
        finding.note(finding.unsafe, f"confirmed {twice} values twice, in {len(confirmed)} increments")
    elif total is None or not len(confirmed) <= total <= len(confirmed) + unknown:
        finding.note(finding.unsafe, f"confirmed {len(confirmed)} increments, and shows {total}")
    elif not confirmed:
        finding.note(finding.unanswered, "no increment was confirmed in time")
    else:
        finding.kept += 1
    session.clear(key)


def _worker(session: Session, key: str, number: int, work: _Work, stop: Event, end_ns: int) -> Callable[[], None]:
    shared = session.stores[number % len(session.stores)]
    # Connections are not shared between threads.
    store: Store = shared.by(shared.address) if isinstance(shared, WireStore) else shared

    def run() -> None:
        for tries in itertools.count(1):
            if stop.is_set() or len(work.confirmed) == INCREMENTS or tries > TRIES_MAX or session.left_ns(end_ns) <= 0:
                break
            found = store.send(Call(verb=READ, key=key))
            work.requests += 1
            value = _value(found.body)
            if value is None:
                continue
            body = f"{value + 1} worker {number} try {tries}".encode()
            answer = store.send(Call(verb=PUT, key=key, body=body, match=found.version))
            work.requests += 1
            if answer.is_applied:
                work.confirmed.append(value + 1)
            elif may_have_landed(answer):
                work.unknown += 1
        if isinstance(store, WireStore):
            store.close()

    return run


def _value(body: bytes | None) -> int | None:
    head = (body or b"").split(b" ", 1)[0]
    return decimal(head)
