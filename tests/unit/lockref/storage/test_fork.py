"""H9: a forked child inherits a lock's memory, not the lock. It is told so, and cannot touch its parent's grant."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from lockref import LockForked, LockNotHeld, StorageLock
from lockref.clouds.uri import open_store
from lockref.runtime import NS_PER_S
from lockref.storage.config import StorageLockConfig
from lockref.stores.port import ObjectStore

CONFIG = StorageLockConfig(base_path="s3://bucket/table")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")


def in_a_child(work: Callable[[], object]) -> str:
    """What went wrong in a real forked child; empty if nothing did."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        told = ""
        try:
            work()
        except BaseException:  # noqa: BLE001 - told to the parent, which fails
            told = traceback.format_exc()
        os.write(writer, told.encode()[-30_000:])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as told_by_child:
        told = told_by_child.read().decode()
    os.waitpid(child, 0)
    return told


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(f"file:{tmp_path}", request_timeout_ns=5 * NS_PER_S)


@pytest.mark.parametrize("is_held", [True, False])
def test_a_forked_child_is_told_and_cannot_touch_the_lock(store, is_held):
    """Every call says forked, as an error of its own; `close` and the child's end leave the parent's grant alone."""
    lock = StorageLock(store, config=CONFIG, key=CONFIG.location.key)
    if is_held:
        assert lock.try_lock()
    before = store.read(CONFIG.location.key)

    def child() -> None:
        assert not lock.holds()
        assert lock.remaining_ns() == 0
        assert lock.grant is None
        assert lock.fencing_token is None
        for use in (lock.assert_held, lock.try_lock, lambda: lock.lock(1), lock.unlock, lock.repair, lock.__enter__):
            with pytest.raises(LockForked, match="forked child") as caught:
                use()
            assert isinstance(caught.value, LockNotHeld)
        lock.close()
        lock.exit_hook()

    assert in_a_child(child) == ""
    assert store.read(CONFIG.location.key) == before
    if is_held:
        assert lock.holds()
        lock.assert_held()
        lock.unlock()
    lock.close()


def test_a_child_that_ends_inside_the_with_block_ends_as_it_would(store):
    """`sys.exit` in a child unwinds the parent's `with` block: it stays an exit, and says in a note what it met."""
    lock = StorageLock(store, config=CONFIG, key=CONFIG.location.key)

    def child() -> None:
        ended = None
        try:
            with lock_as_inherited(lock):
                raise SystemExit(3)
        except SystemExit as error:
            ended = error
        assert ended is not None
        assert ended.code == 3
        assert "forked child" in "".join(ended.__notes__)

    with lock:
        assert in_a_child(child) == ""
        assert lock.holds()
    lock.close()


def test_a_child_that_leaves_the_with_block_is_told(store):
    """Without an error of its own the child meets LockForked: it has worked in a section that is its parent's."""
    lock = StorageLock(store, config=CONFIG, key=CONFIG.location.key)

    def child() -> None:
        with pytest.raises(LockForked), lock_as_inherited(lock):
            pass

    with lock:
        assert in_a_child(child) == ""
        assert lock.holds()
    lock.close()


def test_a_child_may_make_a_lock_of_its_own(store):
    """The child's own lock excludes like any other: denied while the parent holds, granted afterwards."""
    lock = StorageLock(store, config=CONFIG, key=CONFIG.location.key)

    def denied() -> None:
        mine = StorageLock(store, config=CONFIG, key=CONFIG.location.key)
        assert mine.try_lock() is False
        mine.close()

    def granted() -> None:
        with StorageLock(store, config=CONFIG, key=CONFIG.location.key) as mine:
            assert mine.fencing_token == 2

    with lock:
        assert in_a_child(denied) == ""
    assert in_a_child(granted) == ""
    lock.close()


class lock_as_inherited:  # noqa: N801 - a context manager, read as a phrase
    """The inner half of a `with` block that began before the fork."""

    def __init__(self, lock: StorageLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        """It was entered by the parent."""

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)  # type: ignore[arg-type]
