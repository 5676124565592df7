"""Real servers, each started once per run, and a store on any backend by its name.

Tests of one server carry its xdist group, so that one worker has them all and
the server starts once.
"""

from __future__ import annotations

import contextlib
import itertools

import pytest

from lockref.clouds.uri import open_store
from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_S
from scenarios.backends import BACKENDS, RunningBackend, backend_status, start_backend, table_uri
from scenarios.backends.environments import choose_native, ensure_environment
from scenarios.backends.zookeeper import started_zookeeper, unavailable
from tests.backends.kazoo_client import kazoo_on

PATIENCE_S = 90  # A machine that runs the whole suite starts servers several times slower than an idle one.
BUCKETS = ("ministack", "moto", "localstack", "fake-gcs-server", "azurite")
SERVERS = (*BUCKETS, "dynalite")
TABLES = "ministack tables"
THROUGH_OBSTORE = " through obstore"
_numbers = itertools.count()


def on(name: str, *more: pytest.MarkDecorator):
    """The parameter for tests on one backend, with its marks, and more of them."""
    server = name.removesuffix(" tables").removesuffix(THROUGH_OBSTORE)
    marks = [pytest.mark.realbackend, pytest.mark.xdist_group(server)] if server in SERVERS else []
    return pytest.param(name, marks=[*marks, *more], id=name)


def _started(name: str):
    status = backend_status(name)
    if not status.available:
        pytest.skip(f"{name}: {status.reason}")
    with start_backend(name, timeout_s=PATIENCE_S) as running:
        yield running


@pytest.fixture(scope="session")
def ministack():
    yield from _started("ministack")


@pytest.fixture(scope="session")
def moto():
    yield from _started("moto")


@pytest.fixture(scope="session")
def localstack():
    yield from _started("localstack")


@pytest.fixture(scope="session")
def fake_gcs_server():
    yield from _started("fake-gcs-server")


def _started_by_node(name: str):
    """Nobody has to have Node, nor a registry of npm's."""
    try:
        backend = BACKENDS[name]
        ensure_environment(backend, *choose_native(backend))
    except BackendUnavailable as error:
        pytest.skip(str(error))
    yield from _started(name)


@pytest.fixture(scope="session")
def azurite():
    yield from _started_by_node("azurite")


@pytest.fixture(scope="session")
def dynalite():
    yield from _started_by_node("dynalite")


@pytest.fixture
def address(request, tmp_path):
    """The URI of an empty place on the backend that the test names, and the options it takes."""
    name = request.param
    if name == "memory":
        return "memory:"
    if name == "file":
        return f"file://{tmp_path}/store"
    if name in (TABLES, "dynalite"):
        server = request.getfixturevalue(name.removesuffix(" tables"))
        return table_uri(server, table=f"objects-{next(_numbers)}")
    server = name.removesuffix(THROUGH_OBSTORE)
    running: RunningBackend = request.getfixturevalue(server.replace("-", "_"))
    bucket, _, options = running.uri.partition("?")
    client = "" if name == server else "&client=obstore"
    return f"{bucket}/test-{next(_numbers)}?{options}{client}"


@pytest.fixture
def store(address):
    """A store on the backend that the test names, with nothing in it."""
    with contextlib.closing(open_store(address, request_timeout_ns=20 * NS_PER_S, pool_size=16)) as opened:
        yield opened


@pytest.fixture
def backend_name(request):
    """The name of the backend under `address`."""
    return request.node.callspec.params["address"]


@pytest.fixture(scope="session")
def zookeeper():
    if reason := unavailable():
        pytest.skip(reason)
    with started_zookeeper() as running:
        yield running


@pytest.fixture
def operator(zookeeper):
    """A session of kazoo's client on that server."""
    with kazoo_on(zookeeper.hosts) as client:
        yield client
