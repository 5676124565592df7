"""One suite for every store: what the port promises, asked of memory, a folder and real servers.

What a server gets wrong is written down here as what it does, not skipped: the
day it is repaired, its test fails and its entry goes.
"""

from __future__ import annotations

import gc
import re
import threading
import time
import warnings
from unittest.mock import Mock
from urllib.parse import urlsplit

import psutil
import pytest

from lockref.clouds.uri import open_store, parse_store_uri
from lockref.runtime import NS_PER_S
from lockref.stores.port import Version
from lockref.stores.probe.selftest import ensure_usable
from lockref.words import Outcome
from scenarios.backends import BACKENDS
from tests.backends.conftest import BUCKETS, SERVERS, TABLES, THROUGH_OBSTORE, on

OBSTORE = f"ministack{THROUGH_OBSTORE}"
MORE_OBSTORE = tuple(f"{name}{THROUGH_OBSTORE}" for name in ("moto", "localstack"))
"""The second client on more servers takes its time, and tells little that one server does not."""
more = [on(name, pytest.mark.long) for name in MORE_OBSTORE]
ALL = ("memory", "file", *SERVERS, TABLES, OBSTORE)
everywhere = pytest.mark.parametrize("address", [*map(on, ALL), *more], indirect=True)

IGNORES_STALE_DELETE = ("fake-gcs-server",)  # K9: 204 whatever the generation.
REFUSES_CONDITIONAL_DELETE = {"localstack": 501, **dict.fromkeys((OBSTORE, *MORE_OBSTORE))}
"""Honestly: the server with a status, a client that cannot ask without one."""
MAY_HAVE_TWO_WINNERS = (
    "moto",
    f"moto{THROUGH_OBSTORE}",
)  # M17: checks and writes in two steps; backends.md, section 10.
ANSWERS_412_WHEN_ABSENT = ("fake-gcs-server", "azurite")  # As GCS and Azure: absent and stale look alike (C5).
DELETES_412_WHEN_ABSENT = ("azurite",)  # Under a condition; Azure itself 404 (C8).
DELETES_SILENTLY = (
    "ministack",
    "moto",
    "localstack",
    "dynalite",
    TABLES,
    OBSTORE,
    *MORE_OBSTORE,
)  # As Amazon: success whether there was an object or not.

RACERS = 8
ROUNDS = 15


def _stale_version(store) -> Version:
    """A version that the store made and that is no longer current anywhere."""
    version = store.put("stale-source", b"old").version
    store.put("stale-source", b"new")
    return version


@everywhere
def test_create_succeeds_once_and_keeps_the_first_body(store):
    """C1: a create on an absent key applies, on a present one it is refused and changes nothing."""
    first = store.put_if_absent("k", b"one")
    assert (first.outcome, bool(first.version)) == (Outcome.APPLIED, True)
    second = store.put_if_absent("k", b"two")
    assert (second.outcome, second.missing, second.version) == (Outcome.PRECONDITION_FAILED, False, None)
    read = store.read("k")
    assert (read.outcome, read.body, read.version) == (Outcome.APPLIED, b"one", first.version)


@everywhere
def test_replacing_needs_the_current_version(store):
    """C3, C4: the current version replaces and makes a new one; the old one is refused from then on."""
    first = store.put_if_absent("k", b"one").version
    second = store.put_if_version("k", b"two", first)
    assert second.outcome is Outcome.APPLIED
    assert second.version != first
    stale = store.put_if_version("k", b"three", first)
    assert (stale.outcome, stale.missing) == (Outcome.PRECONDITION_FAILED, False)
    assert (store.read("k").body, store.read("k").version) == (b"two", second.version)


@everywhere
def test_replacing_an_absent_object_creates_nothing(store, backend_name):
    """C5, U9: an absent key is refused, with `missing` wherever the dialect tells it apart from a stale version."""
    reply = store.put_if_version("absent", b"x", _stale_version(store))
    assert reply.outcome is Outcome.PRECONDITION_FAILED
    assert reply.missing is (backend_name not in ANSWERS_412_WHEN_ABSENT)
    assert store.read("absent").is_absent


@everywhere
def test_an_old_version_fails_after_delete_and_recreation(store):
    """C6: neither the absence nor other bytes revive a version."""
    old = store.put_if_absent("k", b"one").version
    assert store.delete("k").outcome is Outcome.APPLIED
    assert store.put_if_version("k", b"x", old).outcome is Outcome.PRECONDITION_FAILED
    store.put_if_absent("k", b"two")
    assert store.put_if_version("k", b"x", old).outcome is Outcome.PRECONDITION_FAILED
    assert store.read("k").body == b"two"


