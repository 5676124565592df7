"""Workloads: what resources accept, and which rows a client's calls leave behind."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace

import pytest

from lockref.errors import LockError, LockLost, OutcomeUnknown, ReleaseFailed
from lockref.history import Recorder, to_table
from lockref.lab.recording import OpenCalls, host_stamp
from lockref.provider import Grant, LockEvent, LockEventKind, LockProvider
from lockref.runtime import NS_PER_MS, ThreadRuntime
from lockref.words import Outcome
from scenarios.definition.client_profile import ClientProfile
from scenarios.definition.units import constant
from scenarios.workloads.client import ASKS, Client
from scenarios.workloads.commit_log import CommitLog
from scenarios.workloads.counter import Counter
from scenarios.workloads.cycles import closes, loop, reentrant, relock, tasks_of, work_under_lock
from scenarios.workloads.cycles import run_clients as run_together
from scenarios.workloads.register import FencedRegister
from scenarios.workloads.resource import RESOURCE, RESOURCE_TIMEOUT_NS, LocalChannel, ResourceHost, Write
from scenarios.workloads.scarcity import NoThread, runtime_for
from scenarios.workloads.unsafe_list import UnsafeList


def write(based_on: str = "", token: int | None = None) -> Write:
    return Write(node="n1", task="main", tenure=1, attempt=1, based_on=based_on, token=token, owner="a")


def test_the_register_refuses_smaller_tokens_only() -> None:
    """S4: once token 7 was accepted, 6 is refused and leaves no trace; 7 and 8 are accepted."""
    register = FencedRegister()
    outcomes = [register.apply(write(token=token)).outcome for token in (6, 7, 6, 7, 8)]
    refused = Outcome.PRECONDITION_FAILED
    assert outcomes == [Outcome.APPLIED, Outcome.APPLIED, refused, Outcome.APPLIED, Outcome.APPLIED]
    assert register.state() == "4"


def test_the_register_accepts_everything_from_a_lock_without_tokens() -> None:
    """U14: without a token on the data path a late write cannot be told from a timely one."""
    register = FencedRegister()
    assert register.apply(write(token=9)).outcome is Outcome.APPLIED
    assert register.apply(write(token=None)).outcome is Outcome.APPLIED


@pytest.mark.parametrize("resource", [UnsafeList(), Counter()])
def test_list_and_counter_lose_an_update_when_two_write_on_one_state(resource: UnsafeList | Counter) -> None:
    """S4: both effects name the state they were based on, so the lost update shows in the history."""
    first, second = resource.apply(write("0")), resource.apply(write("0"))
    assert first.outcome is second.outcome is Outcome.APPLIED
    assert first.if_version == second.if_version == "0"


def test_the_log_takes_each_number_once() -> None:
    """H2: a commit is put-if-absent of the next number; the second one meets a conflict."""
    log = CommitLog()
    assert log.apply(write("0")).outcome is Outcome.APPLIED
    late = log.apply(write("0"))
    assert (late.outcome, late.version) == (Outcome.PRECONDITION_FAILED, "1")


def test_a_write_keeps_its_parts_on_the_way_to_another_process() -> None:
    """A worker sends its writes through a pipe. As a string alone a write would arrive without its token."""
    sent = Write("n1", "main", 7, 2, "41", 3, "a")
    arrived = pickle.loads(pickle.dumps(sent))
    assert arrived == "41"
    assert [getattr(arrived, part) for part in Write.__slots__] == [getattr(sent, part) for part in Write.__slots__]


class ScriptedLock:
    """A lock that answers as told: `grants` by call, `says` for each question of the guard."""

    def __init__(
        self,
        grants: list[bool | LockError],
        says: list[bool] | None = None,
        unlocks: list[LockError | None] | None = None,
    ) -> None:
        self.grants, self.says, self.unlocks = grants, says, unlocks or []
        self.grant: Grant | None = None
        self.waited: list[float] = []

    def _answer(self) -> bool:
        answer = self.grants.pop(0)
        if isinstance(answer, LockError):
            raise answer
        self.grant = Grant(owner="a", token=3) if answer else None
        return answer

    def try_lock(self) -> bool:
        self.waited.append(0.0)
        return self._answer()

    def lock(self, timeout_s: float) -> bool:
        self.waited.append(timeout_s)
        return self._answer()

    def unlock(self) -> None:
        error = self.unlocks.pop(0) if self.unlocks else None
        if error is not None:
            raise error

    def holds(self) -> bool:
        return self.says.pop(0) if self.says else True

    def close(self) -> None:
        """Nothing is held."""


PROFILE = ClientProfile(
    start=constant(0),
    cycles=constant(1),
    think=constant(0),
    hold=constant(0),
    writes=constant(2),
    wait=constant(30 * 10**9),
    last_start_ns=60 * 10**9,
)


class Die:
    """Draws that no constant needs."""

    def randint(self, a: int, b: int) -> int:
        raise AssertionError(f"nothing to draw between {a} and {b}")


def live(lock: ScriptedLock, profile: ClientProfile = PROFILE, life: object = loop) -> list[tuple[str, str, str]]:
    """The rows that a client leaves, as (kind, op, outcome)."""
    recorder, runtime = Recorder(), ThreadRuntime()
    host = ResourceHost(FencedRegister(), recorder=recorder, true_ns=runtime.monotonic_ns, lock="k")
    client = Client(
        node="n1",
        task="main",
        runtime=runtime,
        recorder=recorder,
        stamp=host_stamp(runtime),
        next_number=itertools.count(1).__next__,
        calls=OpenCalls(),
        provider=lock,
        resource=RESOURCE.over(LocalChannel({RESOURCE.name: host}, runtime.mutex()), RESOURCE_TIMEOUT_NS),
        reads_first=False,
        lock="k",
    )
    life(client, profile, Die())  # type: ignore[operator]
    return [(row["kind"], row["op"], row["outcome"]) for row in to_table([recorder]).to_pylist()]


def test_a_cycle_leaves_the_rows_of_the_contract() -> None:
    """CALL and RETURN around each call, BELIEVED at the grant and at each guard, DISBELIEVED before the release."""
    assert live(ScriptedLock([True])) == [
        ("call", "acquire", "none"),
        ("return", "acquire", "applied"),
        ("believed", "acquire", "none"),
        ("believed", "guard", "none"),
        ("effect", "write", "applied"),
        ("believed", "guard", "none"),
        ("effect", "write", "applied"),
        ("disbelieved", "release", "none"),
        ("call", "release", "none"),
        ("return", "release", "applied"),
    ]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (False, "precondition_failed"),
        (OutcomeUnknown("who knows"), "ambiguous"),
        (LockError("no"), "rejected"),
    ],
)
def test_an_acquire_without_a_grant_is_recorded_and_survived(answer: bool | LockError, outcome: str) -> None:
    """S7: denied, unknown and failed are three answers; none of them ends the client."""
    assert live(ScriptedLock([answer])) == [("call", "acquire", "none"), ("return", "acquire", outcome)]


@pytest.mark.parametrize(("error", "outcome"), [(ReleaseFailed("later"), "ambiguous"), (LockLost("gone"), "rejected")])
def test_a_release_that_raises_is_recorded(error: LockError, outcome: str) -> None:
    """H24: a failed release is an unknown outcome; a loss is a definite one."""
    assert live(ScriptedLock([True], unlocks=[error]))[-1] == ("return", "release", outcome)


def test_the_guard_stops_the_work_but_not_the_release() -> None:
    """H2: after a no no write goes out; the client still unlocks, as a `with` block would."""
    rows = live(ScriptedLock([True], says=[True, True, False]))
    assert [kind for kind, op, _ in rows if kind == "effect"] == ["effect"]
    assert rows[-3:] == [
        ("disbelieved", "guard", "none"),
        ("call", "release", "none"),
        ("return", "release", "applied"),
    ]


def test_a_grant_that_is_over_on_return_is_never_believed() -> None:
    """H3: granted, but the guard says no at once: no BELIEVED row."""
    rows = live(ScriptedLock([True], says=[False, False]))
    assert not [row for row in rows if row[0] == "believed"]
    assert ("disbelieved", "acquire", "none") in rows


def test_a_client_may_ask_again_after_a_loss() -> None:
    """U7: `relock` acquires a second time before it releases."""
    rows = live(ScriptedLock([True, True], says=[True, False]), life=relock)
    calls = [(kind, op) for kind, op, _ in rows if kind == "call"]
    assert calls == [("call", "acquire"), ("call", "acquire"), ("call", "release")]


def test_a_client_may_lock_twice_and_unlocks_as_often() -> None:
    """H9: lock, work, lock, work, unlock, work, unlock; the outer tenure writes again after the inner unlock."""
    rows = live(ScriptedLock([True, True]), life=reentrant)
    steps = [(kind, op) for kind, op, _ in rows if kind in ("call", "effect")]
    lock, unlock, writes = ("call", "acquire"), ("call", "release"), [("effect", "write")] * 2
    assert steps == [lock, *writes, lock, *writes, unlock, *writes, unlock]


def test_a_refused_second_entry_denies_nothing() -> None:
    """S7: no to a client that holds says that the lock is not re-entrant; the client works on with its first entry."""
    rows = live(ScriptedLock([True, False]), life=reentrant)
    assert [outcome for kind, op, outcome in rows if (kind, op) == ("return", "acquire")] == ["applied", "rejected"]
    assert [row[:2] for row in rows if row[0] in ("effect", "call")][-2:] == [("effect", "write"), ("call", "release")]


def test_a_close_while_holding_is_a_client_that_gave_up() -> None:
    """U16, L1: belief ends, and whether the lock is free is not known."""
    rows = live(ScriptedLock([True]), replace(PROFILE, last_start_ns=50 * NS_PER_MS), life=closes)
    assert rows[-3:] == [
        ("disbelieved", "release", "none"),
        ("call", "release", "none"),
        ("return", "release", "ambiguous"),
    ]


def test_only_the_last_cycle_ends_in_a_close() -> None:
    """U16: the cycles before it give back, as the schema says; there was one cycle, whatever the file said."""
    profile = replace(PROFILE, cycles=constant(3), last_start_ns=50 * NS_PER_MS)
    rows = live(ScriptedLock([True, True, True]), profile, life=closes)
    assert [op for kind, op, _ in rows if kind == "call"] == ["acquire", "release"] * 3
    answers = [outcome for kind, op, outcome in rows if (kind, op) == ("return", "release")]
    assert answers == ["applied", "applied", "ambiguous"]


def test_a_close_by_another_task_gives_nothing_back_of_its_own() -> None:
    """U16, S6: the second task held nothing, so its call has no outcome; the first one works and unlocks."""
    recorder, runtime, lock = Recorder(), ThreadRuntime(), ScriptedLock([True])
    host = ResourceHost(FencedRegister(), recorder=recorder, true_ns=runtime.monotonic_ns, lock="k")
    number = itertools.count(1).__next__
    clients = [
        Client(
            node="n1",
            task=task,
            runtime=runtime,
            recorder=recorder,
            stamp=host_stamp(runtime),
            next_number=number,
            calls=OpenCalls(),
            provider=lock,
            resource=RESOURCE.over(LocalChannel({RESOURCE.name: host}, runtime.mutex()), RESOURCE_TIMEOUT_NS),
            reads_first=False,
            lock="k",
            shares_provider=True,
        )
        for task in tasks_of("closed_by_another")
    ]
    run_together("closed_by_another", clients, PROFILE, [Die(), Die()])
    rows = to_table([recorder]).to_pylist()
    ends = {row["task"]: row["outcome"] for row in rows if (row["kind"], row["op"]) == ("return", "release")}
    assert ends == {"main": "applied", "second": "none"}
    assert [row["task"] for row in rows if row["kind"] == "effect"] == ["main", "main"]


def test_no_wait_means_one_attempt() -> None:
    """`wait: 0s` calls `try_lock`; any other wait is the timeout of `lock`."""
    patient, hasty = ScriptedLock([False]), ScriptedLock([False])
    live(patient)
    live(hasty, replace(PROFILE, wait=constant(0)))
    assert hasty.waited == [0.0]
    assert patient.waited[0] == pytest.approx(30, abs=1e-6)


def test_no_wait_outlasts_the_run() -> None:
    """A real run is bounded in time: what is left of it bounds the last wait."""
    lock = ScriptedLock([False])
    live(lock, replace(PROFILE, last_start_ns=2 * 10**9))
    assert 0 < lock.waited[0] <= 2


class Renumbered:
    """Always granted. Its grant shows the next one of `tokens` each time that it is asked for, and then none."""

    def __init__(self, tokens: list[int | None]) -> None:
        self.tokens = tokens

    @property
    def grant(self) -> Grant:
        return Grant(owner="me", token=self.tokens.pop(0) if self.tokens else None)

    def try_lock(self) -> bool:
        return True

    def lock(self, _timeout_s: float) -> bool:
        return True

    def unlock(self) -> None:
        """Given back."""

    def holds(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing is left."""


