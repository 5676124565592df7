"""helix-lock 1.4.3, our build of it and our lease on one znode of a real ZooKeeper: what each makes of the others.

The build and the original write the same records, so they are one lock. The lease has another record: what happens
where the two meet is an experiment of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kazoo.client import KazooClient

from lockref.coordination.lease import ZnodeLease
from lockref.coordination.session import COORDINATION
from lockref.coordination.znode_store import FOLDER, ZNODES, path_of
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.delta.options import LeaseOptions
from lockref.errors import CorruptRecord, LockError
from lockref.provider import LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime
from tests.evidence.helix.experiments import Experiment
from tests.evidence.helix.lock_class import LockClass
from tests.evidence.helix.lock_player import Subject, made
from tests.evidence.helix.lock_scripts import lock

CONTENDERS: Final = 3
"""Contenders of each origin."""

SECONDS: Final = 6
LONG_MS, WORK_MS, PAUSE_MS, SHORT_MS = 30_000, 30, 5, 10
"""A lease that outlives the work, the work, the pause after it, and a lease that does not."""

LEASE_MS: Final = 2000
LEASE_WORK_MS: Final = 300

REQUEST_NS: Final = 10 * NS_PER_S
_SETTLE_S: Final = 30

Held = list[list[int]]
"""From when to when one contender held, by the monotonic clock that all processes of a machine share."""


@dataclass(slots=True)
class Znode:
    """One znode, the original in a process of its own, and a hand that reads and writes it."""

    path: str
    theirs: LockClass
    hand: KazooClient
    hosts: str
    _clean_up: contextlib.ExitStack

    def ours(self, user: str, **settings: Any) -> Subject:
        """A lock object of our build."""
        session = COORDINATION.over(ZooKeeperChannel(self.hosts, client=user), REQUEST_NS)
        subject = made((session, ThreadRuntime()), self.path, lock(user, **settings))
        self._clean_up.callback(subject.accessor.close)
        return subject

    def their(self, user: str, **settings: Any) -> Callable[[str], Any]:
        """A lock object of the original: what it answers to a call, or the exception's name."""
        self.theirs.make(user, self.path, lock(user, **settings))

        def call(what: str) -> Any:
            told = self.theirs.call(user, what)
            return told.get("answer", told.get("error"))

        return call

    def lease(self, user: str, key: str) -> ZnodeLease:
        """A lease whose record is this znode, if the key is that of its path."""
        settings = LockSettings(
            key=key,
            validity_ns=LEASE_MS * NS_PER_MS,
            renew_interval_ns=LEASE_MS * NS_PER_MS // 8,
            poll_interval_ns=50 * NS_PER_MS,
            options={"owner_name": user},
        )
        options = LeaseOptions.from_settings(settings)
        store = ZNODES.over(ZooKeeperChannel(self.hosts, client=user), options.request_timeout_ns)
        made_lease = ZnodeLease(store, key, options, runtime=ThreadRuntime())
        self._clean_up.callback(made_lease.close)
        return made_lease

    def body(self) -> bytes:
        found: bytes = self.hand.get(self.path)[0]
        return found

    def owner(self) -> str:
        """The owner that the record names, if it is one of helix-lock."""
        return str(json.loads(self.body())["simpleFields"]["OWNER"])


numbers = itertools.count(1)


@contextlib.contextmanager
def znode(run: Experiment, path: str = "") -> Iterator[Znode]:
    """A znode that is not there yet. path: of it; a resource's, where none is given."""
    with contextlib.ExitStack() as stack:
        number = next(numbers)
        theirs = stack.enter_context(LockClass(run.hosts, run.log_folder, name=f"helix-lock-{number}"))
        hand = KazooClient(hosts=run.hosts, timeout=10)
        hand.start(timeout=30)
        stack.callback(hand.close)
        stack.callback(hand.stop)
        named = path or theirs.path("RESOURCE", ["one-znode", f"orders-{number}"])["answer"]
        yield Znode(named, theirs, hand, run.hosts, stack)


def turns(run: Experiment) -> bool:
    """The original and our build take turns, refuse each other, and give way to each other's higher priority."""
    with znode(run) as at:
        ann, bob = at.their("ann"), at.ours("bob")
        seen = [ann("try"), bob.lock.try_lock(), at.owner(), ann("unlock")]
        seen += [bob.lock.try_lock(), ann("try"), at.owner(), bob.lock.unlock(), ann("owner")]
        run.say(f"in turn: {seen}")
        high_ours, high_theirs = at.ours("cem", priority=1), at.their("dan", priority=2)
        given = [ann("try"), high_ours.lock.try_lock(), ann("cleanups"), at.owner()]
        given += [high_theirs("try"), len(high_ours.cleanups), at.owner(), high_theirs("unlock")]
        run.say(f"pre-empted: {given}")
        return seen == [True, False, "ann", True, True, False, "bob", True, False] and given == [
            True, True, 1, "cem", True, 1, "dan", True,
        ]  # fmt: skip


