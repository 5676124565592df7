"""Servers in containers: on loopback alone, from the image that is named, and never left behind.

Where an engine answers, the image is made here from the program in the wheel of fake-gcs-server, so no registry of
images is needed. `dockerd` alone is enough for an engine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from requests.exceptions import ConnectionError as NotConnected

from lockref.clouds.uri import open_store
from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_S
from lockref.words import Outcome
from scenarios.backends import BACKENDS, backend_status, docker_engine, start_backend
from scenarios.backends.docker import (
    LABEL,
    ImageMissing,
    RunningContainer,
    _guarded,
    _require_local_engine,
    _require_published,
    engine_address,
    image_is_there,
    image_reference,
)
from scenarios.backends.environments import choose_native, ensure_environment
from scenarios.backends.pins import Launch
from scenarios.backends.server_process import free_port
from tests.backends.conftest import BUCKETS, PATIENCE_S

NAME = "fake-gcs-server"
VARIABLE = "LOCKREF_IMAGE_FAKE_GCS_SERVER"
OWN_IMAGE = "lockref-test/fake-gcs-server:1"


@pytest.fixture
def engine():
    """A client of the engine; every container of ours that a test left is removed."""
    if docker_engine() is None:
        pytest.skip(f"no Docker engine answers at {engine_address()}")
    import docker

    with contextlib.closing(docker.from_env(environment={"DOCKER_HOST": engine_address()})) as client:
        yield client


@pytest.fixture
def own_image(engine, monkeypatch):
    """An image without a registry: one static program, imported."""
    if not image_is_there(OWN_IMAGE):
        status = backend_status(NAME)
        if not status.available:
            pytest.skip(f"{NAME}, of which an image is made: {status.reason}")
        backend = BACKENDS[NAME]
        native, interpreter = choose_native(backend)
        program = native.launch(ensure_environment(backend, native, interpreter), 0, Path()).argv[0]
        files = io.BytesIO()
        with tarfile.open(fileobj=files, mode="w") as archive:
            archive.add(program, "bin/fake-gcs-server")
        made = engine.api.import_image_from_data(
            files.getvalue(),
            repository=OWN_IMAGE.partition(":")[0],
            tag="1",
            changes=['ENTRYPOINT ["/bin/fake-gcs-server"]'],
        )
        assert "error" not in json.loads(made.splitlines()[-1])
    monkeypatch.setenv(VARIABLE, OWN_IMAGE)
    return OWN_IMAGE


def _ours(engine) -> list[str]:
    """The names of the containers of this server that are there, running or not."""
    return [each.name for each in engine.containers.list(all=True, filters={"label": f"{LABEL}={NAME}"})]


@pytest.mark.container
@pytest.mark.xdist_group("containers")
def test_a_named_image_runs_on_loopback_and_is_gone_afterwards(engine, own_image, tmp_path):
    """The version says which image it was; the log stays where it was asked for."""
    with start_backend(NAME, via="docker", timeout_s=PATIENCE_S, log_folder=tmp_path) as running:
        assert running.version.startswith(f"{OWN_IMAGE} (")
        store = open_store(running.uri, request_timeout_ns=20 * NS_PER_S)
        assert store.put_if_absent("k", b"x").outcome is Outcome.APPLIED
        assert store.put_if_absent("k", b"y").outcome is Outcome.PRECONDITION_FAILED
        store.close()
        (name,) = _ours(engine)
        published = engine.containers.get(name).attrs["NetworkSettings"]["Ports"]
        assert [place["HostIp"] for places in published.values() for place in places or []] == ["127.0.0.1"]
    assert _ours(engine) == []
    assert "server started" in (tmp_path / f"{NAME}.log").read_text()


_PARENT = """
import sys
from scenarios.backends import start_backend
with start_backend("fake-gcs-server", via="docker", timeout_s=90) as running:
    print(running.log_path.parent, flush=True)
    sys.stdin.read()
