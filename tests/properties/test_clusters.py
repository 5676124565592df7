"""Hypothesis drives whole clusters in virtual time: joins, deaths, pauses, cuts, expiries, failovers, operators.

Whatever happens, no lock ever has two holders: neither by what participants believe nor by what the instances that are
live report. Tokens rise with every grant. Once nothing disturbs any more, every lock has one holder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lockref.errors import BackendUnavailable, LockError
from lockref.helix.participant.participant import Participant
from lockref.helix.records import layout
from lockref.helix.records.zn_record import ZNRecord
from lockref.ports import TIMED_OUT
from lockref.runtime import NS_PER_MS
from tests.sim.helix_world import CLUSTER, RESOURCE, Ear, Helix, undisturbed

INSTANCES = ("n1", "n2", "n3")
CONTROLLERS = ("c1", "c2")
LOCKS = 3
TICK_MS = 10
CALM_MS = 30_000
"""So long after the last disturbance every lock has its holder: sessions last 2 s."""

_instances, _controllers = st.sampled_from(INSTANCES), st.sampled_from(CONTROLLERS)
_everybody = st.sampled_from((*INSTANCES, *CONTROLLERS))
_lengths_ms = st.sampled_from((50, 400, 2_500, 6_000))

STEPS = st.lists(
    st.tuples(
        st.sampled_from((0, 20, 200, 1_000, 3_000)),
        st.one_of(
            st.tuples(st.just("join"), _instances),
            st.tuples(st.just("leave"), _instances),
            st.tuples(st.just("crash"), _everybody),
            st.tuples(st.just("expire"), _controllers),
            st.tuples(st.just("pause"), _everybody, _lengths_ms),
            st.tuples(st.just("cut"), _everybody, _lengths_ms),
            st.tuples(st.just("deafen"), _everybody, _lengths_ms),
            st.tuples(st.just("disable"), _instances),
            st.tuples(st.just("enable"), _instances),
        ),
    ),
    min_size=2,
    max_size=14,
)
"""Pauses between steps in ms, and what happens.