@everywhere
def test_versions_repeat_exactly_where_the_capabilities_say_so(store):
    """C7, A6: where equal bytes give equal versions, a lock needs a nonce in every record."""
    first, _, third = (store.put("k", body).version for body in (b"A", b"B", b"A"))
    assert (first == third) is store.capabilities.versions_repeat


@everywhere
def test_an_unconditional_overwrite_changes_the_version(store):
    """C23: a put is visible to whoever holds a version."""
    old = store.put_if_absent("k", b"one").version
    assert store.put("k", b"two").version != old
    assert store.put_if_version("k", b"x", old).outcome is Outcome.PRECONDITION_FAILED


@everywhere
def test_a_conditional_delete_spares_another_version(store, backend_name):
    """C8, M4: a stale delete is refused and the object stays; a current one removes it."""
    old = store.put("k", b"one").version
    current = store.put("k", b"two").version
    stale = store.delete("k", old)
    if backend_name in IGNORES_STALE_DELETE:
        assert stale.outcome is Outcome.APPLIED
        return
    if backend_name in REFUSES_CONDITIONAL_DELETE:
        assert (stale.outcome, stale.status) == (Outcome.REJECTED, REFUSES_CONDITIONAL_DELETE[backend_name])
        return
    assert (stale.outcome, stale.missing) == (Outcome.PRECONDITION_FAILED, False)
    assert store.read("k").body == b"two"
    assert store.delete("k", current).outcome is Outcome.APPLIED
    assert store.read("k").is_absent


@everywhere
def test_deleting_an_absent_object(store, backend_name):
    """C8: missing wherever the server says so; S3 says so only under a condition."""
    plain = store.delete("absent")
    if backend_name in DELETES_SILENTLY:
        assert plain.outcome is Outcome.APPLIED
    else:
        assert (plain.outcome, plain.missing) == (Outcome.PRECONDITION_FAILED, True)
    if backend_name not in REFUSES_CONDITIONAL_DELETE:
        conditional = store.delete("absent", _stale_version(store))
        is_told = backend_name not in DELETES_412_WHEN_ABSENT
        assert (conditional.outcome, conditional.missing) == (Outcome.PRECONDITION_FAILED, is_told)


@everywhere
@pytest.mark.parametrize("body", [b"", b"\x00\xff" * 5, b"x" * 300_000], ids=["empty", "binary", "large"])
def test_bodies_come_back_byte_for_byte(store, body):
    """An empty body is a body, not an absence."""
    version = store.put_if_absent("a/b c+ü", body).version
    read = store.read("a/b c+ü")
    assert (read.outcome, read.body, read.version, read.is_absent) == (Outcome.APPLIED, body, version, False)


@everywhere
def test_an_absent_object_is_an_answer(store):
    """APPLIED without a body: nothing is there, and that is known."""
    read = store.read("never-written")
    assert (read.outcome, read.is_absent, read.version) == (Outcome.APPLIED, True, None)


