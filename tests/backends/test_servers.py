"""Starting and stopping servers: readiness, loopback, logs, and never leaving one behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from lockref.clouds.uri import open_store
from lockref.errors import BackendUnavailable, CapabilityMissing, ConfigError
from lockref.runtime import NS_PER_S
from lockref.stores.address import StoreAddress
from lockref.words import Outcome
from scenarios.backends import BACKENDS, backend_status, resolve_backend, start_backend
from scenarios.backends.pins import Backend, Image, Launch, Native
from scenarios.backends.readiness import await_ready
from scenarios.backends.server_process import ServerProcess, free_port
from tests.backends.conftest import PATIENCE_S, SERVERS, on


def _python(code: str, *arguments: str) -> Launch:
    return Launch(argv=(sys.executable, "-c", code, *arguments))


_LISTEN = """
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listening", flush=True)
while True:
    server.accept()[0].close()
"""


def _await_line(path: Path, process: ServerProcess) -> None:
    """Wait until a process has written its first line. Bounded by its end or by pytest's own time-out."""
    pause = threading.Event()
    while not path.read_text():
        assert not process.has_ended
        pause.wait(0.01)


@pytest.fixture
def started(tmp_path):
    """Start a command as a server; stop whatever was started."""
    servers = []

    def start(launch: Launch) -> ServerProcess:
        server = ServerProcess("fake", launch, log_path=tmp_path / f"{len(servers)}.log", folder=tmp_path)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.mark.parametrize("address", [on(name) for name in SERVERS], indirect=True)
def test_a_started_server_answers_in_its_pinned_version_on_loopback_alone(address, backend_name, request):
    """What is running is what the table says, and nobody else can reach it."""
    running = request.getfixturevalue(backend_name.replace("-", "_"))
    backend = BACKENDS[backend_name]
    assert running.version in [native.version for native in backend.natives]
    assert 0 < running.ready_s <= PATIENCE_S
    process = psutil.Process(running.pid)
    tree = [process, *process.children(recursive=True)]
    addresses = {c.laddr.ip for each in tree for c in each.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    assert addresses
    assert addresses <= {"127.0.0.1", "::1"}
    assert running.log_path.exists()
    status = backend_status(backend_name)
    assert (status.available, status.is_installed, status.version) == (True, True, running.version)


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_a_server_ends_with_its_block_and_takes_its_files_along():
    """Nothing is left: no process, no folder; a named log folder keeps the log."""
    with start_backend("ministack", timeout_s=PATIENCE_S) as running:
        assert psutil.pid_exists(running.pid)
        folder = running.log_path.parent
    assert not psutil.pid_exists(running.pid)
    assert not folder.exists()


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_a_log_in_a_named_folder_stays(tmp_path):
    """CI keeps the logs of servers as artifacts."""
    with start_backend("ministack", log_folder=tmp_path / "logs", timeout_s=PATIENCE_S) as running:
        pass
    assert running.log_path == tmp_path / "logs" / "ministack.log"
    assert running.log_path.stat().st_size > 0


_PARENT = """
import sys
from scenarios.backends import start_backend
with start_backend("ministack", timeout_s=90) as running:
    print(running.pid, running.log_path.parent, flush=True)
    sys.stdin.read()
"""


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_a_server_does_not_outlive_a_parent_that_is_killed(ministack):
    """Even `kill -9` of the test run leaves no server and no folder behind."""
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        pid, folder = parent.stdout.readline().decode().split()
        server = psutil.Process(int(pid))
        guard = server.parent()
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert psutil.wait_procs([server, guard], timeout=20)[1] == []
    assert not Path(folder).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
def test_a_server_does_not_outlive_its_guard(started, tmp_path):
    """Whoever kills the guard kills the server: nothing is left that nobody watches."""
    server = started(_python("import signal; print('up', flush=True); signal.pause()"))
    _await_line(tmp_path / "0.log", server)
    process = psutil.Process(server.pid)
    server._guard.kill()
    assert psutil.wait_procs([process], timeout=20)[1] == []


def test_a_server_survives_the_thread_that_started_it(started, tmp_path):
    """Parent-death signals follow threads, not processes; ours must not."""
    servers = []
    port = str(free_port())
    starter = threading.Thread(target=lambda: servers.append(started(_python(_LISTEN, "127.0.0.1", port))))
    starter.start()
    starter.join()
    _await_line(tmp_path / "0.log", servers[0])
    assert not servers[0].has_ended
    assert servers[0].owns_port(int(port))


def test_stopping_kills_the_descendants_too(started, tmp_path):
    """A server's own children, also one that left the process group."""
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'], start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "child.wait()"
    )
    server = started(_python(code))
    _await_line(tmp_path / "0.log", server)
    child = psutil.Process(int((tmp_path / "0.log").read_text()))
    server.stop()
    assert server.has_ended
    assert psutil.wait_procs([child], timeout=10)[1] == []
    server.stop()


