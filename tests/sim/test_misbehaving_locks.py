"""A lock that breaks the laboratory's rules is told so in one line; it never hangs, crashes or ends the command."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockref.errors import ConfigError, DeterminismError
from lockref.lab.loading import provider_from
from lockref.locks.cell import Cell
from lockref.locks.rules import Rules
from lockref.locks.values import Purpose, Step
from lockref.provider import LockContext
from lockref.runtime import NS_PER_MS
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version, WriteReply
from lockref.words import Outcome
from scenarios.batch import run_seeds
from scenarios.definition.load import load_scenario
from scenarios.run import RunOutcome, run_simulated
from scenarios.worlds import watchdog
from scenarios.worlds.processes import cpu_watch
from tests.quality.planted.strangers import PlainLock

CRASH = load_scenario("e03")


def run(lock: type) -> RunOutcome:
    return run_simulated(CRASH, provider_from(lock, name="misbehaving"), 1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watchdog that looks often, so that a loop ends soon; where it would end the process, the test fails."""

    def end(code: int) -> None:
        pytest.fail(f"the watchdog ended the process with {code}")

    monkeypatch.setattr(cpu_watch, "TICK_S", 0.1)
    monkeypatch.setattr(cpu_watch, "end_process", end)


class Exits(PlainLock):
    def lock(self, timeout_s: float) -> bool:
        sys.exit(0)


class ExitsWhenMade(PlainLock):
    def __init__(self, context: LockContext) -> None:
        raise SystemExit(0)


class EndsGenerators(PlainLock):
    def lock(self, timeout_s: float) -> bool:
        raise GeneratorExit


class ChangesSettings(PlainLock):
    def lock(self, timeout_s: float) -> bool:
        self.settings.validity_ns = 1  # type: ignore[misc]
        return False


class FreesAFreeMutex(PlainLock):
    def lock(self, timeout_s: float) -> bool:
        self.runtime.mutex().release()
        return False


class SleepsInSeconds(PlainLock):
    def lock(self, timeout_s: float) -> bool:
        self.runtime.sleep(0.25)  # type: ignore[arg-type]
        return False


class WritesText(PlainLock):
    def put(self, body: bytes, version: Any) -> Any:
        return self.store.put(self.key, body.decode())  # type: ignore[arg-type]


class AsksForNoTime(PlainLock):
    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        context.open_store(-5)


class GuardsByRequest(PlainLock):
    def holds(self) -> bool:
        return super().holds() and self.store.read(self.key).version == self.version


class GuardsSlowly(PlainLock):
    def holds(self) -> bool:
        self.runtime.sleep(NS_PER_MS)
        return super().holds()


class GrantsByRequest(PlainLock):
    @property
    def grant(self) -> Any:
        self.store.read(self.key)
        return super().grant


class NamesNoVersion(PlainLock):
    def put(self, body: bytes, version: Any) -> Any:
        return self.store.put_if_version(self.key, body, None)  # type: ignore[arg-type]


class NamesAnEmptyVersion(PlainLock):
    def put(self, body: bytes, version: Any) -> Any:
        return self.store.put_if_version(self.key, body, "")  # type: ignore[arg-type]


class DeletesAnEmptyVersion(PlainLock):
    def put(self, body: bytes, version: Any) -> Any:
        return self.store.delete(self.key, "")  # type: ignore[arg-type]


class NamesNoKey(PlainLock):
    def put(self, body: bytes, version: Any) -> Any:
        return self.store.put_if_absent(7, body)  # type: ignore[arg-type]


class RaisesNoException(PlainLock):
    def lock(self, timeout_s: float) -> bool:
        class Odd(BaseException):
            pass

        raise Odd("of several\nlines")


class PromisesAnAnswer(PlainLock):
    def lock(self, timeout_s: float) -> Any:
        async def later() -> bool:
            return True

        return later()


