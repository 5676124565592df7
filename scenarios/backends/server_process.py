"""One started server: its process group, its log, its sockets, its end.

Nothing here knows what the server is. It is started under `guard.py`, its
output goes to a file, and after its start the listening sockets of the whole
process tree are looked at: a test server that listens beyond this machine is
stopped, whatever its flags promise.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import ipaddress
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lockref.errors import BackendUnavailable
from scenarios.backends.guard import GUARD, STOP
from scenarios.backends.pins import LOOPBACK, Launch

if TYPE_CHECKING:
    import psutil

    from lockref.stores.address import StoreAddress

LOG_LINES: Final = 20
_STOP_TIMEOUT_S: Final = 2


def free_port() -> int:
    """A TCP port that nobody uses right now. Somebody else may take it before the server does: see `owns_port`."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """A running server and its descendants.

    folder: where it runs; removed if our process dies without stopping it.
    Errors: the constructor raises BackendUnavailable if the program cannot be started.
    """

    def __init__(self, name: str, launch: Launch, *, log_path: Path, folder: Path) -> None:
        self.name = name
        self.log_path = log_path
        with log_path.open("ab") as log:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", str(GUARD), str(folder), *launch.argv],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**_inherited(), **launch.env},
                start_new_session=True,
            )
        # A caller that forgets to stop it, or exits in between, leaves nothing behind.
        atexit.register(self.stop)

    @property
    def has_ended(self) -> bool:
        return self._guard.poll() is not None

    @property
    def pid(self) -> int:
        """The server's own process number; the guard's until the guard has started it."""
        import psutil

        with contextlib.suppress(psutil.NoSuchProcess, IndexError):
            return int(psutil.Process(self._guard.pid).children()[0].pid)
        return self._guard.pid

    def server_pids(self) -> list[int]:
        """The server's process and its descendants', without the guard."""
        return [process.pid for process in self._tree() if process.pid != self._guard.pid]

    def log_tail(self) -> str:
        """The last lines of the log, for a message."""
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:]) or "(its log is empty)"

    def listeners(self) -> list[tuple[str, int]]:
        """Address and port of every listening TCP socket in the process tree."""
        import psutil

        found = []
        for process in self._tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                found += [
                    (str(connection.laddr.ip), int(connection.laddr.port))
                    for connection in process.net_connections(kind="tcp")
                    if connection.status == psutil.CONN_LISTEN
                ]
        return sorted(found)

    def owns_port(self, port: int) -> bool:
        """True if this server listens at its port, and not another program that took the port first."""
        return any(number == port for _, number in self.listeners())

    def require_loopback(self) -> None:
        """Errors: BackendUnavailable, with the server stopped, if it listens beyond this machine."""
        public = [f"{address}:{port}" for address, port in self.listeners() if not is_loopback_address(address)]
        if public:
            self.stop()
            raise BackendUnavailable(
                f"{self.name} was stopped because it listens on {', '.join(public)}, not on this machine alone; "
                "check the flags of this version"
            )

    def stop(self) -> None:
        """Kill the server and its descendants, by number. Idempotent.

        Killed, not asked: a test server holds nothing worth saving.
        """
        import psutil

        atexit.unregister(self.stop)
        stragglers = self._tree()
        assert self._guard.stdin is not None
        if not self._guard.stdin.closed:
            # The guard may have gone already, with its server.
            with contextlib.suppress(BrokenPipeError), self._guard.stdin as pipe:
                pipe.write(STOP)
        try:
            self._guard.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.wait(_STOP_TIMEOUT_S)
        for process in stragglers:
            # psutil compares the start time too, so a number given anew is never hit.
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def _tree(self) -> list[psutil.Process]:
        import psutil

        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self._guard.pid)
            return [root, *root.children(recursive=True)]
        return []


class RestartableServer:
    """A server that can be killed and started again with the folder and the port that it had.

    keeps: the schemes of what it then still has.
    Errors: as `ServerProcess`.
    """

    def __init__(self, name: str, launch: Launch, *, log_path: Path, folder: Path, keeps: tuple[str, ...] = ()) -> None:
        self.name = name
        self._keeps = keeps
        self._start = functools.partial(ServerProcess, name, launch, log_path=log_path, folder=folder)
        self.process = self._start()

    @property
    def pids(self) -> list[int]:
        """The server's process and its descendants'; none while it is gone."""
        return self.process.server_pids()

    def keeps_objects_at(self, address: StoreAddress) -> bool:
        """True if what lies at this address is there after a restart."""
        return address.scheme in self._keeps

    def crash(self) -> None:
        """End the server at once (SIGKILL), with all of its processes."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def restart(self) -> None:
        """Start it again. It is reached a little later, as after any start."""
        self.process.stop()
        self.process = self._start()

    def stop(self) -> None:
        """See `ServerProcess.stop`."""
        self.process.stop()


def _inherited() -> dict[str, str]:
    """Our environment without what would lead a server's Python into ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV_", "VIRTUAL_ENV"))}


def is_loopback_address(address: str) -> bool:
    """True for addresses that only this machine reaches."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    # Java listens on an IPv6 socket that is bound to the IPv4 address, which Python before 3.13 does not see through.
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback
