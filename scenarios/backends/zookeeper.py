"""A real ZooKeeper on this machine: one server, or an ensemble of three, from the jars that PySpark brings.

Nothing is downloaded: PySpark's distribution holds ZooKeeper and what it needs, and Java is the one that runs Spark.
Every server listens on loopback only, keeps its data in a folder that goes with it, and ends with its parent.

Ready is an ensemble whose every server says `rw` to `isro`, and that has taken a write. `ruok` answers before a server
serves, and a server without snappy-java listens and never serves.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lockref.coordination.session import COORDINATION
from lockref.errors import BackendUnavailable
from lockref.java import JavaHome, search_java
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.temporary_folders import owned_folder
from lockref.words import Outcome
from scenarios.backends.pins import LOOPBACK, Launch
from scenarios.backends.readiness import PortTaken
from scenarios.backends.server_process import ServerProcess, free_port

READY_TIMEOUT_S: Final = 60
_PAUSE_S: Final = 0.05
_ANSWER_TIMEOUT_S: Final = 2
_JARS: Final = (
    "zookeeper*.jar", "netty-*.jar", "slf4j-api*.jar", "metrics-core*.jar", "snappy-java*.jar", "log4j-api*.jar",
    "log4j-core*.jar", "log4j-slf4j2-impl*.jar",
)  # fmt: skip
_LOGGING: Final = (
    "appender.console.type=Console\nappender.console.name=console\nappender.console.layout.type=PatternLayout\n"
    "appender.console.layout.pattern=%p %c{1}: %m%n\nrootLogger.level=warn\nrootLogger.appenderRef.a.ref=console\n"
)
"""Warnings and errors to standard output: the last lines of a server that ended say why."""
_PORT_TRIES: Final = 3
TICK_MS: Final = 500
SESSION_MS_MAX: Final = 60_000
FOUR_LETTER_WORDS: Final = "ruok,srvr,stat,mntr,cons,dump,wchs,conf,isro,envi"
"""What a server of ours answers beside its clients' protocol."""


@dataclass(slots=True)
class _Member:
    """One server of an ensemble. number: from 1; it is its `myid`."""

    number: int
    port: int
    folder: Path
    server: ServerProcess | None = None


class ZooKeeperServers:
    """A running ensemble. hosts: what a client connects to. Made by `started_zookeeper`."""

    def __init__(self, members: Sequence[_Member], launches: Sequence[Launch], log_folder: Path, version: str) -> None:
        self._members = members
        self._launches = launches
        self._log_folder = log_folder
        self.version = version

    @property
    def hosts(self) -> str:
        return ",".join(f"{LOOPBACK}:{member.port}" for member in self._members)

    @property
    def uri(self) -> str:
        """For `--backend` and `--zookeeper`."""
        return f"zookeeper://{self.hosts}"

    @property
    def folder(self) -> Path:
        """The folder of the servers' data; it is removed with the servers."""
        return self._members[0].folder.parent

    @property
    def count(self) -> int:
        return len(self._members)

    @property
    def pids(self) -> list[int]:
        """The process ids of the servers that run."""
        return [member.server.pid for member in self._members if member.server is not None]

    def address(self, number: int) -> str:
        """HOST:PORT of one server."""
        return f"{LOOPBACK}:{self._member(number).port}"

    def leader(self) -> int | None:
        """The number of the server that leads or stands alone; None while there is none."""
        for member in self._members:
            if member.server is not None and "Mode: leader" in ask(member.port, "srvr"):
                return member.number
        return self._members[0].number if self.count == 1 else None

    def kill(self, number: int) -> None:
        """End one server at once, as a power cut does; its folder stays for `restart`."""
        member = self._member(number)
        if member.server is not None:
            member.server.stop()
            member.server = None

    def freeze(self, number: int) -> None:
        """Stop one server without ending it (SIGSTOP)."""
        self._signal(number, signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        """Let a frozen server go on."""
        self._signal(number, signal.SIGCONT)

    def restart(self, number: int, *, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Start a killed server again on its port, with its data, and wait until it serves."""
        member = self._member(number)
        assert member.server is None, "a server that runs is not started twice"
        self._start(member)
        self.await_ready(timeout_s=timeout_s)

    def start(self) -> None:
        for member in self._members:
            self._start(member)

    def _start(self, member: _Member) -> None:
        log_path = self._log_folder / f"zookeeper-{member.number}.log"
        member.server = ServerProcess(
            f"zookeeper-{member.number}",
            self._launches[member.number - 1],
            log_path=log_path,
            # The guard removes it if this process dies without stopping its servers.
            folder=member.folder.parent,
        )

    def stop(self) -> None:
        """End every server, frozen ones, too."""
        import psutil

        for member in self._members:
            if member.server is not None:
                with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                    self.thaw(member.number)
                member.server.stop()
                member.server = None

    def _member(self, number: int) -> _Member:
        return self._members[number - 1]

    def _signal(self, number: int, what: signal.Signals) -> None:
        server = self._member(number).server
        assert server is not None, "only a server that runs can be stopped and continued"
        os.kill(server.pid, what)

    def await_ready(self, *, timeout_s: float) -> None:
        """Return once every server serves and a write has landed.

        Errors: BackendUnavailable if one ends or the time does, with its last log lines.
        """
        deadline_s = time.monotonic() + timeout_s
        waiting = [member for member in self._members if member.server is not None]
        while waiting:
            for member in list(waiting):
                assert member.server is not None
                if member.server.has_ended:
                    tail = member.server.log_tail()
                    kind = PortTaken if "already in use" in tail.lower() else BackendUnavailable
                    raise kind(f"{member.server.name} ended while starting; its last lines:\n{tail}")
                if ask(member.port, "isro").strip() == "rw" and member.server.owns_port(member.port):
                    member.server.require_loopback()
                    waiting.remove(member)
            if waiting and time.monotonic() > deadline_s:
                assert waiting[0].server is not None
                raise BackendUnavailable(
                    f"{waiting[0].server.name} was not ready after {timeout_s:g} s; its last lines:\n"
                    f"{waiting[0].server.log_tail()}"
                )
            time.sleep(_PAUSE_S)
        require_write(self.hosts)


def require_write(hosts: str) -> None:
    """Errors: BackendUnavailable where no session opens, or no write lands."""
    from lockref.coordination.zookeeper import ZooKeeperChannel

    with contextlib.closing(COORDINATION.over(ZooKeeperChannel(hosts), 10 * NS_PER_S)) as session:
        session.start(ThreadRuntime(), timeout_ns=10 * NS_PER_S)
        made = session.create("/lockref-ready", is_ephemeral=True)
        if made.outcome is not Outcome.APPLIED:
            raise BackendUnavailable(f"zookeeper at {hosts} does not take a write: {made.reason}")


def ask(port: int, word: str) -> str:
    """The answer to a four-letter word; "" if no server answers."""
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), _ANSWER_TIMEOUT_S) as connection:
        connection.settimeout(_ANSWER_TIMEOUT_S)
        connection.sendall(word.encode())
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer.decode(errors="replace")
    return ""


def jars_version() -> str:
    """The version of the ZooKeeper that would run; "" if none would."""
    try:
        return _class_path()[1]
    except BackendUnavailable:
        return ""


def unavailable() -> str:
    """Why no ZooKeeper can be started here; "" if one can."""
    try:
        _class_path()
        _java()
    except BackendUnavailable as error:
        return str(error)
    return ""


def _java() -> JavaHome:
    found = search_java()
    if found.home is None:
        raise BackendUnavailable(f"zookeeper needs Java: {found.reason}")
    return found.home


def _class_path() -> tuple[str, str]:
    """The jars, and ZooKeeper's version."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise BackendUnavailable("zookeeper is run from the jars of PySpark, and PySpark is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "jars"
    found = {pattern: sorted(folder.glob(pattern)) for pattern in _JARS}
    missing = [pattern for pattern, jars in found.items() if not jars]
    if missing:
        raise BackendUnavailable(f"zookeeper is run from the jars of PySpark; {folder} has no {', '.join(missing)}")
    version = found[_JARS[0]][0].stem.rpartition("-")[2]
    return os.pathsep.join(str(jar) for jars in found.values() for jar in jars), version


def _configuration(member: _Member, quorum: Sequence[str]) -> str:
    settings = {
        "tickTime": TICK_MS,
        "initLimit": 20,
        "syncLimit": 10,
        "dataDir": member.folder / "data",
        "clientPort": member.port,
        "clientPortAddress": LOOPBACK,
        "maxClientCnxns": 0,
        "minSessionTimeout": 2 * TICK_MS,
        "maxSessionTimeout": SESSION_MS_MAX,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": FOUR_LETTER_WORDS,
        **{f"server.{number}": place for number, place in enumerate(quorum, 1)},
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


@contextlib.contextmanager
def started_zookeeper(
    *, servers: int = 1, timeout_s: float = READY_TIMEOUT_S, log_folder: Path | None = None
) -> Iterator[ZooKeeperServers]:
    """Start one server, or an ensemble of three, and stop it on the way out; its data goes with it.

    log_folder: where logs stay; without one they go when the servers go.
    Errors: BackendUnavailable without Java or PySpark's jars, or if a server does not get ready.
    """
    assert servers in (1, 3), "an ensemble has three servers"
    for tries_left in reversed(range(_PORT_TRIES)):
        with owned_folder("zookeeper") as folder:
            running = _prepared(folder, servers, log_folder)
            try:
                try:
                    running.start()
                    running.await_ready(timeout_s=timeout_s)
                except PortTaken:
                    # Somebody was quicker than our servers: other ports.
                    if not tries_left:
                        raise
                    continue
                yield running
                return
            finally:
                running.stop()


def _prepared(folder: Path, servers: int, log_folder: Path | None) -> ZooKeeperServers:
    """Everything that the servers need, on ports that are free now; nothing is started."""
    java = _java()
    class_path, version = _class_path()
    if log_folder is not None:
        log_folder.mkdir(parents=True, exist_ok=True)
    members = [_Member(number, free_port(), folder / str(number)) for number in range(1, servers + 1)]
    quorum = [f"{LOOPBACK}:{free_port()}:{free_port()}" for _ in members] if servers > 1 else []
    main = "quorum.QuorumPeerMain" if quorum else "ZooKeeperServerMain"
    (folder / "log4j2.properties").write_text(_LOGGING)
    launches = []
    for member in members:
        (member.folder / "data").mkdir(parents=True)
        (member.folder / "data" / "myid").write_text(str(member.number))
        (member.folder / "zoo.cfg").write_text(_configuration(member, quorum))
        argv = (
            str(java.executable), "-Xmx256m", "-XX:+UseSerialGC",
            f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", "-cp", class_path,
            f"org.apache.zookeeper.server.{main}", str(member.folder / "zoo.cfg"),
        )  # fmt: skip
        launches.append(Launch(argv=argv))
    return ZooKeeperServers(members, launches, log_folder or folder, version)