class YieldsAnAnswer(PlainLock):
    def holds(self) -> Any:
        yield True


class _SilentRenewals(Cell[LockFile]):
    def swap(self, if_version: Version | None, record: LockFile, purpose: Purpose) -> WriteReply:
        reply = super().swap(if_version, record, purpose)
        return WriteReply(outcome=Outcome.AMBIGUOUS) if purpose is Purpose.RENEW else reply


def _always_done(reply: WriteReply) -> Step:
    return Step.DONE


class BreaksTheReference(StorageLock):
    """Its own step has returned when the reference finds that an applied write has no version."""

    parts = replace(StorageLock.parts, cell=_SilentRenewals, rules=Rules(next_step=_always_done))


class SleepsForNoTime(PlainLock):
    def lock(self, timeout_s: float) -> bool:
        while True:
            self.runtime.sleep(0)


class StartsTooMany(PlainLock):
    def lock(self, timeout_s: float) -> bool:
        while True:
            self.runtime.spawn(lambda: self.runtime.event().wait(), name="forgotten")


@pytest.mark.parametrize(
    ("lock", "words"),
    [
        (NamesNoVersion, "was given the version None"),
        (NamesAnEmptyVersion, "was given the version ''"),
        (DeletesAnEmptyVersion, "was given the version ''"),
        (NamesNoKey, "was given the key 7"),
        (RaisesNoException, "raised Odd at .*: of several lines"),
        (PromisesAnAnswer, "lock answered a coroutine"),
        (YieldsAnAnswer, "holds answered a generator"),
        (BreaksTheReference, "raised AssertionError: an applied write has a version"),
        (SleepsForNoTime, "virtual time hardly moves"),
        (StartsTooMany, "started another task 'forgotten'"),
        (Exits, "raised SystemExit"),
        (ExitsWhenMade, "raised SystemExit"),
        (EndsGenerators, "raised GeneratorExit"),
        (ChangesSettings, "raised FrozenInstanceError"),
        (FreesAFreeMutex, "raised RuntimeError"),
        (SleepsInSeconds, "whole number of nanoseconds"),
        (WritesText, "expected bytes"),
        (AsksForNoTime, "request timeout of -5"),
        (GuardsByRequest, r"holds took \d+ ns"),
        (GuardsSlowly, r"holds took \d+ ns"),
        (GrantsByRequest, r"grant took \d+ ns"),
    ],
)
def test_a_broken_rule_is_one_line(lock: type, words: str) -> None:
    """Exit 2 with a reason: neither a verdict, nor success, nor a defect of the laboratory."""
    with pytest.raises(ConfigError, match=words) as caught:
        run(lock)
    assert "\n" not in str(caught.value)


def test_a_lock_cannot_end_the_process() -> None:
    """`os._exit(0)` would be read as a verdict of "held"."""

    class Leaves(PlainLock):
        def lock(self, timeout_s: float) -> bool:
            os._exit(0)

    with pytest.raises(DeterminismError, match=r"os\._exit"):
        run_seeds(CRASH, provider_from(Leaves, name="misbehaving"), [1])


def test_a_lock_leaves_the_process_of_the_laboratory_alone() -> None:
    """Where the process stands decides where runs are kept, and a signal would end it or read as a Ctrl-C."""

    class Moves(PlainLock):
        def lock(self, timeout_s: float) -> bool:
            os.chdir("/")
            return super().lock(timeout_s)

    class Signals(PlainLock):
        def lock(self, timeout_s: float) -> bool:
            os.kill(os.getpid(), 0)
            return super().lock(timeout_s)

    folder = Path.cwd()
    for lock, called in ((Moves, r"os\.chdir"), (Signals, r"os\.kill")):
        with pytest.raises(DeterminismError, match=called):
            run_seeds(CRASH, provider_from(lock, name="misbehaving"), [1])
    assert Path.cwd() == folder


