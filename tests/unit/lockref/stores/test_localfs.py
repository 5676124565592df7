"""The folder store: whole objects, versions that outlive everything, one lock for many processes."""

from __future__ import annotations

import fcntl
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.stores.localfs import STATE_FOLDER, FileStore
from lockref.words import Outcome

PROCESSES = multiprocessing.get_context("spawn")


def _store(folder: Path) -> FileStore:
    return FileStore(folder, request_timeout_ns=30 * NS_PER_S)


def _increment(folder: str, times: int) -> None:
    store = _store(Path(folder))
    for _ in range(times):
        while True:
            seen = store.read("n")
            if store.put_if_version("n", b"%d" % (int(seen.body) + 1), seen.version).outcome is Outcome.APPLIED:
                break


def _create(folder: str, name: bytes, start, won) -> None:
    store = _store(Path(folder))
    for round_ in range(20):
        start.wait()
        if store.put_if_absent(f"round-{round_}", name).outcome is Outcome.APPLIED:
            won.put((round_, name))


def _run(target, arguments: list[tuple]) -> None:
    workers = [PROCESSES.Process(target=target, args=each) for each in arguments]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * len(workers)


def test_versions_increase_over_deletes_and_reopening(tmp_path):
    """A6: a version is never given twice, whatever happens to object and process in between."""
    versions = []
    for _ in range(3):
        store = _store(tmp_path)
        versions.append(int(store.put_if_absent("lock", b"same").version))
        versions.append(int(store.put("lock", b"same").version))
        store.delete("lock")
    assert versions == sorted(set(versions))


def test_a_counter_kept_by_several_processes_loses_no_increment(tmp_path):
    """C20, C16: four processes with twenty-five conditional increments each end at one hundred."""
    _store(tmp_path).put_if_absent("n", b"0")
    _run(_increment, [(str(tmp_path), 25)] * 4)
    assert _store(tmp_path).read("n").body == b"100"


def test_a_create_race_between_processes_has_one_winner_a_round(tmp_path):
    """C2, C16: of four processes released together, exactly one creates, and its bytes stay."""
    start, won = PROCESSES.Barrier(4), PROCESSES.Queue()
    _run(_create, [(str(tmp_path), b"process %d" % number, start, won) for number in range(4)])
    winners = dict(won.get(timeout=60) for _ in range(20))
    assert won.empty()
    assert sorted(winners) == list(range(20))
    assert all(_store(tmp_path).read(f"round-{round_}").body == name for round_, name in winners.items())


_WRITER = """
import sys
from lockref.stores.localfs import FileStore
store = FileStore(sys.argv[1], request_timeout_ns=30_000_000_000)
number = 0
while True:
    number += 1
    version = store.put("k", b"%d:" % number + b"x" * (number % 7 * 10_000)).version
    print(version, flush=True)
"""


def test_a_writer_killed_at_any_moment_leaves_a_whole_object_and_a_free_lock(tmp_path):
    """A crash tears nothing: every read before and after is whole, and the next version is a new one."""
    last = 0
    for _ in range(4):
        with subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
            for line in itertools.islice(writer.stdout, 8):
                last = int(line)
                seen = _store(tmp_path).read("k")
                number, _, padding = seen.body.partition(b":")
                assert len(padding) == int(number) % 7 * 10_000
            writer.send_signal(signal.SIGKILL)
            drained = writer.stdout.read().split()
        last = max([last, *map(int, drained)])
        survivor = _store(tmp_path)
        seen = survivor.read("k")
        assert seen.outcome is Outcome.APPLIED
        assert int(survivor.put_if_version("k", b"0:", seen.version).version) > last


