"""Linux ends a process with its parent, whatever that process is doing: also inside C code that does not return.

The signal comes when the *thread* ends that started the process, so it is right only for what a main thread started, or
a process with a single thread. Other systems have nothing like it: there a thread or a pipe must do (`orphans.py`), and
a process that hangs in C code outlives a parent that is killed.

With nothing but the standard library: scripts that run apart from this project load it by its file, too. Only the
programs that run in the Python of a lock of somebody else (`tests/evidence/delta`) have a line of their own: they know
nothing of where this project lies.
"""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """From now on SIGKILL ends this process when its parent ends. Does nothing where the system has no such thing.

    parent: the number of the parent, where it may have ended already; this process then ends at once.
    """
    if sys.platform != "linux":
        return
    # Imported here: scripts load this file on systems without the call, and need not pay for `ctypes` there.
    import ctypes

    # Prior art: prctl(2), PR_SET_PDEATHSIG, as container runtimes and job schedulers use it. SIGKILL and not SIGTERM,
    # since a process in C code that does not return handles no signal that could be caught.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have ended between the fork and the call above. No signal comes for that, so the number of the
    # parent is asked after the call: in this order one of the two always sees the death.
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