"""


@pytest.mark.container
@pytest.mark.xdist_group("containers")
def test_a_container_does_not_outlive_a_parent_that_is_killed(engine, own_image):
    """`kill -9` of a run leaves neither a container nor a folder."""
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        folder = Path(parent.stdout.readline().decode().strip())
        (name,) = _ours(engine)
        gone = engine.events(decode=True, since=int(time.time()), filters={"container": name, "event": "destroy"})
        parent.kill()
        parent.wait()
        assert next(gone)["Actor"]["Attributes"]["name"] == name
        gone.close()
        assert _ours(engine) == []
        # The pipe is also the guard's standard output: it ends with the guard, which removes the folder last.
        parent.stdout.read()
    assert not folder.exists()


@pytest.mark.container
@pytest.mark.xdist_group("containers")
def test_a_port_that_is_taken_is_given_up_for_another(engine, own_image, monkeypatch):
    """Somebody else may be quicker than the engine. The container that could not start is removed, too."""
    with start_backend(NAME, via="docker", timeout_s=PATIENCE_S) as first:
        taken = int(first.uri.rpartition(":")[2])
        ports = iter([taken, free_port()])
        monkeypatch.setattr("scenarios.backends.docker.free_port", lambda: next(ports))
        with start_backend(NAME, via="docker", timeout_s=PATIENCE_S) as second:
            assert second.uri != first.uri
            assert len(_ours(engine)) == 2
    assert _ours(engine) == []


@pytest.mark.container
@pytest.mark.xdist_group("containers")
def test_a_container_that_dies_while_starting_shows_its_last_lines(engine, own_image, monkeypatch):
    """At once, not after the whole wait; nothing is left."""
    backend = BACKENDS[NAME]
    broken = dataclasses.replace(backend.image, launch=lambda _port: Launch(argv=("-no-such-flag",)))
    monkeypatch.setitem(BACKENDS, NAME, dataclasses.replace(backend, image=broken))
    with (
        pytest.raises(BackendUnavailable, match=r"(?s)ended while starting.*no-such-flag"),
        start_backend(NAME, via="docker", timeout_s=PATIENCE_S),
    ):
        pass
    assert _ours(engine) == []


@pytest.mark.container
@pytest.mark.xdist_group("containers")
def test_an_image_that_cannot_be_had_says_what_to_do(engine, monkeypatch):
    """The name of the image, why it cannot be fetched, and the variable that names another one."""
    monkeypatch.setenv(VARIABLE, "127.0.0.1:9/lockref-test/none:1")
    status = backend_status(NAME, via="docker")
    assert (status.is_installed, "fetches it on first use" in status.reason) == (False, True)
    with pytest.raises(ImageMissing) as caught, start_backend(NAME, via="docker", timeout_s=PATIENCE_S):
        pass
    assert all(part in str(caught.value) for part in ("127.0.0.1:9/lockref-test/none:1", "docker load", VARIABLE))
    assert _ours(engine) == []


@pytest.mark.container
@pytest.mark.xdist_group("containers")
@pytest.mark.parametrize("name", BUCKETS)
def test_the_same_server_runs_as_a_container(engine, name):
    """The pinned image, or the one that the environment names, answers like the native server."""
    try:
        with start_backend(name, via="docker", timeout_s=PATIENCE_S) as running:
            store = open_store(running.uri, request_timeout_ns=20 * NS_PER_S)
            assert store.put_if_absent("k", b"x").outcome is Outcome.APPLIED
            assert store.put_if_absent("k", b"y").outcome is Outcome.PRECONDITION_FAILED
            store.close()
    except ImageMissing as error:
        pytest.skip(str(error))


def test_without_an_image_a_container_is_unavailable_with_a_reason():
    """Nobody publishes one of dynalite that is pinned here: whatever engine answers, the native server is named."""
    assert backend_status("dynalite", via="docker").reason == "no image of it is pinned"
    with pytest.raises(BackendUnavailable, match="run it natively"), start_backend("dynalite", via="docker"):
        pass


def test_without_an_engine_a_container_is_unavailable_with_a_reason(monkeypatch, tmp_path):
    """Nobody answers at the socket: a reason with the address, no traceback, and no open socket of ours."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert docker_engine() is None
    assert backend_status("moto", via="docker").available is False
    with pytest.raises(BackendUnavailable, match=r"no Docker engine answers at unix://.*none\.sock"):
        start_backend("moto", via="docker").__enter__()


def test_the_environment_names_another_image(monkeypatch):
    """A mirror's, or one that was built where no registry is reached."""
    image = BACKENDS[NAME].image
    assert image_reference(NAME, image) == image.reference
    monkeypatch.setenv(VARIABLE, "mirror.example/gcs@sha256:0")
    assert image_reference(NAME, image) == "mirror.example/gcs@sha256:0"


@pytest.mark.parametrize(
    ("ports", "words"),
    [
        ({"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}], "81/tcp": None}, ""),
        ({"80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8080"}]}, "published on 0.0.0.0:8080"),
        ({"80/tcp": [{"HostIp": "::", "HostPort": "8080"}]}, "published on :::8080"),
        ({"80/tcp": None}, "need the engine's bridge network"),
        ({}, "need the engine's bridge network"),
    ],
)
def test_a_container_is_published_on_this_machine_and_nowhere_else(ports, words):
    """An engine's settings may publish elsewhere than asked, or nothing at all."""
    with pytest.raises(BackendUnavailable, match=words) if words else contextlib.nullcontext():
        _require_published("moto", ports, inside=80)


@pytest.mark.parametrize(
    ("address", "is_refused"),
    [
        ("unix:///var/run/docker.sock", False),
        ("tcp://127.0.0.1:2375", False),
        ("tcp://localhost:2375", False),
        ("tcp://docker:2375", True),
        ("ssh://me@10.0.0.7", True),
    ],
)
def test_an_engine_on_another_machine_is_refused(monkeypatch, address, is_refused):
    """Its containers would be on the loopback of that machine."""
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(BackendUnavailable, match="another machine") if is_refused else contextlib.nullcontext():
        _require_local_engine("moto")


class _Unreachable:
    """What testcontainers hands out, once the engine has stopped."""

    def get_wrapped_container(self):
        return self

    def reload(self):
        raise NotConnected("Connection aborted.")

    def logs(self, *, tail):
        raise NotConnected("Connection aborted.")


def test_an_engine_that_stops_is_told_in_one_line():
    """No traceback, and the exit code of an environment that fails."""
    container = RunningContainer(_Unreachable(), port=1, version="1")
    for ask in (lambda: container.has_ended, lambda: container.pid, container.log_tail):
        with pytest.raises(BackendUnavailable, match="does not answer: Connection aborted"):
            ask()


def test_a_run_survives_an_engine_that_stopped(monkeypatch, tmp_path, capfd):
    """What was recorded is judged: the end of a container raises nothing, and says how to remove it later."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with _guarded("lockref-moto-1", log_path=tmp_path / "log", folder=tmp_path):
        pass
    assert "docker rm --force lockref-moto-1" in capfd.readouterr().err
