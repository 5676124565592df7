"""The memory store: versions, sharing by name, one winner."""

from __future__ import annotations

import threading

import pytest

from lockref.clouds.uri import open_store
from lockref.errors import ConfigError
from lockref.stores.memory import MemoryStore
from lockref.stores.port import Version
from lockref.words import Outcome


def test_versions_never_repeat_even_for_equal_bytes_after_a_delete():
    """A6: create, delete, create with the same bytes gives three different versions."""
    store = MemoryStore()
    first = store.put_if_absent("lock", b"same")
    second = store.put("lock", b"same")
    assert store.delete("lock", second.version).outcome is Outcome.APPLIED
    third = store.put_if_absent("lock", b"same")
    assert len({first.version, second.version, third.version}) == 3
    stale = store.put_if_version("lock", b"x", first.version)
    assert (stale.outcome, stale.missing) == (Outcome.PRECONDITION_FAILED, False)


def test_stores_of_one_name_share_their_objects_and_private_ones_do_not():
    """`memory:NAME` is one store per name; `memory:` is a new one each time."""
    one, two, other, private = (
        open_store(uri, request_timeout_ns=1) for uri in ("memory:a", "memory:a", "memory:b", "memory:")
    )
    one.put_if_absent("test-share", b"1")
    one.close()
    assert two.read("test-share").body == b"1"
    assert other.read("test-share").is_absent
    assert private.read("test-share").is_absent
    assert open_store("memory:", request_timeout_ns=1).read("test-share").is_absent


def test_a_counter_kept_by_conditional_writes_loses_no_increment():
    """C20: eight threads with twenty-five increments each end at two hundred."""
    store = MemoryStore()
    store.put_if_absent("n", b"0")
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        for _ in range(25):
            while True:
                seen = store.read("n")
                if store.put_if_version("n", b"%d" % (int(seen.body) + 1), seen.version).outcome is Outcome.APPLIED:
                    break

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.read("n").body == b"200"


@pytest.mark.parametrize("key", ["", "a//b", "../a", "a/./b", "/a", "a\n", "k" * 1025])
def test_a_key_that_some_store_cannot_hold_is_the_callers_mistake(key):
    """A bad key is a ValueError on every store, never an outcome."""
    store = MemoryStore()
    for call in (
        lambda: store.read(key),
        lambda: store.put(key, b""),
        lambda: store.put_if_absent(key, b""),
        lambda: store.put_if_version(key, b"", "1"),
        lambda: store.delete(key),
    ):
        with pytest.raises(ValueError):
            call()


@pytest.mark.parametrize(("timeout_ns", "pool_size"), [(0, 1), (-1, 1), (1, 0)])
def test_impossible_limits_are_refused(timeout_ns, pool_size):
    """A time-out or a pool of nothing is a ConfigError."""
    with pytest.raises(ConfigError):
        open_store("memory:", request_timeout_ns=timeout_ns, pool_size=pool_size)


def test_an_empty_version_is_a_version_and_no_licence():
    """C4: a condition on a version that no object has is refused, however it is spelt."""
    store = MemoryStore()
    store.put_if_absent("k", b"1")
    for reply in (store.put_if_version("k", b"2", Version("")), store.delete("k", Version(""))):
        assert reply.outcome is Outcome.PRECONDITION_FAILED
    assert store.read("k").body == b"1"


def test_a_key_is_measured_in_bytes():
    """S3 and GCS count UTF-8: 600 letters of two bytes are too long."""
    with pytest.raises(ValueError, match="1200 bytes"):
        MemoryStore().read("é" * 600)