@pytest.mark.parametrize(
    ("asks", "tokens", "guards", "shown"),
    [
        ("guard", [5, 6, 7], 2, [5, 5]),
        ("token", [5, 6, 7], 0, [6, 7]),
        ("token", [5, 6], 0, [6, 6]),
        ("token", [None], 0, []),
        ("both", [5, 6, 7], 2, [6, 7]),
        ("both", [None], 1, []),
        ("nothing", [5, 6, 7], 0, [None, None]),
    ],
)
def test_what_a_client_asks_before_each_write(
    asks: str, tokens: list[int | None], guards: int, shown: list[int | None]
) -> None:
    """`workload.asks`: the guard is asked where it says so; the token that the resource sees is the one last told."""
    recorder = Recorder()
    client = _client(recorder, Renumbered(list(tokens)), asks=asks)
    client.acquire(10**9)
    assert work_under_lock(client, replace(PROFILE, hold=constant(0), writes=constant(2)), Die()) is bool(shown)
    rows = to_table([recorder]).to_pylist()
    assert [row["token"] for row in rows if row["kind"] == "effect"] == shown
    assert sum((row["kind"], row["op"]) == ("believed", "guard") for row in rows) == guards


def _client(recorder: Recorder, lock: LockProvider, *, asks: str = "guard") -> Client:
    runtime = ThreadRuntime()
    return Client(
        node="n1",
        task="main",
        runtime=runtime,
        recorder=recorder,
        stamp=host_stamp(runtime),
        next_number=itertools.count(1).__next__,
        calls=OpenCalls(),
        provider=lock,
        resource=RESOURCE.over(
            LocalChannel(
                {
                    RESOURCE.name: ResourceHost(
                        FencedRegister(), recorder=recorder, true_ns=runtime.monotonic_ns, lock="k"
                    )
                },
                runtime.mutex(),
            ),
            RESOURCE_TIMEOUT_NS,
        ),
        reads_first=False,
        lock="k",
        asks=ASKS[asks],
    )


