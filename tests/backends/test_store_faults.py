"""Lost replies, resets and silence: what the cloud stores make of them, and what really happened."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from lockref.clouds.uri import open_store, parse_store_uri
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.words import Outcome
from scenarios.injection.faultproxy import FaultProxy
from sim.faults.answers import Error
from sim.faults.network import Delay, LoseReply
from tests.backends.conftest import on
from tests.unit.lockref.clouds.test_stalled_bodies import ACCOUNT_IN

SHORT_NS = 400 * NS_PER_MS
LONG_NS = 20 * NS_PER_S
RESET_BEFORE = Error(id="reset before", status="reset", cut="c1")
RESET_REPLY = Error(id="commit then reset", status="reset", cut="c2")
HANG_REPLY = LoseReply(id="commit then hang")
SLOW = Delay(id="slow", by_ns=20 * NS_PER_MS, direction="reply")
clouds = pytest.mark.parametrize("address", [on("ministack"), on("fake-gcs-server"), on("azurite")], indirect=True)


@pytest.fixture
def proxy(address):
    """A proxy before the server that the test names."""
    server = urlsplit(parse_store_uri(address).endpoint)
    with FaultProxy((server.hostname, server.port)) as proxy:
        yield proxy


def via(proxy, address):
    """The URI of the same store, reached through the proxy."""
    account = urlsplit(parse_store_uri(address).endpoint).path
    return f"{address.partition('?')[0]}?endpoint={proxy.endpoint}{account}"


@pytest.fixture
def through(address, proxy):
    """A store whose requests pass the proxy, and that waits as long as a busy machine may need."""
    uri = via(proxy, address)
    with contextlib.closing(open_store(uri, request_timeout_ns=LONG_NS)) as opened:
        yield opened


@pytest.fixture
def hasty(address, proxy):
    """The same for requests that nobody answers: each of them costs a time-out."""
    uri = via(proxy, address)
    with contextlib.closing(open_store(uri, request_timeout_ns=SHORT_NS)) as opened:
        yield opened


def read_when_landed(store, body):
    """The body of `k` once it is `body`: on a busy machine a write lands after its client has given up."""
    pause = threading.Event()
    while (seen := store.read("k").body) != body:
        pause.wait(0.01)
    return seen


@clouds
@pytest.mark.parametrize("fault", [RESET_REPLY, HANG_REPLY])
def test_a_create_whose_reply_is_lost_is_ambiguous_and_landed(store, through, hasty, proxy, fault):
    """A1, C18: the client cannot know; the object is there; sent again by hand, it meets itself (A2)."""
    proxy.next(fault)
    reply = (hasty if fault is HANG_REPLY else through).put_if_absent("k", b"mine")
    assert (reply.outcome, reply.status) == (Outcome.AMBIGUOUS, None)
    assert "may have taken effect" in reply.reason
    assert read_when_landed(store, b"mine") == b"mine"
    assert proxy.struck == [fault]
    assert through.put_if_absent("k", b"mine").outcome is Outcome.PRECONDITION_FAILED


@clouds
@pytest.mark.parametrize("fault", [RESET_REPLY, HANG_REPLY])
def test_a_replacement_whose_reply_is_lost_is_ambiguous_and_landed(store, through, hasty, proxy, fault):
    """A1: the same for a renewal; its old version is gone, which only a read can tell."""
    old = store.put_if_absent("k", b"old").version
    proxy.next(fault)
    losing = hasty if fault is HANG_REPLY else through
    assert losing.put_if_version("k", b"new", old).outcome is Outcome.AMBIGUOUS
    assert read_when_landed(store, b"new") == b"new"
    assert through.put_if_version("k", b"new", old).outcome is Outcome.PRECONDITION_FAILED


@clouds
def test_a_reset_before_the_server_is_ambiguous_and_changed_nothing(store, through, proxy):
    """The client sees the same as after a landed write: that is why both are AMBIGUOUS."""
    proxy.next(RESET_BEFORE)
    assert through.put_if_absent("k", b"mine").outcome is Outcome.AMBIGUOUS
    assert proxy.struck == [RESET_BEFORE]
    assert store.read("k").is_absent


@clouds
def test_a_read_whose_reply_is_lost_is_ambiguous_not_absent(store, through, hasty, proxy):
    """An unanswered read must not look like a free lock."""
    store.put("k", b"held")
    for fault in (RESET_REPLY, HANG_REPLY, RESET_BEFORE):
        proxy.next(fault)
        reply = (hasty if fault is HANG_REPLY else through).read("k")
        assert (reply.outcome, reply.is_absent) == (Outcome.AMBIGUOUS, False)


@clouds
def test_a_delete_whose_reply_is_lost_is_ambiguous_and_landed(store, through, proxy):
    """A1 holds for removals too."""
    version = store.put("k", b"x").version
    proxy.next(RESET_REPLY)
    assert through.delete("k", version).outcome is Outcome.AMBIGUOUS
    assert store.read("k").is_absent


@clouds
def test_a_slow_network_changes_no_outcome(through, proxy):
    """Delay below the time-out is only latency."""
    proxy.next(SLOW)
    assert through.put_if_absent("k", b"x").outcome is Outcome.APPLIED
    assert proxy.struck == [SLOW]


@clouds
def test_the_connection_after_a_fault_works(address, proxy):
    """A pool must not hand out a connection that a fault has left half dead."""
    uri = via(proxy, address)
    # One request waits for this time-out in vain; a busy machine must be able to answer the others within it.
    with contextlib.closing(open_store(uri, request_timeout_ns=2 * NS_PER_S)) as through:
        for fault in (HANG_REPLY, RESET_REPLY, RESET_BEFORE):
            proxy.next(fault)
            through.put("k", b"x")
            assert through.put("k", b"y").outcome is Outcome.APPLIED


@pytest.mark.parametrize("scheme", ACCOUNT_IN)
def test_a_server_that_never_answers_is_ambiguous_within_the_timeout(scheme):
    """A hung server costs one time-out per request, and its silence is no answer."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with contextlib.closing(
            open_store(f"{scheme}://bucket?endpoint={endpoint}{ACCOUNT_IN[scheme]}", request_timeout_ns=SHORT_NS)
        ) as store:
            for call in (lambda: store.put_if_absent("k", b"x"), lambda: store.read("k"), lambda: store.delete("k")):
                began_ns = time.monotonic_ns()
                reply = call()
                took_ns = time.monotonic_ns() - began_ns
                assert (reply.outcome, reply.status) == (Outcome.AMBIGUOUS, None)
                # The upper bound is loose for a busy machine; without a time-out the call would never end.
                assert SHORT_NS // 2 < took_ns < 10 * NS_PER_S


@pytest.mark.parametrize("scheme", ACCOUNT_IN)
def test_a_refused_connection_says_that_nothing_was_sent(scheme):
    """Ambiguous like any network error, but its reason tells the reader more."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with contextlib.closing(
            open_store(f"{scheme}://bucket?endpoint={endpoint}{ACCOUNT_IN[scheme]}", request_timeout_ns=SHORT_NS)
        ) as store:
            reply = store.put_if_absent("k", b"x")
    assert (reply.outcome, reply.status) == (Outcome.AMBIGUOUS, None)
    assert "nothing was sent" in reply.reason