@pytest.mark.parametrize("public", ["0.0.0.0", "::", "10.1.2.3", "fe80::1%eth0"])
def test_a_server_that_listens_beyond_this_machine_is_stopped(started, tmp_path, monkeypatch, public):
    """Flags change between versions: what counts is where the sockets are."""
    server = started(_python(_LISTEN, "127.0.0.1", str(free_port())))
    _await_line(tmp_path / "0.log", server)
    server.require_loopback()
    # Claimed, not done: the suite itself opens nothing to the network.
    monkeypatch.setattr(server, "listeners", lambda: [("127.0.0.1", 80), ("::1", 80), (public, 81)])
    with pytest.raises(BackendUnavailable, match=f"listens on {re.escape(public)}:81, not"):
        server.require_loopback()
    assert server.has_ended


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_no_server_is_handed_out_that_listens_beyond_this_machine(monkeypatch):
    """The check is part of every start."""
    real = ServerProcess.listeners
    monkeypatch.setattr(ServerProcess, "listeners", lambda server: [*real(server), ("0.0.0.0", 81)])
    with (
        pytest.raises(BackendUnavailable, match="not on this machine alone"),
        start_backend("ministack", timeout_s=PATIENCE_S),
    ):
        pass


def test_a_server_that_dies_while_starting_shows_its_last_lines(started):
    """The message carries the last twenty lines of the log, and comes at once, not after the whole wait."""
    server = started(_python("for number in range(30): print('line', number)\nraise SystemExit(3)"))
    address = StoreAddress(scheme="s3", container="bucket", endpoint=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(BackendUnavailable) as caught:
        await_ready(server, address, timeout_s=60)
    assert re.findall(r"line \d+", str(caught.value)) == [f"line {number}" for number in range(10, 30)]


def test_a_server_that_never_gets_ready_is_given_up_with_its_log(started, tmp_path):
    """A hard bound on the wait; the address, the seconds and the log are in the message."""
    port = free_port()
    server = started(_python(_LISTEN, "127.0.0.1", str(port)))
    _await_line(tmp_path / "0.log", server)
    address = StoreAddress(scheme="gs", container="bucket", endpoint=f"http://127.0.0.1:{port}")
    with pytest.raises(BackendUnavailable) as caught:
        await_ready(server, address, timeout_s=0.1)
    assert all(part in str(caught.value) for part in (f"127.0.0.1:{port}", "0.1 s", "listening"))


_IGNORES_CONDITIONS = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("ETag", '"always"')
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_server_that_ignores_conditions_is_a_verdict_not_a_wait(started):
    """M16: a second success means that the capability is missing, however long one waits."""
    port = free_port()
    server = started(_python(_IGNORES_CONDITIONS, str(port)))
    address = StoreAddress(scheme="s3", container="bucket", endpoint=f"http://127.0.0.1:{port}")
    with pytest.raises(CapabilityMissing, match="ignores preconditions"):
        await_ready(server, address, timeout_s=60)


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_a_port_taken_by_somebody_else_is_given_up_for_another(monkeypatch, ministack):
    """Between finding a free port and using it another process may be quicker, even another server of ours."""
    taken = int(ministack.uri.rpartition(":")[2])
    ports = iter([taken, free_port()])
    monkeypatch.setattr("scenarios.backends.start.free_port", lambda: next(ports))
    with start_backend("ministack", timeout_s=PATIENCE_S) as running:
        assert running.uri != ministack.uri
        assert running.pid != ministack.pid
    assert next(ports, None) is None


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_a_name_and_a_uri_resolve_to_a_store_that_answers(ministack):
    """A name starts the server; a URI is used as it is and left running."""
    with resolve_backend(ministack.uri) as running:
        assert (running.uri, running.pid) == (ministack.uri, None)
    with resolve_backend("ministack") as running:
        store = open_store(running.uri, request_timeout_ns=20 * NS_PER_S)
        assert store.put_if_absent("k", b"x").outcome is Outcome.APPLIED
        store.close()
    assert psutil.pid_exists(ministack.pid)


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_a_uri_whose_bucket_does_not_exist_is_unavailable(ministack):
    """The bucket of somebody's store is not made for them."""
    with pytest.raises(BackendUnavailable, match="bucket"), resolve_backend(ministack.uri.replace("lockref", "other")):
        pass


def test_a_uri_where_nothing_listens_is_unavailable_with_one_line():
    """Exit code 5, with address and wait, within seconds."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        uri = f"s3://bucket?endpoint=http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(BackendUnavailable) as caught, resolve_backend(uri):
            pass
    message = str(caught.value)
    assert "\n" not in message
    assert all(part in message for part in ("127.0.0.1", "ms", "no connection"))
    assert caught.value.exit_code == 5


def test_an_unknown_name_is_told_the_nearest_one():
    """A ConfigError that lists what there is."""
    for wrong in (lambda: start_backend("ministak"), lambda: resolve_backend("ministak")):
        with pytest.raises(ConfigError, match="Did you mean 'ministack'"), wrong():
            pass
    with pytest.raises(ConfigError, match="native, docker"), start_backend("ministack", via="podman"):
        pass


def test_a_backend_without_a_build_for_this_machine_says_so(monkeypatch):
    """A listing shows the reason, and starting raises it."""
    native = Native(version="1", requirements=("x==1",), python_min=(3, 10), launch=lambda *_: Launch(argv=()))
    odd = Backend(
        name="odd",
        description="",
        scheme="s3",
        natives=(native,),
        image=Image(version="1", reference="odd:1", port=1),
        caution="",
        platforms=("vax-vms",),
    )
    monkeypatch.setitem(BACKENDS, "odd", odd)
    status = backend_status("odd")
    assert (status.available, "vax-vms" in status.reason) == (False, True)
    with pytest.raises(BackendUnavailable, match="vax-vms"), start_backend("odd"):
        pass


@pytest.mark.parametrize(("path", "words"), [("", "Node 20 or later with npm"), ("old", "Node 20 or later with npm")])
def test_without_node_dynalite_is_unavailable_with_a_reason(tmp_path, monkeypatch, path, words):
    """No Node, or an older one: the reason names what is needed, and nothing is installed."""
    if path:
        for name in ("node", "npm"):
            program = tmp_path / name
            program.write_text("#!/bin/sh\necho 18.19.1\n")
            program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    status = backend_status("dynalite")
    assert (status.available, words in status.reason) == (False, True)
    with pytest.raises(BackendUnavailable, match=words), start_backend("dynalite"):
        pass


def test_a_server_sees_nothing_of_our_python(started, tmp_path, monkeypatch):
    """PYTHONPATH and the like would lead a server's interpreter into our packages."""
    monkeypatch.setenv("PYTHONPATH", "/ours")
    server = started(_python("import os; print('[%s]' % os.environ.get('PYTHONPATH', ''), flush=True); input()"))
    while not server.has_ended:
        os.waitid(os.P_PID, server._guard.pid, os.WEXITED | os.WNOWAIT)
    assert (tmp_path / "0.log").read_text().startswith("[]")
