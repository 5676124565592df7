"""One timer for many blocks that are watched: each tick asks the look of the block that the process is in."""

from __future__ import annotations

import signal
import threading

import pytest

from scenarios.worlds.processes import cpu_watch
from scenarios.worlds.processes.cpu_watch import looks_every_tick, ticking


@pytest.fixture
def as_before():
    """Handler and timer are afterwards as they were before."""
    before = signal.getsignal(signal.SIGPROF)
    yield
    assert signal.getsignal(signal.SIGPROF) is before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def tick() -> None:
    """What the timer does after `TICK_S` of processor time."""
    signal.raise_signal(signal.SIGPROF)


def test_each_tick_asks_the_innermost_look(as_before: None) -> None:
    """Within `ticking` and without it; between two blocks, nobody is asked."""
    asked: list[str] = []

    def two_blocks() -> None:
        with looks_every_tick(lambda _place: asked.append("first")) as is_watched:
            assert is_watched
            tick()
            with looks_every_tick(lambda _place: asked.append("inner")):
                tick()
            tick()
        with looks_every_tick(lambda _place: asked.append("second")):
            tick()

    two_blocks()
    alone, asked[:] = list(asked), []
    with ticking():
        tick()
        two_blocks()
        tick()
    assert asked == alone == ["first", "inner", "first", "second"]


def test_one_timer_runs_for_all_blocks(as_before: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is set once, and taken back once, by the outermost block."""
    set_to: list[float] = []
    real = signal.setitimer

    def setitimer(which: int, seconds: float, interval: float = 0.0) -> tuple[float, float]:
        set_to.append(seconds)
        return real(which, seconds, interval)

    monkeypatch.setattr(signal, "setitimer", setitimer)
    with ticking(), ticking():
        for _ in range(3):
            with looks_every_tick(lambda _place: None):
                assert signal.getitimer(signal.ITIMER_PROF)[1] == pytest.approx(cpu_watch.TICK_S, abs=0.1)
    assert set_to == [cpu_watch.TICK_S, 0.0]


def test_a_look_that_raises_ends_its_block_alone(as_before: None) -> None:
    """What a look raises comes out of its block; the next block is watched by its own look."""

    def interrupts(_place: str) -> None:
        raise TimeoutError

    asked: list[str] = []
    with ticking():
        with pytest.raises(TimeoutError), looks_every_tick(interrupts):
            tick()
        with looks_every_tick(asked.append):
            tick()
    assert len(asked) == 1


@pytest.mark.parametrize("is_ticking", [False, True])
def test_code_in_another_thread_is_not_watched(as_before: None, is_ticking: bool) -> None:
    """Python runs handlers in the main thread alone, whether that one is being watched or not."""
    answers: list[bool] = []

    def elsewhere() -> None:
        with looks_every_tick(lambda _place: None) as is_watched:
            answers.append(is_watched)

    def run() -> None:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    if is_ticking:
        with ticking():
            run()
    else:
        run()
    assert answers == [False]
