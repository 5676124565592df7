"""Writers, a queue of versions, and the locks between them: a discrete simulation in virtual time.

A writer takes the next version from the queue, prepares it (think time), asks for the table's lock, loads the table's
state and commits while it holds the lock, releases, and takes the next. That is the post's model: the critical section
contains the load.

This is an event loop of its own and not the laboratory's kernel. The kernel runs a lock's own source on stacks of its
own, with clocks that differ and a network between; here nothing is under test, a writer is a few numbers, and a plan
needs a million events in seconds. Both count integer nanoseconds, and randomness comes from the same named streams.

At one instant a lock becomes free before anybody polls it, and who asked first is served first. A poll that must just
miss a release is modelled by a hand-off gap of a nanosecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush

from scenarios.delta.loading import CHECKPOINT_EVERY, checkpoint_of, gets
from sim.kernel.streams import stream

STARVED_ROUNDS = 10
"""A writer that waits while the others commit ten times each is starved. If each waiter is equally likely to win, a
wait of ten rounds has the probability e⁻¹⁰, so chance does not explain it."""


class Protocol(StrEnum):
    """The way in which the next version of a table is guarded."""

    LOCK = "lock"
    """One lock per table, as the post describes it."""
    SHARED_KEY = "shared-key"
    """One lock for all tables: delta-rs's default key `delta-rs` (D3)."""
    RENAME_ONLY = "rename-only"
    """One lock per table around the rename alone, as delta-rs had it (D2): the load comes before, outside the lock. Who
    finds under the lock that its version was taken gives the lock back, loads again and asks again."""
    OPTIMISTIC = "optimistic"
    """No lock: a conditional create of the log entry; who loses loads again (delta-rs today, the log store)."""


class Grants(StrEnum):
    """The rule by which one of the waiting writers gets a released lock."""

    FIRST = "first"
    """The first that asked, at once: the ideal."""
    RANDOM = "random"
    """Any of them, at once."""
    POLLING = "polling"
    """The first whose attempt comes; every writer repeats its own at a fixed period (D6: what all do)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """The writers and what they do. Times are nanoseconds."""

    writers: int
    commit_ns: tuple[int, ...]
    """The time of a commit under the lock, without loading. Of several, measured ones, each commit draws one."""
    get_ns: int = 0
    """One GetObject of the load (W11)."""
    gap_ns: int = 0
    """From the end of a commit until the lock is free: release and hand-off (W2)."""
    think_ns: int = 0
    """Work on a version before the lock is asked for."""
    every_ns: int = 0
    """From the arrival of one version in the queue to that of the next one. 0: all are there at the start. Of no
    meaning in a closed loop."""
    is_think_random: bool = False
    """Draw each think time from the exponential distribution with mean `think_ns`."""
    protocol: Protocol = Protocol.LOCK
    grants: Grants = Grants.FIRST
    poll_ns: int = 0
    """Period of attempts under `Grants.POLLING`."""
    are_phases_random: bool = False
    """A writer's first attempt comes after a random part of a period, instead of at once (W3)."""
    attempts: int | None = None
    """Attempts per version before the writer gives up, where the load is outside the lock or there is none (delta-rs
    today: 1 + 15 retries); None: no bound."""
    first_version: int = 0
    """The version that every table has at the start."""
    checkpoint_ns: int = 0
    """From a tenth version's commit until its checkpoint is visible."""
    seed: int = 1

    def __post_init__(self) -> None:
        assert self.writers >= 1, "no writers"
        assert self.commit_ns, "no commit time"
        assert self.grants is not Grants.POLLING or self.poll_ns > 0, "polling needs a period"


