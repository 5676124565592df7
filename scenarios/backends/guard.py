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

import functools
import os
import runpy
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

PARENT_DEATH = Path(__file__).parents[1] / "worlds" / "processes" / "parent_death.py"
"""By its file: this script has none of the project's folders on its path, and the package would load the whole lab."""

_LOOK_EVERY_S = 0.2
STOP = b"."
GUARD = Path(__file__)
"""This script. Our process asks for its path and its order alone."""


def main(folder: str, argv: list[str]) -> int:
    """Run `argv` until it ends, our parent says so, or our parent ends."""
    die_with_parent = runpy.run_path(str(PARENT_DEATH))["die_with_parent"]
    server = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, preexec_fn=functools.partial(die_with_parent, os.getpid())
    )
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