def test_a_reported_loss_ends_belief_once() -> None:
    """L4: LOST writes one DISBELIEVED for the tenure under way, and none outside of one."""
    recorder = Recorder()
    client = _client(recorder, ScriptedLock([True]))
    lost = LockEvent(kind=LockEventKind.LOST)
    client.heard(lost)
    client.acquire(10**9)
    client.heard(LockEvent(kind=LockEventKind.RENEWED))
    client.heard(lost)
    client.heard(lost)
    kinds = [row["kind"] for row in to_table([recorder]).to_pylist()]
    assert kinds == ["call", "return", "believed", "disbelieved"]


def test_a_report_is_recorded_whatever_the_guard_has_said() -> None:
    """L4: after a no of the guard the listener still has to hear of the loss, and the record shows that it did."""
    recorder = Recorder()
    client = _client(recorder, ScriptedLock([True], says=[True, False]))
    client.acquire(10**9)
    assert not client.guard()
    client.heard(LockEvent(kind=LockEventKind.LOST))
    client.release()
    rows = [(row["kind"], row["op"]) for row in to_table([recorder]).to_pylist()]
    assert [op for kind, op in rows if kind == "disbelieved"] == ["guard", "none"]


@pytest.mark.parametrize("works_on", [True, False])
def test_the_guard_is_asked_once_more_after_a_report(works_on: bool) -> None:
    """L4: a report ends belief; what the guard says then is on record, whether the client asks it or only unlocks."""
    recorder = Recorder()
    client = _client(recorder, ScriptedLock([True], says=[True, False, False]))
    client.acquire(10**9)
    client.heard(LockEvent(kind=LockEventKind.LOST))
    if works_on:
        assert not client.guard()
    client.release()
    rows = [(row["kind"], row["op"]) for row in to_table([recorder]).to_pylist()]
    assert [op for kind, op in rows if kind == "disbelieved"] == ["none", "guard"]


