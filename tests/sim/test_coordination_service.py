"""The modelled ZooKeeper: what a session sees, when it ends, what order it can rely on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from lockref.coordination.port import SessionState, WatchEvent, create
from lockref.coordination.session import COORDINATION, Session
from lockref.errors import ConfigError
from lockref.history import to_table
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.words import Outcome
from sim.faults.network import Partition
from sim.faults.plan import FaultPlan
from sim.faults.process import Pause
from sim.kernel.streams import stream
from sim.machine.network import NetworkModel
from sim.services.coordination import CoordinationService
from sim.services.kinds import make_service
from sim.world import World
from tests.coordination_scripts import SCRIPTS, STEPS, Scene, Script, random_script

TIMEOUT_NS = 2 * NS_PER_S


def scene_of(script: Script, *, seed: int = 1, lags_ns: tuple[int, ...] = (0,)) -> list[Any]:
    """What a script sees in a world of its own."""
    world = World(seed=seed, network=NetworkModel(latency_ns=(1 * NS_PER_MS, 5 * NS_PER_MS)))
    service = CoordinationService(lags_ns=lags_ns)
    world.add("zk", service, decode=lambda _key, _body: ())
    seen: list[Any] = []

    def expire(session: Session) -> None:
        for each in list(service._sessions.values()):
            if each.id == session.id:
                service.tamper("expire_session", each.client)

    def play() -> None:
        sessions = []
        for name in ("n1", "n2"):
            sessions.append(world.connect(world.node(name), "zk", COORDINATION, timeout_ns=NS_PER_S))
            sessions[-1].start(world.node(name).process.runtime, timeout_ns=TIMEOUT_NS)
        seen.extend(script(Scene(*sessions, expire)))

    world.node("n2")
    world.node("n1").start(play)
    world.run(until_ns=120 * NS_PER_S)
    return seen


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_lag_of_a_follower_changes_no_script_that_asks_for_sync(script: Script):
    """A session that asks for `sync` sees the same on a server that lags (Z12)."""
    alone = scene_of(script)
    assert alone
    assert scene_of(script, lags_ns=(0, 200 * NS_PER_MS)) == alone


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_followers_hold_what_the_leader_decided(steps: Any):
    """Random transactions through two servers show the same as through one."""
    assert scene_of(random_script(steps), lags_ns=(0, 300 * NS_PER_MS)) == scene_of(random_script(steps))


class Play:
    """A world with one service, and clients on nodes n1, n2, …"""

    def __init__(self, plan: FaultPlan | None = None, *, lags_ns: tuple[int, ...] = (0,), seed: int = 1) -> None:
        network = NetworkModel(latency_ns=(1 * NS_PER_MS, 5 * NS_PER_MS))
        self.world = World(seed=seed, network=network, plan=FaultPlan() if plan is None else plan)
        self.service = CoordinationService(lags_ns=lags_ns)
        self.world.add("zk", self.service, decode=lambda _key, _body: ())
        self.seen: list[Any] = []

    def session(self, name: str) -> Session:
        made = self.world.connect(self.world.node(name), "zk", COORDINATION, timeout_ns=NS_PER_S // 2)
        made.start(self.world.node(name).process.runtime, timeout_ns=TIMEOUT_NS)
        return made

    def run(self, **clients: Any) -> list[Any]:
        for name in clients:
            self.world.node(name)
        for name, client in clients.items():
            self.world.node(name).start(lambda name=name, client=client: client(self.session(name)))
        self.world.run(until_ns=60 * NS_PER_S)
        return self.seen

    def now_ms(self) -> int:
        return self.world.true_ns() // NS_PER_MS

    def sleep(self, session: Session, duration_ms: int) -> None:
        session._runtime.sleep(duration_ms * NS_PER_MS)


def test_a_session_lives_as_long_as_its_client_asks():
    """Its keep-alive is enough; nothing else is asked for ten timeouts."""
    play = Play()

    def client(session: Session) -> None:
        session.create("/e", is_ephemeral=True)
        play.sleep(session, 20_000)
        play.seen.append((session.state, session.exists("/e").missing))

    assert play.run(n1=client) == [(SessionState.CONNECTED, False)]


def test_a_paused_client_learns_of_the_end_only_when_it_is_back():
    """Z9, Z10: others see its znode go within timeout and tick; only its clock can tell it in time."""
    play = Play(FaultPlan.of(Pause(id="p", client="n1", at_ns=3 * NS_PER_S, for_ns=6 * NS_PER_S)))

    def holder(session: Session) -> None:
        session.create("/e", is_ephemeral=True)
        while session.state is not SessionState.LOST:
            is_safe = session._runtime.monotonic_ns() < session.safe_until_ns(rate_bound_ppm=0, margin_ns=0)
            play.seen.append(("holder", play.now_ms(), is_safe))
            play.sleep(session, 200)

    def watcher(session: Session) -> None:
        play.sleep(session, 500)
        session.exists("/e", is_watching=True)
        assert isinstance(session.next_event(30 * NS_PER_S), WatchEvent)
        play.seen.append(("gone", play.now_ms(), True))

    seen = play.run(n1=holder, n2=watcher)
    gone_ms = next(at_ms for who, at_ms, _ in seen if who == "gone")
    assert 4_000 <= gone_ms <= 5_200, "the session ends a timeout after the last request that arrived"
    late = [is_safe for who, at_ms, is_safe in seen if who == "holder" and at_ms > gone_ms]
    assert late, "the holder asked its clock once more after its pause, before it heard"
    assert not any(late)


@pytest.mark.parametrize("pause_at_ms", [2130, 2160, 3000])
def test_a_session_ends_not_before_its_timeout_and_within_a_tick(pause_at_ms: int):
    """T17: whatever a holder may still do counts on it, to the last nanosecond."""
    play = Play(FaultPlan.of(Pause(id="p", client="n1", at_ns=pause_at_ms * NS_PER_MS, for_ns=9 * NS_PER_S)))

    def client(session: Session) -> None:
        while play.now_ms() < pause_at_ms:
            session.get("/")
            play.sleep(session, 10)

    def watcher(session: Session) -> None:
        play.sleep(session, 500)
        heard_ns = 0
        while found := [each for each in play.service._sessions.values() if each.client == "n1"]:
            heard_ns = found[0].heard_ns
            play.sleep(session, 1)
        play.seen.append(play.world.true_ns() - heard_ns)

    (silent_ns,) = play.run(n1=client, n2=watcher)
    assert TIMEOUT_NS <= silent_ns <= TIMEOUT_NS + 102 * NS_PER_MS


def test_a_partitioned_client_is_suspended_then_lost():
    """SUSPENDED comes by the client's own clock; LOST only once a server says so."""
    play = Play(FaultPlan.of(Partition(id="p", groups=(("n1",), ("zk",)), at_ns=3 * NS_PER_S, for_ns=5 * NS_PER_S)))

    def client(session: Session) -> None:
        for _ in range(2):
            play.seen.append((session.next_event(30 * NS_PER_S), play.now_ms()))

    (suspended, suspended_ms), (lost, lost_ms) = play.run(n1=client)
    assert (suspended, lost) == (SessionState.SUSPENDED, SessionState.LOST)
    assert 4_000 <= suspended_ms <= 5_500
    assert lost_ms >= 8_000


