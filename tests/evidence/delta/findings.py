"""What the originals do, each shown by one experiment on a real server.

Every experiment waits for events (a request that the proxy has caught, a row, an answer) and reports durations; none of
them decides by a duration, except that "still blocked" needs a patience.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lockref.delta.record import DATA, DURATION, NOT_ACQUIRABLE, OWNER, RELEASED
from lockref.dynamodb.table import VERSION, Attribute, flag, text
from lockref.runtime import NS_PER_S
from scenarios.backends.asked_process import AskedProcess
from scenarios.injection.faultproxy import FaultProxy
from sim.faults.network import Delay, LoseRequest
from tests.evidence.delta.lake import UNSAFE, LabelledLog, Lake, lock_options

ANSWER_S: Final = 60
"""Longer than any single commit without a wait for a lease."""
COPY: Final = b"x-amz-copy-source"
HOUR_NS: Final = 3600 * NS_PER_S


@dataclass(slots=True, kw_only=True)
class Experiment:
    """Where and how an experiment runs. lease_s: of its writers. say: told each step."""

    lake: Lake
    lease_s: int = 5
    writers: int = 4
    appends: int = 5
    say: Callable[[str], None]

    @property
    def patience_s(self) -> int:
        """How long a waiter is watched that should get nothing: six leases."""
        return 6 * self.lease_s

    def new_table(self, name: str) -> str:
        return f"s3://{self.lake.new_bucket()}/{name}"

    def locking(
        self, original: str, table: str, key: str, name: str, *, endpoint: str = "", additional_s: int = 1
    ) -> AskedProcess:
        """A writer with the lock."""
        options = lock_options(key, owner=name, lease_s=self.lease_s, additional_s=additional_s)
        return self.lake.writer(original, table, options, name=name, endpoint=endpoint)


def committed(peer: AskedProcess, *labels: str, timeout_s: float = ANSWER_S) -> list[dict[str, Any]]:
    """Let it append these, and wait for what it says of each."""
    peer.ask(append=labels)
    return [peer.answer(timeout_s) for _ in labels]


def committed_beside(
    run: Experiment, peers: Sequence[AskedProcess], work: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Let the peers append while two threads of ours work. Returns what the peers say of each append.

    The first peer makes the table before. work: what a thread does, by its name.
    """
    answers = committed(peers[0], "first")
    threads = [threading.Thread(target=work, args=(f"ours{number}",), daemon=True) for number in range(2)]
    for peer in peers:
        peer.ask(append=[f"{peer.name}-{number}" for number in range(run.appends)])
    for thread in threads:
        thread.start()
    answers += [peer.answer(ANSWER_S + run.patience_s) for peer in peers for _ in range(run.appends)]
    for thread in threads:
        thread.join(ANSWER_S + run.patience_s)
    return answers


def await_strike(proxy: FaultProxy, timeout_s: float = ANSWER_S) -> None:
    """Wait until the fault has taken effect. Errors: TimeoutError."""
    end_s = time.monotonic() + timeout_s
    while not proxy.struck:
        if time.monotonic() > end_s:
            raise TimeoutError(f"the request did not come within {timeout_s} s")
        time.sleep(0.01)


# ---- several writers ----


def _appends(run: Experiment, originals: tuple[str, ...], *, has_lock: bool) -> tuple[int, LabelledLog]:
    """Several processes append to one table at once. Returns how many appends were acknowledged, and the log."""
    table, key = run.new_table("t"), run.lake.new_key()
    with contextlib.ExitStack() as stack:
        peers = []
        for number in range(run.writers):
            original, name = originals[number % len(originals)], f"w{number}"
            peer = (
                run.locking(original, table, key, name)
                if has_lock
                else run.lake.writer(original, table, UNSAFE, name=name)
            )
            peers.append(stack.enter_context(peer))
        answers = committed(peers[0], "first")
        for peer in peers:
            peer.ask(append=[f"{peer.name}-{number}" for number in range(run.appends)])
        answers += [peer.answer(ANSWER_S) for peer in peers for _ in range(run.appends)]
    acknowledged = [answer["label"] for answer in answers if "acknowledged" in answer]
    refused = [answer for answer in answers if "acknowledged" not in answer]
    log = run.lake.log(table)
    lost = [label for label in acknowledged if not log.times(label)]
    twice = [label for label in acknowledged if log.times(label) > 1]
    run.say(
        f"{run.writers} processes of {' and '.join(originals)}, {'with the lock' if has_lock else 'unsafe rename'}: "
        f"{len(acknowledged)} appends acknowledged, {len(refused)} refused, {len(log.versions)} versions, "
        f"{len(lost)} lost, {len(twice)} twice"
    )
    for answer in refused[:3]:
        run.say(f"  refused: {answer['error']}: {answer['reason'][:200]}")
    landed = [answer["label"] for answer in refused if log.times(answer["label"])]
    return len(lost) + len(twice) + len(landed), log


