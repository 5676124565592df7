"""A process that lets a stopped one go on.

Run as a script, with nothing but the standard library, by a process that is about to stop itself (SIGSTOP). It says
that it is ready, waits, and sends SIGCONT until its standard input ends. The stopped process closes this input as soon
as it goes on, and the system closes it if that process dies. So no process stays stopped. If a third process does the
stopping, the third process holds the input: when it dies, the waker sends a last SIGCONT at once.
"""

from __future__ import annotations

import os
import select
import signal
import sys

_AGAIN_S = 0.05


def main(pid: int, pause_s: float) -> None:
    # The byte on standard output is a barrier. The stopping process may raise SIGSTOP only after it has read the byte:
    # a process that stopped first and had no waker yet would stay stopped for ever.
    os.write(1, b".")
    wait_s = pause_s
    try:
        # Repeated until the input ends, not sent once. SIGSTOP and SIGCONT do not queue: a SIGCONT that comes just
        # before the process stops is lost. Rejected: to look for the state T in /proc, which only Linux has, and which
        # changes at once.
        while not select.select([0], [], [], wait_s)[0]:
            os.kill(pid, signal.SIGCONT)
            # A doubt: once the process is reaped its number may be another one's. The input ends with the process, so
            # that could happen only within one `_AGAIN_S`; a SIGCONT does nothing to a process that is not stopped.
            wait_s = _AGAIN_S
        os.kill(pid, signal.SIGCONT)
    # The process has ended; nothing is left to wake.
    except ProcessLookupError:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
