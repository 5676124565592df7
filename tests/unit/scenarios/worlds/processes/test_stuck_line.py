"""Where a lock hangs is named at one line, whichever of the two watchers saw it."""

from __future__ import annotations

import json
import sys
from types import FrameType

import lockref.runtime
from scenarios.worlds.processes import beat
from scenarios.worlds.processes.stuck_line import place_of, stuck_line


def test_the_line_is_the_lock_s_own_and_not_the_library_s() -> None:
    """A lock that loops in `json` is told its own line: that is what its author can change."""
    ours, library = lockref.runtime.__file__, json.__file__
    lock = ("/home/somebody/my_lock.py", 7, "MyLock.lock")
    inside = [("<frozen importlib._bootstrap>", 1, "_load"), (library, 2, "dumps"), (ours, 3, "sleep")]
    assert stuck_line([*inside, lock, (ours, 4, "run")]) == "/home/somebody/my_lock.py:7 (MyLock.lock)"
    assert stuck_line(inside) == ""


def test_both_watchers_name_one_line() -> None:
    """The one inside has frames, the one outside the words of faulthandler; a loop in `json` had two names."""
    told: list[tuple[str, str]] = []

    def look(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.endswith("encoder.py") and not told:
            dump, at = ["Current thread 0x00007f0000000000 (most recent call first):"], frame
            while at is not None:
                dump.append(f'  File "{at.f_code.co_filename}", line {at.f_lineno} in {at.f_code.co_name}')
                at = at.f_back
            told.append((place_of(frame), beat._place("\n".join(dump))))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        json.dumps([1, [2]], indent=1)
    finally:
        sys.setprofile(before)
    [(inside, outside)] = told
    assert inside.startswith(f" in {__file__}:")
    assert outside.rpartition(" (")[0] == inside.rpartition(" (")[0]


def test_each_thread_is_told_and_each_line_once() -> None:
    """Of several clients inside a lock, one keeps the others: their lines are told beside each other."""
    dump = (
        'Thread 0x1 (most recent call first):\n  File "/a/lock.py", line 3 in wait\n'
        '  File "/a/lock.py", line 9 in lock\n'
        f'\nThread 0x2 (most recent call first):\n  File "{json.__file__}", line 1 in dumps\n'
        f'\nThread 0x3 (most recent call first):\n  File "{json.__file__}", line 1 in dumps\n'
        '  File "/a, line 8 in/lock.py", line 5 in hold\n\nThread 0x4:\n  File "/a/lock.py", line 3 in wait\n'
    )
    assert beat._place(dump) == " in one of /a/lock.py:3 (wait), /a, line 8 in/lock.py:5 (hold)"
