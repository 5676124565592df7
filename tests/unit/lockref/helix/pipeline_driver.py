"""A cluster without ZooKeeper: participants that execute every message at once, and a controller that decides again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lockref.helix.cluster.declared import lock_names
from lockref.helix.pipeline import Alarm, Decision, LockGroup, Replica, Semantics, Snapshot, decide
from lockref.helix.rebalancers import Rebalancer
from lockref.helix.records.messages import Message
from lockref.helix.state_model import DROPPED, StateModel, Transition

RUNS_MAX = 200


def lock_unlock(holders: str = "1") -> StateModel:
    """The state model of the recipe."""
    edges = (
        ("Unlock", "LOCKED", "RELEASED"),
        ("Lock", "RELEASED", "LOCKED"),
        ("Undrop", "DROPPED", "RELEASED"),
        ("DropUnlock", "RELEASED", "DROPPED"),
        ("DropLock", "LOCKED", "DROPPED"),
    )
    return StateModel(
        name="lock-unlock",
        states=("LOCKED", "RELEASED", "DROPPED"),
        initial="RELEASED",
        transitions=tuple(Transition(name=name, source=source, target=target) for name, source, target in edges),
        counts={"LOCKED": holders},
    )


@dataclass
class Driven:
    """A cluster that is driven by hand. After each run it asserts that no lock has too many holders (T5)."""

    rebalancer: Rebalancer
    semantics: Semantics = Semantics.OURS
    count: int = 12
    holders: str = "1"
    is_descending: bool = False
    live: dict[str, str] = field(default_factory=dict)
    replicas: dict[str, dict[str, Replica]] = field(default_factory=dict)
    disabled: tuple[str, ...] = ()
    disabled_locks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sent: int = 0
    runs: int = 0
    alarms: list[Alarm] = field(default_factory=list)

    @property
    def group(self) -> LockGroup:
        model = lock_unlock(self.holders)
        return LockGroup(name="lock-group", locks=lock_names("lock-group", self.count), replicas=1, model=model)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            groups=(self.group,),
            live=dict(sorted(self.live.items())),
            replicas={
                lock: {each: replica for each, replica in states.items() if each in self.live}
                for lock, states in self.replicas.items()
            },
            disabled=self.disabled,
            disabled_locks=self.disabled_locks,
        )

    def decide(self) -> Decision:
        return decide(
            self.snapshot(),
            {"lock-group": self.rebalancer},
            semantics=self.semantics,
            is_descending=self.is_descending,
        )

    def settle(self) -> Mapping[str, str]:
        """Decide and execute until nothing is sent. Returns who holds each lock that one instance holds."""
        for _ in range(RUNS_MAX):
            decision = self.decide()
            self.runs += 1
            self.alarms = list(decision.alarms)
            if not decision.messages:
                return self.table()
            self.execute(decision.messages)
            most = max(len(self.holders_of(lock)) for lock in self.group.locks)
            assert most <= int(self.holders), "more holders than the limit"
        raise AssertionError("the cluster does not settle")

    def execute(self, messages: Iterable[Message]) -> None:
        """Every participant does what it is told, and reports it."""
        for message in messages:
            self.sent += 1
            states = self.replicas.setdefault(message.lock, {})
            before = states.get(message.instance, Replica("RELEASED")).state
            assert before == message.source, "a message fits the state that was read"
            if message.target == DROPPED:
                states.pop(message.instance, None)
            else:
                states[message.instance] = Replica(message.target, before)

    def holders_of(self, lock: str) -> list[str]:
        return sorted(
            each
            for each, replica in self.replicas.get(lock, {}).items()
            if replica.state == "LOCKED" and each in self.live
        )

    def table(self) -> dict[str, str]:
        return {lock: ",".join(self.holders_of(lock)) for lock in self.group.locks if self.holders_of(lock)}

    def join(self, *names: str) -> Mapping[str, str]:
        for name in names:
            self.live[name] = f"s-{name}"
        return self.settle()

    def leave(self, name: str) -> Mapping[str, str]:
        del self.live[name]
        for states in self.replicas.values():
            states.pop(name, None)
        return self.settle()


def loads(table: Mapping[str, str]) -> list[int]:
    """How many locks each instance that has one has, ascending."""
    return sorted(Counter(table.values()).values())