def appends(run: Experiment, *originals: str) -> bool:
    """With the lock no acknowledged append is lost, and a refused one (after 15 attempts, by default) is not there."""
    wrong, log = _appends(run, originals, has_lock=True)
    return not wrong and log.is_contiguous


def unsafe(run: Experiment, *originals: str) -> bool:
    """Without it: acknowledged appends are lost."""
    wrong, _ = _appends(run, originals, has_lock=False)
    return bool(wrong)


# ---- a holder that dies ----


@contextlib.contextmanager
def killed_holder(run: Experiment, original: str, table: str, key: str) -> Iterator[str]:
    """A writer that was killed with SIGKILL while it held the lock; its rename never reached the store.

    Yields the version of its row.
    """
    with run.lake.proxy() as proxy, run.locking(original, table, key, "holder", endpoint=proxy.endpoint) as holder:
        committed(holder, "first")
        proxy.when(COPY, LoseRequest(id="rename"))
        holder.ask(append=["dead"])
        await_strike(proxy)
        row = run.lake.row(key)
        assert row is not None, "the lock is held while the rename is on its way"
        run.say(f"row while held: {row}")
        holder.kill()
        yield str(row[VERSION]["S"])


def taken_over(run: Experiment, holder: str, waiter: str) -> bool:
    """The waiter takes the lock over, finishes the dead writer's commit, then commits its own."""
    table, key = run.new_table("t"), run.lake.new_key()
    with killed_holder(run, holder, table, key), run.locking(waiter, table, key, "waiter") as peer:
        killed_s = time.monotonic()
        [answer] = committed(peer, "after", timeout_s=ANSWER_S + run.patience_s)
        waited_s = time.monotonic() - killed_s
    log = run.lake.log(table)
    run.say(f"{waiter} after a killed {holder}, lease {run.lease_s} s: {answer} after {waited_s:.1f} s; {log.versions}")
    return "acknowledged" in answer and (log.times("dead"), log.times("after")) == (1, 1)


def blocked(run: Experiment, holder: str, waiter: str) -> bool:
    """B1: the waiter never takes the lock over: the lease is written as a number and read as a string only."""
    table, key = run.new_table("t"), run.lake.new_key()
    with killed_holder(run, holder, table, key) as version, run.locking(waiter, table, key, "waiter") as peer:
        peer.ask(append=["after"])
        try:
            answer: object = peer.answer(run.patience_s)
        except TimeoutError:
            answer = None
        row = run.lake.row(key)
    told = "still blocked" if answer is None else f"answered {answer}"
    run.say(f"{waiter} after a killed {holder}, lease {run.lease_s} s: {told} after {run.patience_s} s; row {row}")
    return answer is None and row is not None and row[VERSION] == text(version)


def clock_restarted(run: Experiment, original: str, additional_s: int) -> bool:
    """Somebody changes the row's version once, and the waiter counts a whole lease again.

    additional_s: if it is short, the waiter's attempt ends before that, and its next one begins from nothing (B7).
    """
    table, key = run.new_table("t"), run.lake.new_key()
    with (
        killed_holder(run, original, table, key),
        run.locking(original, table, key, "waiter", additional_s=additional_s) as peer,
    ):
        killed_s = time.monotonic()
        peer.ask(append=["after"])
        time.sleep(run.lease_s * 0.6)
        row = dict(run.lake.row(key) or {})
        row[VERSION] = text("changed-once")
        run.lake.table.put(key, row)
        changed_s = time.monotonic()
        answer = peer.answer(ANSWER_S + run.patience_s)
        answered_s = time.monotonic()
    run.say(
        f"{original}, lease {run.lease_s} s, attempts of {run.lease_s + additional_s} s, version changed "
        f"{changed_s - killed_s:.1f} s after the kill: {answer} "
        f"{answered_s - killed_s:.1f} s after the kill, {answered_s - changed_s:.1f} s after the change"
    )
    return "acknowledged" in answer and answered_s - changed_s >= run.lease_s


# ---- no fencing ----