def test_a_guard_that_says_yes_after_a_report_is_on_record() -> None:
    """L4: the report does not answer for the guard."""
    recorder = Recorder()
    client = _client(recorder, ScriptedLock([True], says=[True, True]))
    client.acquire(10**9)
    client.heard(LockEvent(kind=LockEventKind.LOST))
    client.release()
    rows = [(row["kind"], row["op"]) for row in to_table([recorder]).to_pylist()]
    assert rows[-3:-2] == [("believed", "guard")]
    assert [op for kind, op in rows if kind == "disbelieved"] == ["none"]


def test_a_machine_without_threads_refuses_so_many() -> None:
    """U8: the first spawns fail with what Python raises, the next succeed; the rest of the runtime is the real one."""
    profile = replace(PROFILE, refused_threads=2)
    real = ThreadRuntime()
    runtime = runtime_for(real, profile)
    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            runtime.spawn(lambda: None, name="heartbeat")
        assert isinstance(caught.value, NoThread)
    assert runtime.spawn(lambda: None, name="heartbeat").join(10**9)
    assert runtime_for(real, PROFILE) is real


def test_a_yes_is_recorded_at_the_instant_of_the_question() -> None:
    """The machine may stop a thread between the lock's yes and its next look at a clock: belief is not longer then."""

    class Stops(ScriptedLock):
        def holds(self) -> bool:
            stops_ns.append(3 * 10**9)
            return super().holds()

    stops_ns: list[int] = []
    recorder, lock = Recorder(), Stops([True])
    client = _client(recorder, lock)
    client._stamp = lambda: (sum(stops_ns), sum(stops_ns), sum(stops_ns), "main")
    client.acquire(10**9)
    assert client.guard()
    client.observed()
    at = [row["at_ns"] for row in to_table([recorder]).to_pylist() if row["kind"] == "believed"]
    assert at == [0, 3 * 10**9, 6 * 10**9]
