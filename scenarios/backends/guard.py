"""A process between us and a server, so that the server never outlives us.

Run as a script, with nothing but the standard library. It leads a process
group of its own, starts the server in it and waits for one of two ends: the
server's, or that of its standard input, a pipe whose other end our process
holds. A byte on the pipe is our order to stop. However our process ends,
`kill -9` included, the pipe closes. Either way the guard kills the server and
the whole group, itself included; after the death of our process it also clears
away the server's folder, which nobody else will.

Not left to PR_SET_PDEATHSIG alone: that signal comes when the *thread* that
started a process ends, and test runners start servers from threads. In here,
with a single thread, it is right, and covers the death of the guard itself.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1
_LOOK_EVERY_S = 0.2
STOP = b"."


def _die_with_guard() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(folder: str, argv: list[str]) -> int:
    """Run `argv` until it ends, our parent says so, or our parent ends."""
    server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, preexec_fn=_die_with_guard)
    while server.poll() is None:
        readable, _, _ = select.select([0], [], [], _LOOK_EVERY_S)
        if readable:
            order = os.read(0, 1)
            # The server first and by itself, so that it is reaped here: not every init does that.
            server.kill()
            server.wait()
            if not order:
                shutil.rmtree(folder, ignore_errors=True)
    # Whatever the server started and left behind is in our group; so are we.
    os.killpg(0, signal.SIGKILL)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