def overwritten(run: Experiment, original: str) -> bool:
    """Two tables with one lock key: a late rename of the first overwrites an acknowledged commit."""
    first, second, key = run.new_table("t"), run.new_table("t"), run.lake.new_key()
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(run.lake.proxy())
        late = stack.enter_context(run.locking(original, first, key, "late", endpoint=proxy.endpoint))
        other = stack.enter_context(run.locking(original, second, key, "other"))
        victim = stack.enter_context(run.locking(original, first, key, "victim"))
        committed(late, "first")
        committed(other, "first")
        proxy.when(COPY, Delay(id="rename", by_ns=HOUR_NS))
        late.ask(append=["late"])
        await_strike(proxy)
        run.say("the first writer holds the lock, its rename is on its way")
        run.say(f"a writer of the other table takes over: {committed(other, 'other')[0]}")
        [answer] = committed(victim, "victim")
        before = run.lake.log(first)
        run.say(f"a third writer commits to the first table: {answer}; log {dict(before.versions)}")
        proxy.let_go()
        last = late.answer(ANSWER_S)
    after = run.lake.log(first)
    run.say(f"the late rename arrives: {last}; log {dict(after.versions)}")
    return "acknowledged" in answer and before.times("victim") == 1 and after.times("victim") == 0


# ---- rows that others left ----


def _row(run: Experiment, original: str, **attributes: Attribute) -> tuple[dict[str, Any] | None, Any, Any]:
    """A row that somebody left, and one append. Its answer (None: none came), the row after it, the log."""
    table, key = run.new_table("t"), run.lake.new_key()
    with run.locking(original, table, key, "writer") as peer:
        committed(peer, "first")
        run.lake.table.put(key, {OWNER: text("somebody"), VERSION: text("1"), **attributes})
        peer.ask(append=["after"])
        try:
            answer = peer.answer(run.patience_s)
        except TimeoutError:
            answer = None
        return answer, run.lake.row(key), run.lake.log(table)


def without_data(run: Experiment, original: str) -> bool:
    """B12: a row without `data` is taken, the commit fails, and the lock stays taken."""
    answer, row, _ = _row(run, original, **{DURATION: text("1")})
    run.say(f"{original} and a row without data: {answer}; the row is then {row}")
    return answer is not None and "error" in answer and row is not None and row[OWNER] == text("writer")


def released(run: Experiment, original: str) -> bool:
    """`isReleased` as a string lets anybody take the lock at once; as a boolean it is not seen."""
    lease = {DURATION: text("600"), DATA: text('{"source":"a","destination":"b"}')}
    answer, row, _ = _row(run, original, **lease, **{RELEASED: text("1")})
    run.say(f"{original} and isReleased as a string: {answer}; the row is then {row}")
    boolean, kept, _ = _row(run, original, **lease, **{RELEASED: flag(True)})
    run.say(f"{original} and isReleased as a boolean: {boolean or f'blocked for {run.patience_s} s'}; row {kept}")
    return answer is not None and "acknowledged" in answer and boolean is None


def not_acquirable(run: Experiment, original: str) -> bool:
    """`isNonAcquirable`: the append fails at once, the row stays."""
    answer, row, _ = _row(run, original, **{DURATION: text("600"), NOT_ACQUIRABLE: text("1")})
    run.say(f"{original} and isNonAcquirable: {answer}; the row is then {row}")
    return answer is not None and "error" in answer and row is not None and row[OWNER] == text("somebody")


FINDINGS: Final[dict[str, Callable[[Experiment], bool]]] = {
    "appends-0.13": lambda run: appends(run, "0.13.0"),
    "appends-0.14": lambda run: appends(run, "0.14.0"),
    "appends-mixed": lambda run: appends(run, "0.13.0", "0.14.0"),
    "unsafe-rename": lambda run: unsafe(run, "0.13.0"),
    "killed-holder-0.13": lambda run: taken_over(run, "0.13.0", "0.13.0"),
    "killed-holder-0.14": lambda run: blocked(run, "0.14.0", "0.14.0"),
    "killed-holder-0.14-waiter-0.13": lambda run: blocked(run, "0.14.0", "0.13.0"),
    "clock-restarted": lambda run: clock_restarted(run, "0.13.0", 2 * run.lease_s),
    "attempt-restarted": lambda run: clock_restarted(run, "0.13.0", 1),
    "overwritten-commit": lambda run: overwritten(run, "0.13.0"),
    "row-without-data": lambda run: without_data(run, "0.14.0"),
    "released-row": lambda run: released(run, "0.13.0"),
    "non-acquirable-row": lambda run: not_acquirable(run, "0.13.0"),
}
"""Every experiment by name: it returns whether what the page tells was seen again."""