@dataclass(frozen=True, slots=True)
class Commit:
    """One version that landed. Times are nanoseconds since the start."""

    writer: int
    table: str
    version: int
    arrived_ns: int
    """When it came to the queue; in a closed loop, when the writer began with it."""
    taken_ns: int
    """When the writer took the work from the queue: a visibility timeout runs from here."""
    asked_ns: int
    began_ns: int
    """When the lock was granted; without locks, when the attempt that landed began."""
    ended_ns: int

    @property
    def waited_ns(self) -> int:
        """Time blocked: from asking to the grant."""
        return self.began_ns - self.asked_ns

    @property
    def age_ns(self) -> int:
        """The age that a deadline is compared with: from the queue to the committed version."""
        return self.ended_ns - self.taken_ns

    @property
    def latency_ns(self) -> int:
        """From the arrival in the queue to the committed version."""
        return self.ended_ns - self.arrived_ns


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A version that a writer still had in hand when the run ended. Only a closed loop ends so."""

    writer: int
    table: str
    age_ns: int
    """The age that a deadline is compared with: from the queue to the end of the run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of one fleet with one queue."""

    commits: list[Commit]
    waiting_ns: int
    """Summed time in which writers were blocked, or worked on attempts that lost."""
    failed: int
    """Versions given up after all attempts."""
    attempts: int
    """Loads begun: one per version where the load is under the lock."""
    failed_polls: int
    gets: int
    checkpoints: int
    """Checkpoints written."""
    unfinished: list[Unfinished]
    """In the order of their writers."""
    never_served: int
    """Writers that asked, and of which no version landed: they gave up every version, or they still wait or retry when
    the run ends. A writer whose first attempt is under way at the end is none of them."""
    drought_ns: int
    """The longest time that one writer was blocked, or worked on attempts that lost, before a version of it landed or
    the run ended. Versions that it gave up in between do not end the drought."""
    starved: int
    """Writers that were never served, or that others overtook more than `STARVED_ROUNDS` times as often as there are
    writers for the lock, in one drought. In a fair order each other writer overtakes a waiting writer at most once."""

    @property
    def makespan_ns(self) -> int:
        """When the last version landed."""
        return max((commit.ended_ns for commit in self.commits), default=0)


@dataclass(slots=True)
class _Work:
    """The versions that a writer has in hand."""

    writer: int
    table: str
    arrived_ns: int
    taken_ns: int
    asked_ns: int = 0
    began_ns: int = 0
    loaded: int = 0
    attempts: int = 0


@dataclass(slots=True)
class _Table:
    version: int
    checkpoint_at_ns: int = 0
    """When the checkpoint of the newest tenth version is visible."""


@dataclass(slots=True)
class _Lock:
    is_free: bool = True
    waiting: list[_Work] = field(default_factory=list)
    commits: int = 0


_RELEASED, _LANDING, _ASKS, _LOADS = range(4)
"""Kinds of events, in their order at one instant."""


class _Simulation:
    def __init__(self, fleet: Fleet, order: Sequence[str], *, is_closed_loop: bool) -> None:
        self._fleet = fleet
        self._order = order
        self._is_closed_loop = is_closed_loop
        self._next = 0
        self._tables = {name: _Table(fleet.first_version) for name in dict.fromkeys(order)}
        shared = _Lock()
        is_shared = fleet.protocol is Protocol.SHARED_KEY
        self._locks = {name: shared if is_shared else _Lock() for name in self._tables}
        self._events: list[tuple[int, int, int, _Work]] = []
        self._sequence = 0
        self._draw_commit = stream(fleet.seed, "delta/commit")
        self._draw_think = stream(fleet.seed, "delta/think")
        self._draw_phase = stream(fleet.seed, "delta/phase")
        self._draw_winner = stream(fleet.seed, "delta/winner")
        self._phases = [
            self._draw_phase.randrange(fleet.poll_ns) if fleet.are_phases_random and fleet.poll_ns else 0
            for _ in range(fleet.writers)
        ]
        self._commits: list[Commit] = []
        self._waiting_ns = self._failed = self._attempts = self._failed_polls = self._gets = self._checkpoints = 0
        self._blocked: dict[int, _Work] = {}
        self._in_hand: dict[int, _Work] = {}
        self._dry_ns: dict[int, int] = {}
        """By writer that gave up: how long it has waited in vain since a version of it landed."""
        self._drought_ns = 0
        self._commits_at_wait: dict[int, int] = {}
        """By writer that waits, or that tries again: how many commits its lock had seen when it began to."""
        self._starved: set[int] = set()

    def run(self) -> Outcome:
        for writer in range(self._fleet.writers):
            self._take(writer, 0)
        acts = {_RELEASED: self._released, _LANDING: self._landing, _ASKS: self._asks, _LOADS: self._loads}
        now_ns = 0
        while self._events and not self._is_over():
            now_ns, kind, _, work = heappop(self._events)
            acts[kind](work, now_ns)
        # A closed loop ends with writers that still wait: their time was lost as well.
        self._waiting_ns += sum(now_ns - work.asked_ns for work in self._blocked.values())
        never_served = self._never_served(now_ns)
        for work in self._in_hand.values():
            self._note_if_overtaken(work)
        return Outcome(
            self._commits,
            self._waiting_ns,
            self._failed,
            self._attempts,
            self._failed_polls,
            self._gets,
            self._checkpoints,
            [Unfinished(writer, work.table, now_ns - work.taken_ns) for writer, work in sorted(self._in_hand.items())],
            len(never_served),
            self._drought_ns,
            len(never_served | self._starved),
        )

    def _never_served(self, now_ns: int) -> set[int]:
        """The writers that asked and committed nothing.

        The waits that the end of the run cut count as droughts, too.
        """
        in_vain = set(self._dry_ns)
        for writer, work in self._in_hand.items():
            if writer in self._blocked or work.attempts > 1:
                in_vain.add(writer)
                self._dry(writer, now_ns - work.asked_ns)
        return in_vain - {commit.writer for commit in self._commits}

    def _note_if_overtaken(self, work: _Work) -> None:
        """Count the writer as starved if others have committed too often since it began to wait."""
        since = self._commits_at_wait.get(work.writer)
        if since is not None and self._locks[work.table].commits - since > STARVED_ROUNDS * self._rivals:
            self._starved.add(work.writer)

    @property
    def _rivals(self) -> int:
        """The number of writers that may ask for one lock."""
        fleet, tables = self._fleet, len(self._tables)
        has_own_table = self._is_closed_loop and fleet.protocol is not Protocol.SHARED_KEY
        return -(-fleet.writers // tables) if has_own_table else fleet.writers

    def _dry(self, writer: int, waited_ns: int) -> None:
        """The writer waited in vain once more."""
        self._dry_ns[writer] = self._dry_ns.get(writer, 0) + waited_ns
        self._drought_ns = max(self._drought_ns, self._dry_ns[writer])

    def _is_over(self) -> bool:
        return self._is_closed_loop and len(self._commits) >= len(self._order)

    def _at(self, when_ns: int, kind: int, work: _Work) -> None:
        self._sequence += 1
        heappush(self._events, (when_ns, kind, self._sequence, work))

    def _take(self, writer: int, now_ns: int) -> None:
        """The writer's next version: from the queue, or, in a closed loop, for the table that is its own."""
        fleet = self._fleet
        arrived_ns = now_ns
        if self._is_closed_loop:
            names = list(self._tables)
            table = names[writer % len(names)]
        elif self._next < len(self._order):
            table = self._order[self._next]
            arrived_ns = self._next * fleet.every_ns
            self._next += 1
        else:
            return
        taken_ns = max(now_ns, arrived_ns)
        work = self._in_hand[writer] = _Work(writer, table, arrived_ns, taken_ns)
        think_ns = fleet.think_ns
        if fleet.is_think_random and think_ns:
            think_ns = round(self._draw_think.expovariate(1 / think_ns))
        if think_ns or taken_ns > now_ns or (now_ns == 0 and self._phases[writer]):
            work.asked_ns = taken_ns + think_ns
            self._at(work.asked_ns + (self._phases[writer] if now_ns == 0 else 0), self._first_step, work)
        else:
            work.asked_ns = now_ns
            (self._loads if self._first_step == _LOADS else self._asks)(work, now_ns)

    @property
    def _first_step(self) -> int:
        return _LOADS if self._fleet.protocol is Protocol.RENAME_ONLY else _ASKS

    def _loads(self, work: _Work, now_ns: int) -> None:
        """Load the table's state before the lock is asked for. Nobody is kept waiting by that."""
        load_ns = self._load(work, now_ns)
        work.asked_ns += load_ns
        self._at(now_ns + load_ns, _ASKS, work)

    def _asks(self, work: _Work, now_ns: int) -> None:
        """An attempt to get the lock; without locks, the beginning of an optimistic attempt."""
        lock = self._locks[work.table]
        self._commits_at_wait.setdefault(work.writer, lock.commits)
        if self._fleet.protocol is Protocol.OPTIMISTIC:
            self._begin(work, now_ns)
            return
        self._blocked[work.writer] = work
        if lock.is_free:
            self._grant(lock, work, now_ns)
        elif self._fleet.grants is Grants.POLLING:
            self._failed_polls += 1
            self._at(now_ns + self._fleet.poll_ns, _ASKS, work)
        else:
            lock.waiting.append(work)

    def _grant(self, lock: _Lock, work: _Work, now_ns: int) -> None:
        lock.is_free = False
        del self._blocked[work.writer]
        self._begin(work, now_ns)

    def _begin(self, work: _Work, now_ns: int) -> None:
        """Load the table's state, unless that is done, and write the next version: this lasts until the landing."""
        fleet, table = self._fleet, self._tables[work.table]
        work.began_ns = now_ns
        is_loaded = fleet.protocol is Protocol.RENAME_ONLY
        load_ns = 0 if is_loaded else self._load(work, now_ns)
        if is_loaded and table.version != work.loaded:
            self._at(now_ns + fleet.get_ns, _LANDING, work)  # One HEAD tells that the version is there.
            return
        times = fleet.commit_ns
        commit_ns = times[0] if len(times) == 1 else self._draw_commit.choice(times)
        self._at(now_ns + commit_ns + load_ns, _LANDING, work)

    def _load(self, work: _Work, now_ns: int) -> int:
        """Count the GETs that load the table's newest version, and say how long they take."""
        fleet, table = self._fleet, self._tables[work.table]
        work.loaded = table.version
        work.attempts += 1
        self._attempts += 1
        checkpoint = checkpoint_of(table.version)
        if checkpoint > fleet.first_version and now_ns < table.checkpoint_at_ns:
            checkpoint -= CHECKPOINT_EVERY
        reads = gets(table.version, checkpoint=checkpoint)
        self._gets += reads
        return reads * fleet.get_ns

    def _landing(self, work: _Work, now_ns: int) -> None:
        table = self._tables[work.table]
        if table.version == work.loaded:
            table.version += 1
            if table.version % CHECKPOINT_EVERY == 0:
                self._checkpoints += 1
                table.checkpoint_at_ns = now_ns + self._fleet.checkpoint_ns
            commit = Commit(
                work.writer, work.table, table.version,
                work.arrived_ns, work.taken_ns, work.asked_ns, work.began_ns, now_ns,
            )  # fmt: skip
            self._commits.append(commit)
            self._waiting_ns += commit.waited_ns
            self._dry(work.writer, commit.waited_ns)
            self._note_if_overtaken(work)
            del self._commits_at_wait[work.writer]
            self._locks[work.table].commits += 1
            del self._dry_ns[work.writer], self._in_hand[work.writer]
            if not self._is_over():
                self._at(now_ns + self._fleet.gap_ns, _RELEASED, work)
            return
        is_given_up = work.attempts == self._fleet.attempts
        if is_given_up:
            self._failed += 1
            self._waiting_ns += now_ns - work.asked_ns
            self._dry(work.writer, now_ns - work.asked_ns)
            del self._in_hand[work.writer]
        if self._fleet.protocol is Protocol.RENAME_ONLY:
            self._pass_on(work.table, now_ns)
        if is_given_up:
            self._take(work.writer, now_ns)
        else:
            self._at(now_ns, self._first_step, work)

    def _pass_on(self, table: str, now_ns: int) -> None:
        """Give the lock to a waiting writer, and let the holder load again."""
        lock = self._locks[table]
        lock.is_free = True
        if lock.waiting:
            self._grant(lock, lock.waiting.pop(self._chosen(lock)), now_ns)

    def _chosen(self, lock: _Lock) -> int:
        """The next of the waiting writers."""
        return self._draw_winner.randrange(len(lock.waiting)) if self._fleet.grants is Grants.RANDOM else 0

    def _released(self, work: _Work, now_ns: int) -> None:
        """The lock is free. Its holder goes on first: under polling it takes the lock again before anybody looks."""
        lock = self._locks[work.table]
        lock.is_free = True
        if lock.waiting:
            # Nobody barges past those who queue; the holder's own next request is in the draw of a random winner.
            lock.is_free = False
            self._take(work.writer, now_ns)
            self._grant(lock, lock.waiting.pop(self._chosen(lock)), now_ns)
        else:
            self._take(work.writer, now_ns)


def simulate(fleet: Fleet, order: Sequence[str], *, is_closed_loop: bool = False) -> Outcome:
    """Let the fleet work through the queue: the table of each version, first to last.

    is_closed_loop: every writer has always another version, for a table that is its own (the tables of `order` go
    round), and the run ends after as many commits as `order` is long.
    """
    return _Simulation(fleet, order, is_closed_loop=is_closed_loop).run()