def test_a_crash_before_the_rename_changes_nothing(tmp_path, monkeypatch):
    """The object keeps its old body and version; the drawn number is a gap, not a reuse."""
    store = _store(tmp_path)
    old = store.put("k", b"old").version

    def die(self, target):
        raise InterruptedError("died")

    monkeypatch.setattr(Path, "replace", die)
    assert store.put("k", b"new").outcome is Outcome.AMBIGUOUS
    monkeypatch.undo()
    assert (store.read("k").body, store.read("k").version) == (b"old", old)
    assert int(store.put("k", b"newer").version) > int(old) + 1


def test_a_torn_counter_never_repeats_a_version(tmp_path, monkeypatch):
    """The counter's two slots are written by turns: a crash in the middle of either costs no number that was given."""
    store = _store(tmp_path)
    whole = os.pwrite

    def tear(descriptor, data, offset):
        whole(descriptor, data[:19] + b"\0" * 13, offset)
        raise InterruptedError("died")

    last = 0
    for _ in range(4):
        last = int(store.put("k", b"x").version)
        monkeypatch.setattr(os, "pwrite", tear)
        assert store.put("k", b"y").outcome is Outcome.REJECTED
        monkeypatch.undo()
        assert int(store.put("k", b"z").version) == last + 1


@pytest.mark.skipif(sys.platform != "linux", reason="file names of descriptors come from /proc")
def test_everything_is_durable_before_it_is_visible(tmp_path, monkeypatch):
    """After a power cut: no version given twice (counter first), no empty object (body before rename), no lost one."""
    store = _store(tmp_path)
    store.put("folder/k", b"x")
    steps = []
    sync, rename = os.fsync, Path.replace

    def record_sync(descriptor):
        steps.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def record_rename(self, target):
        steps.append("rename")
        rename(self, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(Path, "replace", record_rename)
    store.put("folder/k", b"y")
    assert steps == ["lock", "incoming", "rename", "folder"]
    steps.clear()
    store.delete("folder/k")
    assert steps == ["folder"]
    steps.clear()
    store.put("new/k", b"z")
    assert steps == ["lock", "incoming", tmp_path.name, "rename", "new"]


def test_a_child_forked_in_the_middle_of_a_write_does_not_keep_the_lock(tmp_path):
    """A forked child has a copy of every descriptor: the lock is given back by name, not by closing."""
    store = FileStore(tmp_path, request_timeout_ns=200 * NS_PER_MS)
    forks = multiprocessing.get_context("fork")
    end = forks.Event()
    with store._locked():
        child = forks.Process(target=end.wait)
        child.start()
    try:
        assert store.put("k", b"x").outcome is Outcome.APPLIED
    finally:
        end.set()
        child.join()


def test_a_counter_that_is_wholly_damaged_refuses_writes(tmp_path):
    """Starting again at one could repeat a version, so nothing is written."""
    store = _store(tmp_path)
    store.put("k", b"x")
    (tmp_path / STATE_FOLDER / "lock").write_bytes(b"\0" * 64)
    reply = store.put("k", b"y")
    assert (reply.outcome, "counter" in reply.reason) == (Outcome.REJECTED, True)
    assert store.read("k").body == b"x"


@pytest.mark.parametrize(
    "content", [b"", b"no header", b"lockref-object 1 5 00000000\nshort", b"lockref-object 1 1 00000000\nx"]
)
def test_a_file_that_somebody_else_wrote_is_never_taken_for_an_object(tmp_path, content):
    """A damaged object is REJECTED: neither absent, which would invite a create, nor a body."""
    store = _store(tmp_path)
    version = store.put("k", b"x").version
    (tmp_path / "k=object").write_bytes(content)
    assert store.read("k").outcome is Outcome.REJECTED
    assert store.put_if_version("k", b"y", version).outcome is Outcome.REJECTED
    assert store.put_if_absent("k", b"y").outcome is Outcome.REJECTED
    assert store.put("k", b"repaired").outcome is Outcome.APPLIED


def test_a_lock_kept_by_another_process_throttles_within_the_timeout(tmp_path):
    """A paused writer must not hang the others for ever; nothing has happened, and the reply says so."""
    store = FileStore(tmp_path, request_timeout_ns=20 * NS_PER_MS)
    store.put("k", b"old")
    with (tmp_path / STATE_FOLDER / "lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert store.put("k", b"new").outcome is Outcome.THROTTLED
        assert store.delete("k").outcome is Outcome.THROTTLED
        assert store.read("k").body == b"old"
    assert store.put("k", b"new").outcome is Outcome.APPLIED


def test_keys_that_are_folders_of_other_keys_do_not_collide(tmp_path):
    """Object stores have no folders: `a` and `a/b` and `a=object/b` are three objects, and none is our state."""
    store = _store(tmp_path)
    keys = ["a", "a/b", "a=object", "a=object/b", f"{STATE_FOLDER}/lock", "ü/%2F"]
    for key in keys:
        assert store.put_if_absent(key, key.encode()).outcome is Outcome.APPLIED
    assert [store.read(key).body for key in keys] == [key.encode() for key in keys]


def test_nothing_is_left_of_a_key_that_is_deleted(tmp_path):
    """Object stores have no folders: those of a key go with it, and those of other keys stay."""
    store = _store(tmp_path)
    store.put("probe/listed/object", b"1")
    store.put("probe/other", b"2")
    assert store.delete("probe/listed/object").outcome is Outcome.APPLIED
    assert [path.name for path in (tmp_path / "probe").iterdir()] == ["other=object"]
    assert store.delete("probe/other").outcome is Outcome.APPLIED
    assert [path.name for path in tmp_path.iterdir()] == [STATE_FOLDER]


def test_a_folder_that_is_a_file_is_rejected_with_its_path(tmp_path):
    """What the system refuses for good is REJECTED, and the reason names the place."""
    (tmp_path / "file").write_text("x")
    reply = _store(tmp_path / "file").put("k", b"x")
    assert reply.outcome is Outcome.REJECTED
    assert str(tmp_path / "file") in reply.reason
    assert _store(tmp_path / "file").read("k").outcome is Outcome.REJECTED


def test_no_descriptor_is_left_open(tmp_path):
    """Each request closes what it opened, also when refused."""
    store = _store(tmp_path)
    store.put("k", b"x")
    before = psutil.Process().num_fds()
    for _ in range(20):
        store.put("k", b"x")
        store.put_if_absent("k", b"x")
        store.delete("absent")
        store.read("k")
    assert psutil.Process().num_fds() == before


def test_a_removal_that_may_have_happened_is_ambiguous(tmp_path, monkeypatch):
    """A1: once the name is being removed, an error says nothing about whether it is gone."""
    store = _store(tmp_path)
    store.put("k", b"1")

    def fail(path):
        os.remove(path)  # noqa: PTH107 - what `unlink` would have done
        raise OSError("the disk went away")

    monkeypatch.setattr(Path, "unlink", fail)
    assert store.delete("k").outcome is Outcome.AMBIGUOUS


def test_the_lock_file_may_be_taken_by_other_users(tmp_path):
    """Users who share a folder share its lock, whatever the first one's mask was."""
    before = os.umask(0o077)
    try:
        _store(tmp_path).put("k", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / STATE_FOLDER / "lock").stat().st_mode & 0o777 == 0o666


def test_the_keys_of_a_folder_are_told_by_whoever_looks_after_it(tmp_path: Path) -> None:
    """Whatever stands in a key; our own state is none, and a folder that is not there has none."""
    store = FileStore(tmp_path / "store", request_timeout_ns=NS_PER_S)
    assert store.keys("") == []
    keys = sorted(["a/b", "a/ä%2F=", "ab", ".lockref-x/y", "b c/d"])
    for key in keys:
        assert store.put(key, b"x").outcome is Outcome.APPLIED
    assert store.keys("") == keys
    assert store.keys("a/") == [key for key in keys if key.startswith("a/")]
    store.delete("ab")
    assert "ab" not in store.keys("")
