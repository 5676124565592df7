"""The originals and our lock on one row of a real table: each honours the other's lease."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Final

from lockref.delta.options import LEASE_DURATION, REFRESH_PERIOD_MILLIS, LeaseOptions
from lockref.delta.record import DATA
from lockref.dynamodb.lease import DynamoLock
from lockref.dynamodb.table import VERSION, Item
from sim.faults.network import Delay
from tests.evidence.delta.findings import (
    ANSWER_S,
    COPY,
    HOUR_NS,
    Experiment,
    await_strike,
    committed,
    committed_beside,
    killed_holder,
)
from tests.evidence.delta.lake import Lake


@contextlib.contextmanager
def our_lock(run: Experiment, key: str) -> Iterator[DynamoLock]:
    """Our lock on the row, with the originals' settings."""
    options = LeaseOptions.from_properties({LEASE_DURATION: str(run.lease_s), REFRESH_PERIOD_MILLIS: "250"})
    with contextlib.closing(DynamoLock(run.lake.table, key, options)) as lock:
        yield lock


def waits_for_ours(run: Experiment, original: str) -> bool:
    """We hold for three leases, renewing; the original waits all the time and commits once we give back."""
    table, key = run.new_table("t"), run.lake.new_key()
    with our_lock(run, key) as lock, run.locking(original, table, key, "peer") as peer:
        committed(peer, "first")
        assert lock.try_lock(), "nobody holds it"
        held = run.lake.row(key)
        peer.ask(append=["after"])
        is_early = True
        try:
            peer.answer(3 * run.lease_s)
        except TimeoutError:
            is_early = False
        was_held, renewed = lock.holds(), run.lake.row(key)
        lock.unlock()
        free = run.lake.row(key)
        answer = None if is_early else peer.answer(ANSWER_S)
    run.say(f"our row: {held}")
    run.say(f"given back: {free}")
    run.say(f"{original} waits for {3 * run.lease_s} s while we hold, then: {answer}; row {run.lake.row(key)}")
    assert held is not None, "we held it"
    is_renewed = renewed is not None and renewed[VERSION] != held[VERSION]
    return was_held and is_renewed and answer is not None and "acknowledged" in answer


def we_wait(run: Experiment, original: str) -> bool:
    """The original holds, its rename being on its way: we do not get the lock before it gives back."""
    table, key = run.new_table("t"), run.lake.new_key()
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(run.lake.proxy())
        peer = stack.enter_context(run.locking(original, table, key, "peer", endpoint=proxy.endpoint))
        lock = stack.enter_context(our_lock(run, key))
        committed(peer, "first")
        proxy.when(COPY, Delay(id="rename", by_ns=HOUR_NS))
        peer.ask(append=["theirs"])
        await_strike(proxy)
        held = run.lake.row(key)
        is_early = lock.try_lock()
        proxy.let_go()
        answer = peer.answer(ANSWER_S)
        is_granted = lock.lock(ANSWER_S)
        token = lock.fencing_token
        lock.unlock()
    run.say(f"their row: {held}")
    run.say(f"{original} holds: we {'got' if is_early else 'were refused'}; then {answer}; we got token {token}")
    return not is_early and is_granted and "acknowledged" in answer


def we_take_over(run: Experiment, original: str) -> bool:
    """The original was killed: we take its row over after its lease (0.6: after ours), and its `data` is kept."""
    table, key = run.new_table("t"), run.lake.new_key()
    with killed_holder(run, original, table, key), our_lock(run, key) as lock:
        began_s = time.monotonic()
        dead = run.lake.row(key)
        is_granted = lock.lock(ANSWER_S + run.patience_s)
        waited_s = time.monotonic() - began_s
        row = run.lake.row(key)
        if is_granted:
            lock.unlock()
    run.say(f"after a killed {original}, lease {run.lease_s} s: granted {is_granted} after {waited_s:.1f} s; row {row}")
    return is_granted and waited_s >= run.lease_s and dead is not None and row is not None and row[DATA] == dead[DATA]