A cut node's requests are lost; a deaf one's are applied, unheard. `expire` ends a session before its time, so that its
client cannot know: a holder would be deceived, and only fencing would help. So it strikes controllers.
"""


@dataclass(slots=True)
class Member:
    """One process of an instance or a controller. number: of the process under that name."""

    name: str
    node: str
    channel: Any
    participant: Participant | None = None
    ear: Ear | None = None
    stop: Callable[[], None] = lambda: None


@dataclass(slots=True)
class Driven:
    """A cluster with three locks, and who lives in it."""

    helix: Helix
    members: dict[str, Member] = field(default_factory=dict)
    born: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    seen_zxid: int = -1

    # What happens.

    def join(self, name: str) -> None:
        if name in self.members:
            return
        self.born += 1
        node = f"{name}-{self.born}"
        if name in CONTROLLERS:
            controller, channel = self.helix.controller(node)
            self.members[name] = Member(name, node, channel, stop=controller.stop)
            self.helix.start(node, controller.run)
            return
        participant, ear, channel = self.helix.participant(name, node=node)
        self.members[name] = Member(name, node, channel, participant, ear, stop=participant.leave)

        def joining() -> None:
            while True:
                try:
                    participant.join()
                    return
                except (BackendUnavailable, LockError):
                    if self.members.get(name) is None or self.members[name].participant is not participant:
                        return

        self.helix.start(node, joining)

    def leave(self, name: str) -> None:
        member = self.members.pop(name, None)
        if member is None:
            return

        def leaving() -> None:
            with contextlib.suppress(LockError):  # Nobody confirmed it: the session ends by itself.
                member.stop()

        self.helix.world.node(member.node).process.runtime.spawn(leaving, name="leaving")

    def crash(self, name: str) -> None:
        member = self.members.pop(name, None)
        if member is not None:
            self.helix.world.node(member.node).crash()

    def expire(self, name: str) -> None:
        if name in self.members:
            self.helix.service.tamper("expire_session", self.members[name].node)

    def pause(self, name: str, for_ms: int) -> None:
        if name in self.members:
            self.helix.world.node(self.members[name].node).pause(for_ms * NS_PER_MS)

    def cut(self, name: str, for_ms: int) -> None:
        self._disturb(name, for_ms, lambda _request, _ask: TIMED_OUT)

    def deafen(self, name: str, for_ms: int) -> None:
        def unheard(request: Any, ask: Any) -> Any:
            ask(request)
            return TIMED_OUT

        self._disturb(name, for_ms, unheard)

    def _disturb(self, name: str, for_ms: int, how: Any) -> None:
        member = self.members.get(name)
        if member is None:
            return
        member.channel.disturb = how

        def over() -> None:
            member.channel.disturb = undisturbed

        self.helix.world.kernel.call_at(self.helix.world.kernel.now_ns + for_ms * NS_PER_MS, over)

    def disable(self, name: str) -> None:
        self._configure(name, "false")

    def enable(self, name: str) -> None:
        self._configure(name, "true")

    def _configure(self, name: str, is_enabled: str) -> None:
        path = layout.InstancePaths(CLUSTER, name).config
        body = self.helix.body(path)
        if body is not None:
            record = ZNRecord.from_json(body, path)
            simple = {**record.simple, "HELIX_ENABLED": is_enabled}
            self.helix.put(path, ZNRecord(record.id, simple, record.maps, record.lists).to_json())

    # What must be true all the time.

    def watch(self, for_ms: int) -> None:
        for _ in range(max(1, for_ms // TICK_MS)):
            self.check()
            self.helix.sleep_ms(TICK_MS)

    def check(self) -> None:
        for number in range(LOCKS):
            lock = f"{RESOURCE}_{number}"
            believers = [
                each.name
                for each in self.members.values()
                if each.participant is not None and each.participant.holds(lock)
            ]
            assert len(believers) <= 1, f"{lock} is held by {believers}"
            if believers:
                self._note_token(lock, believers[0])
        if self.seen_zxid != self.helix.zxid:
            self.seen_zxid = self.helix.zxid
            self._check_reports()

    def _check_reports(self) -> None:
        reported: dict[str, str] = {}
        for name in INSTANCES:
            if self.helix.stat(layout.InstancePaths(CLUSTER, name).live) is None:
                continue
            for lock, entry in self.helix.states(name).items():
                if entry["CURRENT_STATE"] == "LOCKED":
                    assert lock not in reported, f"{lock} is reported by {reported[lock]} and {name}"
                    reported[lock] = name

    def _note_token(self, lock: str, name: str) -> None:
        """Tokens never fall."""
        member = self.members[name]
        assert member.participant is not None
        token = member.participant.token(lock)
        if token is not None:  # None: it has just stopped.
            assert token >= self.tokens.get(lock, 0), f"{lock}: token {token} after {self.tokens[lock]}"
            self.tokens[lock] = token

    # The end.

    def calm_down(self) -> None:
        """Nothing disturbs any more: everybody is back, and every lock gets its holder."""
        for member in self.members.values():
            member.channel.disturb = undisturbed
        for name in INSTANCES:
            self.enable(name)
        for name in (*INSTANCES, *CONTROLLERS):
            self.join(name)
        for _ in range(CALM_MS // TICK_MS):
            self.check()
            holders = [
                [each.name for each in self.members.values() if each.participant and each.participant.holds(lock)]
                for lock in (f"{RESOURCE}_{number}" for number in range(LOCKS))
            ]
            if all(len(each) == 1 for each in holders) and len({each[0] for each in holders}) == len(INSTANCES):
                return
            self.helix.sleep_ms(TICK_MS)
        raise AssertionError(f"not settled after {CALM_MS} ms without disturbance: {holders}")


@pytest.mark.parametrize("rebalancer", ["sticky", "mod"])
@settings(max_examples=3, deadline=None)
@given(steps=STEPS)
@example(steps=[(3_000, ("pause", "n1", 6_000))])
@example(steps=[(3_000, ("cut", "n1", 6_000))])
@example(steps=[(3_000, ("deafen", "n1", 6_000))])
@example(steps=[(0, ("join", "c2")), (0, ("join", "n3")), (3_000, ("pause", "c1", 6_000)), (0, ("crash", "n1"))])
def test_no_lock_ever_has_two_holders(rebalancer: str, steps: list[tuple[int, tuple[Any, ...]]]) -> None:
    """T5, T7, T12, T13, T18 to T21: every schedule of steps that Hypothesis draws."""
    play(rebalancer, steps)


@pytest.mark.long
@pytest.mark.parametrize("rebalancer", ["sticky", "mod"])
@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_no_lock_ever_has_two_holders_in_many_schedules(
    rebalancer: str, steps: list[tuple[int, tuple[Any, ...]]]
) -> None:
    """The same, over many more schedules."""
    play(rebalancer, steps)


def play(rebalancer: str, steps: list[tuple[int, tuple[Any, ...]]]) -> None:
    """One cluster through all steps, watched all the time."""
    driven = Driven(Helix(locks=LOCKS, rebalancer=rebalancer))

    def script() -> None:
        for name in ("c1", "n1", "n2"):
            driven.join(name)
        driven.watch(2_000)
        for pause_ms, (action, *how) in steps:
            getattr(driven, action)(*how)
            driven.watch(pause_ms)
        driven.calm_down()

    driven.helix.play(script)
