"""The two daemon tasks behind a grant: one renews, one watches the deadline.

They are two because a renewal may hang in a socket at the very moment when the
lease ends, and the loss must be signalled then (H4, H12). The watchdog starts
with the grant; the renewing task only when the first renewal is due, so that a
short critical section costs a single task.

Nothing here waits for anything but time: `stop` sets a flag and returns (H11,
D9). A tick that is already under way afterwards finds that its grant is no
longer the lock's, and does nothing.
"""

from __future__ import annotations

from typing import Protocol

from lockref.runtime import Event, MonoNs, Runtime


class Beating(Protocol):
    """What a heartbeat needs to know of the grant that it keeps alive."""

    def remaining_ns(self) -> int:
        """Until the holder must have stopped; 0 from then on."""
        ...

    def renew(self) -> MonoNs | None:
        """Try to renew once. The monotonic instant of the next try; None if there is to be none."""
        ...

    def lose(self, reason: str) -> None:
        """Signal that the grant has ended. Does nothing if it has already, or was given back."""
        ...


class Heartbeat:
    """Keeps one grant alive and says when it ended. Used once.

    first_ns: monotonic instant of the first renewal, counted from before the
        granting write was sent (H3).
    check_ns: how long the watchdog sleeps at most; the wall clock may step
        towards the deadline while it does.
    """

    def __init__(
        self, grant: Beating, *, runtime: Runtime, stopped: Event, name: str, first_ns: MonoNs, check_ns: int
    ) -> None:
        self._grant = grant
        self._runtime = runtime
        self._stopped = stopped
        self._name = name
        self._first_ns = first_ns
        self._check_ns = check_ns

    def start(self) -> None:
        """Start the watchdog. Raises RuntimeError if the system has no thread to give (H10)."""
        self._runtime.spawn(self._watch, name=f"{self._name}-watchdog")

    def stop(self) -> None:
        """End both tasks, without waiting for either (H11)."""
        self._stopped.set()

    def _watch(self) -> None:
        is_renewing = False
        try:
            while not self._stopped.is_set():
                left_ns = self._grant.remaining_ns()
                if left_ns == 0:
                    # H4: the deadline alone decides, whatever storage last answered.
                    self._grant.lose("the lease ended before it could be renewed")
                    return
                wait_ns = min(left_ns, self._check_ns)
                if not is_renewing:
                    until_first_ns = self._first_ns - self._runtime.monotonic_ns()
                    if until_first_ns <= 0:
                        self._runtime.spawn(self._renew, name=f"{self._name}-renewal")
                        is_renewing = True
                    else:
                        wait_ns = min(wait_ns, until_first_ns)
                self._stopped.wait(wait_ns)
        except BaseException as error:
            # Also for what is no Exception, such as the end of a greenlet: nobody would tell of the loss otherwise.
            self._grant.lose(f"the watchdog failed: {type(error).__name__}")
            raise

    def _renew(self) -> None:
        try:
            while not self._stopped.is_set():
                next_ns = self._grant.renew()
                if next_ns is None:
                    return
                self._stopped.wait(max(0, next_ns - self._runtime.monotonic_ns()))
        except BaseException as error:
            # H4: nobody renews from here on; say so now, not at the deadline (U15).
            self._grant.lose(f"the heartbeat failed: {type(error).__name__}")
            raise
