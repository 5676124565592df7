"""A Ctrl-C at every call in the lock's own source: nothing is left that a cleanup, or at last `close`, does not undo.

`tests/sim/test_interrupted_lock.py` strikes every request and every wait. A
signal does not wait for those: CPython delivers it when a function begins and
when a call has returned. So a program (lock, work, unlock) is run once for
each such instant in the lock's source and in the machine below it, and struck
there. A mutex counts as one step: CPython takes and gives back a lock of its
own without looking for signals.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lockref.errors import LockError
from lockref.locks import rules
from lockref.storage import lockfile
from tests import hardened_rig
from tests.hardened_rig import Rig, error_503, lose_reply

_LOCK = tuple(str(Path(module.__file__).parent) for module in (rules, lockfile))
_RIG = hardened_rig.__file__


class Interrupter:
    """Raises KeyboardInterrupt at the n-th begin or end of a function; without a number it only counts."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.instants = 0
        self.where = ""

    def __call__(self, frame: Any, event: str, _argument: object) -> Any:
        code = frame.f_code
        is_mutex = code.co_qualname.startswith("ManualMutex.")
        if is_mutex or not (code.co_filename.startswith(_LOCK) or code.co_filename == _RIG):
            return None
        if event in ("call", "return") and self.where == "":
            self.instants += 1
            if self.instants - 1 == self.at:
                caller = frame.f_back
                line = caller.f_lineno if caller is not None else 0
                self.where = f"{event} {code.co_qualname} from {caller.f_code.co_qualname if caller else ''}:{line}"
                raise KeyboardInterrupt
        return self


def run(program: Callable[[Rig], None], at: int | None, *, script: Any = ()) -> tuple[Rig, Interrupter]:
    rig = Rig()
    rig.store.script = list(script)
    interrupter = Interrupter(at)
    before = sys.gettrace()
    sys.settrace(interrupter)
    try:
        with suppress(KeyboardInterrupt, LockError):
            program(rig)
    finally:
        sys.settrace(before)
    rig.store.script = []
    return rig, interrupter


def cycle(rig: Rig) -> None:
    if rig.lock.lock(1):
        rig.lock.unlock()


def cycles(rig: Rig) -> None:
    cycle(rig)
    cycle(rig)


def nested(rig: Rig) -> None:
    with rig.lock, rig.lock:
        pass


def closes(rig: Rig) -> None:
    rig.lock.lock(1)
    rig.lock.close()


PROGRAMS = {
    "cycle": (cycle, ()),
    "cycles": (cycles, ()),
    "nested": (nested, ()),
    "close": (closes, ()),
    "lost answers": (cycle, (lose_reply, lose_reply, error_503, lose_reply, lose_reply)),
}

THE_GRANT_STANDS = (
    "return GatedClient.acquire",
    "return LeaseLock.lock",
    "return LeaseLock.__enter__",
    "call LeaseLock.unlock",
    "call LeaseLock.__exit__",
    "call GatedClient.leave",
    "call LeaseLock.close",
)
"""The lock has just said yes, or has not yet been told to unlock. The program holds it, and `close` gives it back."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_ctrl_c_at_any_call_leaves_nothing_behind(name):
    """H6, L6: after the program nobody believes; the background undoes what is left; `close` undoes the rest."""
    program, script = PROGRAMS[name]
    instants = run(program, None, script=script)[1].instants
    assert instants > 100
    left = []
    for at in range(instants):
        rig, interrupter = run(program, at, script=script)
        is_in_close = re.search(r" from (LeaseLock|GatedClient)\.close", interrupter.where)
        is_let_off = interrupter.where.startswith(THE_GRANT_STANDS) or is_in_close
        if is_let_off:
            rig.lock.close()
        rig.runtime.run("cleanup")
        if rig.lock.holds() or not rig.another().try_lock():
            left.append(interrupter.where)
    assert not left