def _dead_row_of_ours(run: Experiment, key: str, without: tuple[str, ...]) -> Item:
    """What a killed holder of our lock leaves: the row while it was held. without: attributes that are taken away."""
    with our_lock(run, key) as lock:
        assert lock.try_lock(), "nobody holds it"
        row = run.lake.row(key)
        lock.unlock()
    assert row is not None, "we held it"
    dead = {name: value for name, value in row.items() if name not in without}
    run.lake.table.put(key, dead)
    return dead


def they_take_over(run: Experiment, original: str) -> bool:
    """Our holder died. The original takes the row over after our lease, and commits. Without `data` it would not."""
    outcomes = []
    for told, without in (("as we write it", ()), ("without its data", (DATA,))):
        table, key = run.new_table("t"), run.lake.new_key()
        with run.locking(original, table, key, "peer") as peer:
            committed(peer, "first")
            dead = _dead_row_of_ours(run, key, without)
            began_s = time.monotonic()
            [answer] = committed(peer, "after", timeout_s=ANSWER_S + run.patience_s)
            waited_s = time.monotonic() - began_s
        row = run.lake.row(key)
        run.say(f"our dead holder's row {told}: {dead}")
        run.say(f"{original}: {answer} after {waited_s:.1f} s; row {row}; {run.lake.log(table).versions}")
        outcomes.append("acknowledged" in answer)
    return outcomes == [True, False]


def _append_as_ours(lake: Lake, table: str, label: str) -> None:
    """A commit that trusts the lock alone: the next version, put without a condition."""
    log = lake.log(table)
    lake.put_version(table, max(log.versions) + 1, label)


def contend(run: Experiment, *originals: str) -> bool:
    """Originals in processes and our locks in threads on one table: each commit of either is in one version."""
    table, key = run.new_table("t"), run.lake.new_key()
    tokens: list[int | None] = []
    done: list[str] = []

    def ours(name: str) -> None:
        with our_lock(run, key) as lock:
            for number in range(run.appends):
                label = f"{name}-{number}"
                if lock.lock(ANSWER_S + run.patience_s):
                    tokens.append(lock.fencing_token)
                    _append_as_ours(run.lake, table, label)
                    done.append(label)
                    lock.unlock()

    with contextlib.ExitStack() as stack:
        peers = [
            stack.enter_context(run.locking(original, table, key, f"peer{number}"))
            for number, original in enumerate(originals)
        ]
        answers = committed_beside(run, peers, ours)
    theirs = [answer["label"] for answer in answers if "acknowledged" in answer]
    log = run.lake.log(table)
    wrong = [label for label in theirs + done if log.times(label) != 1]
    run.say(
        f"{' and '.join(originals)} beside 2 of ours: {len(theirs)} appends of theirs and {len(done)} of ours, "
        f"{len(log.versions)} versions, {len(wrong)} lost or twice; our tokens {tokens}"
    )
    for answer in answers:
        if "error" in answer:
            run.say(f"  refused: {answer['error']}: {answer['reason'][:200]}")
    expected = 1 + run.appends * (len(originals) + 2)
    return not wrong and len(theirs) + len(done) == len(log.versions) == expected and _rise(tokens)


def _rise(tokens: list[int | None]) -> bool:
    """Each token is greater than the one before, and there are no grants without one."""
    numbers = [token for token in tokens if token is not None]
    return len(numbers) == len(tokens) and all(a < b for a, b in itertools.pairwise(numbers))


TURNS: Final[dict[str, Callable[[Experiment], bool]]] = {
    "ours-then-0.13": lambda run: waits_for_ours(run, "0.13.0"),
    "ours-then-0.14": lambda run: waits_for_ours(run, "0.14.0"),
    "0.13-then-ours": lambda run: we_wait(run, "0.13.0"),
    "0.14-then-ours": lambda run: we_wait(run, "0.14.0"),
    "ours-after-killed-0.13": lambda run: we_take_over(run, "0.13.0"),
    "ours-after-killed-0.14": lambda run: we_take_over(run, "0.14.0"),
    "0.13-after-killed-ours": lambda run: they_take_over(run, "0.13.0"),
    "0.14-after-killed-ours": lambda run: they_take_over(run, "0.14.0"),
    "contend": lambda run: contend(run, "0.13.0", "0.14.0"),
}
"""Every experiment with our lock by name."""