def test_what_a_lock_prints_is_not_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output belongs to the command: with `--json` it is one document."""

    class Prints(PlainLock):
        def lock(self, timeout_s: float) -> bool:
            print("hello")  # noqa: T201 - what is tested
            return super().lock(timeout_s)

    run(Prints)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello" in captured.err


class Loops(PlainLock):
    def lock(self, timeout_s: float) -> bool:
        while True:
            pass


class LoopsOnASetEvent(PlainLock):
    def lock(self, timeout_s: float) -> bool:
        event = self.runtime.event()
        event.set()
        while True:
            event.wait(1)


class LoopsStubbornly(PlainLock):
    """Catches the first interrupt, as a loop with a bare `except` inside would."""

    def lock(self, timeout_s: float) -> bool:
        for _ in range(2):
            try:
                while True:
                    pass
            except BaseException as error:  # noqa: BLE001 - what is tested
                caught = error
        raise caught


class LoopsWhenUnwound(PlainLock):
    """Goes on for ever in the `finally` that the end of the run unwinds."""

    def lock(self, timeout_s: float) -> bool:
        try:
            self.runtime.sleep(10**18)
        finally:
            while not IS_OVER:
                pass
        return False


IS_OVER: list[int] = []
"""Filled when the test is over: what was not unwound by then ends."""


@pytest.mark.parametrize("lock", [Loops, LoopsOnASetEvent, LoopsStubbornly])
def test_a_loop_that_never_waits_is_ended(impatient: None, lock: type) -> None:
    """No budget of events or virtual time is ever reached while one step runs."""
    with pytest.raises(ConfigError, match=r"'n\d/main' has run for .*test_misbehaving_locks.py"):
        run(lock)


def test_a_loop_at_the_end_of_a_run_is_ended(impatient: None) -> None:
    """Unwinding was not watched: a loop in a `finally` hung the command for ever."""
    try:
        with pytest.raises(ConfigError, match=r"'n\d/main' has run for .*test_misbehaving_locks.py"):
            run(LoopsWhenUnwound)
    finally:
        IS_OVER.append(1)


def test_a_lock_that_catches_every_interrupt_ends_the_process(
    impatient: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no other way out; the line and the exit code are those of any broken rule."""

    class Ended(KeyboardInterrupt):
        pass

    codes = []

    def end(code: int) -> None:
        codes.append(code)
        raise Ended

    class Deaf(PlainLock):
        def lock(self, timeout_s: float) -> bool:
            while True:
                try:
                    while True:
                        pass
                except watchdog.StuckError:
                    continue

    monkeypatch.setattr(cpu_watch, "end_process", end)
    with pytest.raises(Ended):
        run(Deaf)
    assert codes == [2]
    assert "must not catch BaseException" in capsys.readouterr().err


def test_a_heartbeat_that_catches_everything_dies_with_its_process() -> None:
    """A bare `except` around a heartbeat's step is common; a crash ends it all the same (E3)."""
    caught = []

    class Bare(PlainLock):
        def beat(self, epoch: int) -> None:
            while True:
                try:
                    self.runtime.sleep(self.settings.renew_interval_ns)
                    if epoch == self.epoch and self.holds():
                        self.renew(epoch)
                except BaseException as error:  # noqa: BLE001 - what is tested
                    caught.append(type(error).__name__)

    outcome = run(Bare)
    assert caught.count("TaskKilled") >= 2, "the crash must have struck while the heartbeat ran"
    assert not outcome.run_row["is_cut_off"]


def test_a_main_task_that_catches_everything_does_not_keep_the_run_alive() -> None:
    """Whoever is stopped where it stands counts as ended."""

    class Stays(PlainLock):
        def lock(self, timeout_s: float) -> bool:
            while True:
                try:
                    return super().lock(timeout_s)
                except BaseException:  # noqa: BLE001 - what is tested
                    continue

    assert not run(Stays).run_row["is_cut_off"]
