"""The processes of a client that crash, and what may strike between two of them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lockref.errors import BackendUnavailable, LockrefError
from scenarios.injection.real_time import RealNode, RealStore, send_signal
from scenarios.worlds.processes import struck_processes
from scenarios.worlds.processes.struck_processes import StruckProcesses
from scenarios.worlds.threads import Job


class Event:
    """Set at once: what waits for it goes on when it is played."""

    def wait(self) -> None: ...
    def set(self) -> None: ...


class Later:
    """A runtime of which every task is played when the test says so."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], None]] = []

    def event(self) -> Event:
        return Event()

    def spawn(self, task: Callable[[], None], *, name: str) -> None:
        self.tasks.append(task)


class Workers:
    """Numbers processes, and notes what is done to them."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []
        self.count = 0

    def pid(self, number: int) -> int:
        return 1_000_000 + number

    def fell(self, number: int) -> None:
        self.said.append(("fell", number))

    def follow(self, job: Job) -> int:
        self.count += 1
        self.said.append(("follow", self.count))
        return self.count

    def expect(self) -> None:
        self.said.append(("expect", None))

    def let_go(self, number: int | None) -> None:
        self.said.append(("let_go", number))


def struck() -> tuple[StruckProcesses, Workers, Later]:
    workers, later = Workers(), Later()
    job = Job.__new__(Job)
    for name, value in (("names", ("n1",)), ("incarnation", 1), ("first_number", 1)):
        object.__setattr__(job, name, value)

    def failed(error: LockrefError) -> None:
        raise error

    processes = StruckProcesses(
        workers, 0, job, next_part=iter(range(1, 99)).__next__, runtime=later, failed=failed,  # type: ignore[arg-type]
    )  # fmt: skip
    return processes, workers, later


def test_a_second_crash_before_the_next_process_is_there_starts_no_third(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process that is started is let go: one that nobody lets go would wait until the end of the run."""
    monkeypatch.setattr("scenarios.worlds.processes.struck_processes.replace", lambda job, **_changes: job)
    processes, workers, later = struck()
    processes.kill(succeeded=True)
    processes.succeed()
    processes.kill(succeeded=True)
    processes.succeed()
    while later.tasks:
        later.tasks.pop(0)()
    assert [word for word, _ in workers.said] == ["fell", "expect", "follow", "let_go"]
    processes.kill(succeeded=True)
    processes.succeed()
    while later.tasks:
        later.tasks.pop(0)()
    assert workers.said[-3:] == [("expect", None), ("follow", 2), ("let_go", 2)]


def test_nothing_is_stopped_where_there_is_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two processes of a client the number is 0, which is our own group: SIGSTOP to it stops this command."""
    node = RealNode("n1", timeline=None, restarts=True)  # type: ignore[arg-type]
    node.handle, _, _ = struck()
    node.handle.kill(succeeded=True)
    sent: list[int] = []
    monkeypatch.setattr(struck_processes, "send_signal", lambda pid, _number: sent.append(pid))
    node.pause(1_000)
    assert sent == []


@pytest.mark.parametrize("pid", [0, -1])
def test_a_signal_goes_to_one_process(pid: int) -> None:
    with pytest.raises(AssertionError, match="groups of processes"):
        send_signal(pid, signal.SIGCONT)


class Timeline:
    """Time that the test sets; what is due is called by hand."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.due: list[tuple[int, Any]] = []

    def call_at(self, true_ns: int, call: Any) -> None:
        self.due.append((true_ns, call))

    def pass_to(self, now_ns: int) -> None:
        self.now_ns = now_ns
        for each in [each for each in self.due if each[0] <= now_ns]:
            self.due.remove(each)
            each[1]()


def paused_node() -> tuple[RealNode, Timeline, list[bool]]:
    """A node, its time, and what each end of a pause was told: whether the process goes on."""
    timeline, told = Timeline(), []
    node = RealNode("n1", timeline, restarts=True)  # type: ignore[arg-type]
    node.handle = SimpleNamespace(  # type: ignore[assignment]
        hold=lambda _for_ns: told.append, kill=lambda **_how: None, succeed=lambda: None
    )
    return node, timeline, told


def test_of_overlapping_pauses_the_latest_end_lets_go() -> None:
    """The shorter one ends within the longer one, whichever began first."""
    node, timeline, told = paused_node()
    node.pause(100)
    node.pause(50)
    timeline.pass_to(50)
    timeline.pass_to(100)
    assert told == [False, True]


def test_a_pause_lets_go_of_its_own_process_alone() -> None:
    """Whoever was killed in it is not woken, and neither is its successor by the former one's pause."""
    node, timeline, told = paused_node()
    node.pause(100)
    node.crash()
    node.pause(10)
    timeline.pass_to(100)
    assert told == [False], "nobody is there to be stopped again"
    node.restart()
    node.pause(100)
    node.crash()
    node.restart()
    timeline.pass_to(200)
    assert told == [False, False]
    node.pause(10)
    timeline.pass_to(210)
    assert told == [False, False, True], "what was held before does not hold the next one"


def test_a_server_that_cannot_be_started_again_ends_the_run() -> None:
    """And of overlapping crashes the latest end counts: it comes back once."""
    timeline, failed, begun = Timeline(), [], threading.Event()

    def restart() -> None:
        begun.set()
        raise BackendUnavailable("no port")

    crashes: list[int] = []
    server: Any = SimpleNamespace(crash=lambda: crashes.append(1), restart=restart)
    store = RealStore("store", None, (), server=server)
    heard = threading.Event()
    store.live_on(timeline, failed=lambda error: (failed.append(error), heard.set()))  # type: ignore[arg-type]
    store.crash(100, lambda: None)
    store.crash(20, lambda: None)
    timeline.pass_to(20)
    assert not begun.is_set()
    timeline.pass_to(100)
    assert heard.wait(10)
    assert (len(crashes), [str(error) for error in failed]) == (2, ["no port"])