def test_a_follower_shows_the_past_until_sync():
    """Z12: the second session is with a server that lags by 2 s."""
    play = Play(lags_ns=(0, 2 * NS_PER_S))

    def writer(session: Session) -> None:
        session.create("/a", b"new")

    def reader(session: Session) -> None:
        play.sleep(session, 500)
        before = session.get("/a").missing
        session.sync()
        play.seen.append((before, session.get("/a").body))

    assert play.run(n1=writer, n2=reader) == [(True, b"new")]


def test_a_session_reads_its_own_writes():
    """Its server may lag by 2 s behind what others write, not behind what was answered to it."""
    play = Play(lags_ns=(0, 2 * NS_PER_S))

    def reader(session: Session) -> None:
        session.create("/a", b"1")
        session.set("/a", b"2")
        play.seen.append(session.get("/a").body)

    assert play.run(n1=lambda _session: None, n2=reader) == [b"2"]


def test_a_watch_tells_once():
    """Of two changes it tells the first; whoever wants more asks anew."""
    play = Play()

    def reader(session: Session) -> None:
        session.create("/a")
        session.get("/a", is_watching=True)
        session.set("/a", b"1")
        session.set("/a", b"2")
        play.sleep(session, 500)
        play.seen += [session.next_event(0) is not None, session.next_event(0) is not None]

    assert play.run(n1=reader) == [True, False]


def test_a_watch_is_told_before_a_later_answer():
    """What a read shows is never newer than what its session was told before; 200 seeds."""
    raced = 0
    for seed in range(200):
        play = Play(seed=seed)

        def writer(session: Session, play: Play = play) -> None:
            session.create("/a", b"0")
            for number in range(1, 20):
                session.set("/a", str(number).encode())

        def reader(session: Session, play: Play = play) -> None:
            while (body := session.get("/a", is_watching=True).body) is None:
                play.sleep(session, 1)
            again = session.get("/a").body
            if again != body:
                play.seen.append(session.next_event(0) is not None)

        assert all(play.run(n1=writer, n2=reader))
        raced += len(play.seen)
    assert raced >= 10, "a change fell between two reads"


def test_a_create_whose_answer_was_lost_is_known_by_its_owner():
    """T20: after an answer that was lost, the znode tells by its session whose it is."""
    play = Play(
        FaultPlan.of(Partition(id="p", groups=(("zk",), ("n1",)), one_way=True, at_ns=NS_PER_S, for_ns=NS_PER_S))
    )

    def client(session: Session) -> None:
        play.sleep(session, 1_100)
        first = session.create("/e", is_ephemeral=True)
        while (again := session.create("/e", is_ephemeral=True)).outcome is Outcome.AMBIGUOUS:
            pass
        play.seen += [first.outcome, again.outcome, session.exists("/e").version.owner == session.id]

    assert play.run(n1=client) == [Outcome.AMBIGUOUS, Outcome.PRECONDITION_FAILED, True]


def test_options_are_checked():
    """A wrong number of servers is refused with the range."""
    with pytest.raises(ConfigError, match="option servers is '12'; expected a whole number from 1 to 9"):
        make_service("coordination", options={"servers": "12"})
    with pytest.raises(ConfigError, match="has the option 'lag'; coordination knows servers, lag_ms, tick_ms"):
        make_service("coordination", options={"lag": "12"})


def test_requests_of_one_seed_are_one_history():
    """The same seed gives the same digest; what a session is kept alive with leaves no row."""

    def digest() -> str:
        play = Play(seed=7, lags_ns=(0, 50 * NS_PER_MS))

        def client(session: Session) -> None:
            names = stream(7, "names")
            for _ in range(10):
                session.multi([create(f"/{names.randrange(10**6)}", b"x")])

        play.run(n1=client, n2=client)
        assert "/" not in {row["lock"] for row in to_table([play.world.recorder]).to_pylist()}
        return play.world.recorder.digest()

    assert digest() == digest()