def contention(run: Experiment) -> bool:
    """Three of each contend for one znode: with a lease that outlives the work, and with one that does not."""
    is_seen = True
    for lease_ms, is_safe in ((LONG_MS, True), (SHORT_MS, False)):
        with znode(run) as at:
            at.hand.create(f"{at.path}-counter", b"0", makepath=True)
            users = [f"theirs-{number}" for number in range(CONTENDERS)]
            for user in users:
                at.their(user, lease_ms=lease_ms)
            until_ns = time.monotonic_ns() + SECONDS * NS_PER_S
            asked = [_ask_to_contend(at, user, until_ns) for user in users]
            ours = [at.ours(f"ours-{number}", lease_ms=lease_ms) for number in range(CONTENDERS)]
            held = _contending([(each.lock.try_lock, each.lock.unlock) for each in ours], at, until_ns, WORK_MS)
            theirs = [at.theirs.hear(number)["held"] for number in asked]
            is_seen &= _judged(run, f"lease {lease_ms} ms", at, {"theirs": theirs, "ours": held}, is_safe=is_safe)
    with znode(run, path_of("orders-lease")) as at:
        at.hand.create(f"{at.path}-counter", b"0", makepath=True)
        leases = [at.lease(f"lease-{number}", "orders-lease") for number in range(2 * CONTENDERS)]
        until_ns = time.monotonic_ns() + SECONDS * NS_PER_S
        calls = [(lambda each=each: each.lock(1.0), each.unlock) for each in leases]
        held = _contending(calls, at, until_ns, LEASE_WORK_MS)
        is_seen &= _judged(run, f"znode-lease, {LEASE_MS} ms", at, {"leases": held}, is_safe=True)
    return is_seen


def _ask_to_contend(at: Znode, user: str, until_ns: int) -> int:
    return at.theirs.ask(
        do="contend", name=user, counter=f"{at.path}-counter", until_ns=until_ns, hold_ms=WORK_MS, pause_ms=PAUSE_MS
    )


def _contending(
    calls: Sequence[tuple[Callable[[], bool], Callable[[], object]]], at: Znode, until_ns: int, work_ms: int
) -> list[Held]:
    """As the driver's `contend`, in threads: lock, read the counter, work, write it plus one, unlock."""
    held: list[Held] = [[] for _ in calls]

    def contend(place: int) -> None:
        take, give_back = calls[place]
        while time.monotonic_ns() < until_ns:
            with contextlib.suppress(LockError):
                if take():
                    since_ns = time.monotonic_ns()
                    found = int(at.hand.get(f"{at.path}-counter")[0])
                    time.sleep(work_ms / 1000)
                    at.hand.set(f"{at.path}-counter", str(found + 1).encode())
                    held[place].append([since_ns, time.monotonic_ns()])
                    give_back()
            time.sleep(PAUSE_MS / 1000)

    threads = [threading.Thread(target=contend, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return held


def _judged(run: Experiment, what: str, at: Znode, held: Mapping[str, list[Held]], *, is_safe: bool) -> bool:
    """Say how often who held, how often two did, and how many effects were lost. True if that is as it should be."""
    grants = {whose: sum(len(each) for each in all_of) for whose, all_of in held.items()}
    times = [each for all_of in held.values() for one in all_of for each in one]
    twice = overlaps(times)
    lost = len(times) - int(at.hand.get(f"{at.path}-counter")[0])
    run.say(f"{what}: grants {grants}; began while another held: {twice}; effects lost: {lost}")
    return all(grants.values()) and ((twice, lost) == (0, 0) if is_safe else twice > 0 and lost > 0)


def overlaps(times: Sequence[list[int]]) -> int:
    """How many of these intervals began before an earlier one had ended."""
    count, until = 0, -1
    for begin, end in sorted(times):
        count += begin < until
        until = max(until, end)
    return count


def strangers(run: Experiment) -> bool:
    """The original and our lease on one znode: each finds the other's record. Only one of them leaves it alone."""
    key = f"orders-{next(numbers)}"
    with znode(run, f"{FOLDER}/{key}") as at:
        seen: dict[str, Any] = {}
        lease, ann, bob = at.lease("our-lease", key), at.their("ann"), at.ours("bob")
        seen["the lease is granted"] = lease.lock(_SETTLE_S)
        token = lease.fencing_token
        seen["the original takes the held lease's znode"] = ann("try")
        began_s = time.monotonic()
        while lease.holds() and time.monotonic() - began_s < _SETTLE_S:
            time.sleep(0.005)
        noticed_s = time.monotonic() - began_s
        seen["the lease notices"] = noticed_s < LEASE_MS / 1000
        theirs = at.body()
        seen["a lease refuses the original's record"] = _refusal(at.lease("another", key))
        seen["the original gives back"] = ann("unlock")
        free = at.body()
        seen["a lease refuses the free record, too"] = _refusal(at.lease("a-third", key))
        seen["a lease has written nothing"] = b'"OWNER" : "ann"' in theirs and at.body() == free
        at.hand.delete(at.path)
        later = at.lease("later", key)
        seen["the lease is granted once the record is gone"] = later.lock(_SETTLE_S)
        seen["its token"] = (token, later.fencing_token)
        seen["our build takes it, too"] = bob.lock.try_lock()
        for what, found in seen.items():
            run.say(f"{what}: {found}")
        run.say(f"both believed for {noticed_s:.2f} s")
    refused = "CorruptRecord"
    tokens = seen.pop("its token")
    return [*seen.values()] == [True, True, True, refused, True, refused, True, True, True] and tokens[0] is not None


def _refusal(lease: ZnodeLease) -> str:
    """What a lease says to a record that is not its own."""
    try:
        return f"granted: {lease.try_lock()}"
    except CorruptRecord as error:
        return type(error).__name__


ONE_ZNODE: Final[dict[str, Callable[[Experiment], bool]]] = {
    "one-znode-turns": turns,
    "one-znode-contention": contention,
    "one-znode-strangers": strangers,
}