def _race(attempt) -> list:
    """What each of several threads, released together, got from `attempt(number)`."""
    start = threading.Barrier(RACERS)
    replies: list = [None] * RACERS

    def run(number: int) -> None:
        start.wait()
        replies[number] = attempt(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(RACERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies


def _check_round(store, key: str, replies: list, bodies: list[bytes], *, exactly_one: bool) -> None:
    winners = [number for number, reply in enumerate(replies) if reply.outcome is Outcome.APPLIED]
    losers = {reply.outcome for reply in replies} - {Outcome.APPLIED}
    assert losers <= {Outcome.PRECONDITION_FAILED, Outcome.CONFLICT}
    assert winners
    assert store.read(key).body in [bodies[number] for number in winners]
    if exactly_one:
        assert len(winners) == 1


@everywhere
def test_a_create_race_has_one_winner(store, backend_name):
    """C2: of simultaneous creates one applies, the others are refused, and the winner's bytes stay."""
    bodies = [b"racer %d" % number for number in range(RACERS)]
    for round_ in range(ROUNDS):
        key = f"race-{round_}"
        replies = _race(lambda number, key=key: store.put_if_absent(key, bodies[number]))
        _check_round(store, key, replies, bodies, exactly_one=backend_name not in MAY_HAVE_TWO_WINNERS)


@everywhere
def test_a_replacement_race_on_one_version_has_one_winner(store, backend_name):
    """C3: of simultaneous replacements of one version one applies, round after round on one object."""
    version = store.put("k", b"start").version
    for round_ in range(ROUNDS):
        bodies = [b"round %d racer %d" % (round_, number) for number in range(RACERS)]
        replies = _race(lambda number, bodies=bodies, at=version: store.put_if_version("k", bodies[number], at))
        _check_round(store, "k", replies, bodies, exactly_one=backend_name not in MAY_HAVE_TWO_WINNERS)
        version = store.read("k").version


@everywhere
def test_the_start_up_self_test_passes(store, address, backend_name):
    """H23: the self-test finds of every backend what is known of it and no more; nothing is left behind."""
    server = backend_name.removesuffix(THROUGH_OBSTORE)
    defects = BACKENDS[server].known_defects if server in BACKENDS else frozenset()
    watched = Mock(wraps=store)
    found = ensure_usable(watched, "table", address=address, tolerated=defects)
    broken = {finding.condition.clause for finding in found.ignored}
    assert broken <= defects
    if backend_name in IGNORES_STALE_DELETE:
        assert broken == {"C8"}
    refused = "refused" if backend_name in REFUSES_CONDITIONAL_DELETE else "supported"
    assert found.conditional_delete == ("ignored" if "C8" in broken else refused)
    assert found.versions_repeat == [store.capabilities.versions_repeat]
    written = {call.args[0] for call in watched.put_if_absent.call_args_list}
    assert len(written) > 2
    assert all(store.read(key).is_absent for key in written)


buckets = pytest.mark.parametrize("address", [*map(on, (*BUCKETS, OBSTORE)), *more], indirect=True)


@buckets
def test_a_missing_bucket_is_rejected_with_status_and_reason(address):
    """A write to no bucket did not land and never will: 404 here is not `missing`."""
    scheme, _, rest = address.partition("://")
    elsewhere = open_store(f"{scheme}://no-such-bucket?{rest.partition('?')[2]}", request_timeout_ns=20 * NS_PER_S)
    version = Version("7")
    for reply in (
        elsewhere.put_if_absent("k", b"x"),
        elsewhere.put_if_version("k", b"x", version),
        elsewhere.put("k", b"x"),
    ):
        assert (reply.outcome, reply.missing, reply.status) == (Outcome.REJECTED, False, 404)
        assert re.search("bucket|container", reply.reason)
    elsewhere.close()


@buckets
def test_a_prefix_keeps_two_stores_of_one_bucket_apart(address):
    """The prefix in the URI stands before every key and shows in none."""
    base, _, options = address.partition("?")
    one, two, both = (
        open_store(f"{base}{prefix}?{options}", request_timeout_ns=20 * NS_PER_S) for prefix in ("/a", "/b", "")
    )
    one.put_if_absent("k", b"one")
    assert two.read("k").is_absent
    assert both.read("a/k").body == b"one"
    for opened in (one, two, both):
        opened.close()


@pytest.mark.parametrize(
    "address", [on("ministack"), on("fake-gcs-server"), on("azurite"), on(OBSTORE)], indirect=True
)  # They keep connections.
def test_closing_gives_back_every_socket(address):
    """After close no connection to the server is left, and none is left to the garbage collector."""
    port = urlsplit(parse_store_uri(address).endpoint).port
    gc.collect()  # What earlier tests left is not this store's.
    before = _connections(port)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        opened = open_store(address, request_timeout_ns=20 * NS_PER_S)
        version = opened.put_if_absent("k", b"x").version
        opened.put_if_absent("k", b"x")
        opened.put_if_version("absent", b"x", version)
        opened.read("k")
        opened.read("absent")
        opened.delete("k")
        assert _connections(port) - before
        opened.close()
        opened.close()
        # obstore ends them in a thread of its own, a moment after.
        until = time.monotonic() + 20
        while not _connections(port) <= before and time.monotonic() < until:
            time.sleep(0.01)
        assert _connections(port) <= before
        del opened
        gc.collect()
    assert [warning for warning in caught if warning.category is ResourceWarning] == []


def _connections(port: int) -> set[int]:
    """Our ports of this process's connections to that port that are open at our end.

    Not their number: the server may end one that an earlier test left, while the store opens its own.
    """
    return {
        connection.laddr.port
        for connection in psutil.Process().net_connections(kind="tcp")
        if connection.raddr and connection.raddr.port == port and connection.status == psutil.CONN_ESTABLISHED
    }


@everywhere
def test_a_bad_key_is_the_callers_mistake_on_every_store(store):
    """ValueError, not an outcome, and the same keys everywhere."""
    for key in ("", "a//b", "../x"):
        with pytest.raises(ValueError):
            store.put_if_absent(key, b"x")
        with pytest.raises(ValueError):
            store.read(key)
