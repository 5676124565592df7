"""A folder on this machine as a store that many processes share.

One lock file per folder, taken with `flock` for the length of each write, makes
check and write one step across processes; a crashed process gives it back by
dying. A body becomes visible by renaming a synced file into place, so a reader
needs no lock and never meets half an object. The version travels inside the
same file, on its first line: body and version cannot disagree.

Versions come from one counter per folder, made durable before the object that
carries it, so they increase across deletes, restarts and crashes. The counter
lives in the lock file in two slots with checksums, written by turns: a torn
write leaves the other slot, and with it at most a gap.

For local file systems: over NFS neither `flock` nor `rename` keeps these promises.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from lockref.grammar import decimal
from lockref.runtime import NS_PER_MS, Runtime, ThreadRuntime
from lockref.stores.keys import check_key
from lockref.stores.port import ReadReply, StoreCapabilities, StorePlace, Version, WriteReply
from lockref.words import Outcome

CAPABILITIES = StoreCapabilities(dialect="memory", versions_repeat=False, conditional_delete=True)
"""No status codes of its own: it answers like the store in memory."""

STATE_FOLDER: Final = ".lockref"
_OBJECT_SUFFIX: Final = "=object"  # A quoted key holds no "=", so objects, folders and our state never collide.
_MAGIC: Final = b"lockref-object"
_SLOT_BYTES: Final = 32
_LOCK_MODE: Final = 0o666  # Whoever may write to the folder may take the lock: users share test folders.
_LOCK_POLL_NS: Final = 2 * NS_PER_MS


class _Busy(Exception):
    """Another process kept the folder's lock for longer than the request may take."""


class _Damaged(Exception):
    """A file of ours holds what we never write."""


def _unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


class FileStore:
    """A folder as an `ObjectStore`, safe for threads and processes of one machine.

    folder: made on the first write if it is missing.
    request_timeout_ns: how long a write waits for the folder's lock before it is THROTTLED (nothing happened).
    """

    def __init__(self, folder: str | Path, *, request_timeout_ns: int, runtime: Runtime | None = None) -> None:
        self.folder = Path(folder)
        self.place = StorePlace(cloud="file", container=str(self.folder))
        self._state = self.folder / STATE_FOLDER
        self._request_timeout_ns = request_timeout_ns
        self._runtime = runtime or ThreadRuntime()

    @property
    def capabilities(self) -> StoreCapabilities:
        return CAPABILITIES

    def read(self, key: str) -> ReadReply:
        path = self._path(key)
        try:
            body, number = _read_object(path)
        except FileNotFoundError:
            return ReadReply(outcome=Outcome.APPLIED)
        except OSError as error:
            return ReadReply(outcome=Outcome.REJECTED, reason=_describe(error))
        except _Damaged as error:
            return ReadReply(outcome=Outcome.REJECTED, reason=f"{path.name} {error}")
        return ReadReply(outcome=Outcome.APPLIED, body=body, version=Version(str(number)))

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._change(key, body, must_be_absent=True)

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        return self._change(key, body, version=version)

    def put(self, key: str, body: bytes) -> WriteReply:
        return self._change(key, body)

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        return self._change(key, None, version=version)

    def keys(self, start: str) -> list[str]:
        """The keys with this prefix, sorted. This is no call of the port: it is for the cleaning of a folder.

        Errors: OSError for a folder that cannot be read; one that is not there has no keys.
        """
        found: list[str] = []
        for folder, _, names in os.walk(self.folder, onerror=_unless_absent):
            above = Path(folder).relative_to(self.folder).parts
            objects = [name.removesuffix(_OBJECT_SUFFIX) for name in names if name.endswith(_OBJECT_SUFFIX)]
            found += ["/".join(unquote(part) for part in (*above, name)) for name in objects]
        return sorted(key for key in found if key.startswith(start))

    def close(self) -> None:
        """Nothing is kept open between requests."""

    def _change(
        self, key: str, body: bytes | None, *, version: Version | None = None, must_be_absent: bool = False
    ) -> WriteReply:
        """Check and write (or, with no body, remove) while no other process can."""
        path = self._path(key)
        is_visible = False
        try:
            with self._locked() as lock_fd:
                refusal = _refusal(path, version=version, must_be_absent=must_be_absent, removes=body is None)
                if refusal is not None:
                    return refusal
                if body is None:
                    is_visible = True
                    path.unlink()
                    _sync_folder(path.parent)
                    self._remove_empty_folders(path.parent)
                    return WriteReply(outcome=Outcome.APPLIED)
                number = _next_number(lock_fd)
                incoming = self._state / "incoming"
                _write_synced(incoming, _frame(body, number))
                self._make_folders(path.parent)
                is_visible = True
                incoming.replace(path)
                _sync_folder(path.parent)
                return WriteReply(outcome=Outcome.APPLIED, version=Version(str(number)))
        except _Busy:
            return WriteReply(
                outcome=Outcome.THROTTLED,
                reason=f"another process kept {self._state / 'lock'} for {self._request_timeout_ns / NS_PER_MS:.0f} ms",
            )
        except _Damaged as error:
            return WriteReply(outcome=Outcome.REJECTED, reason=f"{path.name} {error}")
        except OSError as error:
            # From the rename on, others may see the change although this machine might lose it again.
            outcome = Outcome.AMBIGUOUS if is_visible else Outcome.REJECTED
            return WriteReply(outcome=outcome, reason=_describe(error))

    def _path(self, key: str) -> Path:
        *folders, name = (quote(segment, safe="") for segment in check_key(key).split("/"))
        return self.folder.joinpath(*folders, name + _OBJECT_SUFFIX)

    def _remove_empty_folders(self, folder: Path) -> None:
        """An object store has no folders, so nothing is left of a key. Folders are made and removed under the lock."""
        with contextlib.suppress(OSError):  # one that is not empty is kept, and so are those above it
            while folder != self.folder:
                folder.rmdir()
                folder = folder.parent

    def _make_folders(self, folder: Path) -> None:
        """Make the folders of a key, durably: a synced object in an unsynced folder is lost with it."""
        if folder.is_dir():
            return
        self._make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """Hold the folder's lock; yields the lock file's descriptor.

        Each request opens the file anew: `flock` belongs to an open file, so
        threads exclude each other just as processes do. It is given back by
        name, not by closing, because a forked child would keep a copy open.

        Errors: _Busy when the time is up.
        """
        lock = self._state / "lock"
        if not lock.exists():
            self._make_folders(self._state)
            _create_lock_file(lock)
        lock_fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        try:
            deadline_ns = self._runtime.monotonic_ns() + self._request_timeout_ns
            while not _try_flock(lock_fd):
                if self._runtime.monotonic_ns() >= deadline_ns:
                    raise _Busy
                self._runtime.sleep(self._runtime.random.randrange(_LOCK_POLL_NS))
            try:
                yield lock_fd
            finally:
                fcntl.flock(lock_fd, fcntl.LOCK_UN)
        finally:
            os.close(lock_fd)


def _create_lock_file(lock: Path) -> None:
    """Make the lock file with its counter at zero, whole or not at all; the first of several processes wins."""
    draft_fd, draft = tempfile.mkstemp(dir=lock.parent, prefix="lock-")
    try:
        os.write(draft_fd, _format_slot(0) * 2)
        os.fchmod(draft_fd, _LOCK_MODE)
        os.fsync(draft_fd)
        with contextlib.suppress(FileExistsError):
            os.link(draft, lock)
        _sync_folder(lock.parent)
    finally:
        os.close(draft_fd)
        Path(draft).unlink()


def _try_flock(lock_fd: int) -> bool:
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _refusal(path: Path, *, version: Version | None, must_be_absent: bool, removes: bool) -> WriteReply | None:
    """Why the object is not what the caller thought; None if it is, or if the caller did not say."""
    if version is None and not must_be_absent and not removes:
        return None
    try:
        _, number = _read_object(path)
    except FileNotFoundError:
        if must_be_absent:
            return None
        return WriteReply(outcome=Outcome.PRECONDITION_FAILED, missing=True, reason="no such object")
    if must_be_absent:
        return WriteReply(outcome=Outcome.PRECONDITION_FAILED, reason="the object exists")
    if version is not None and version != str(number):
        return WriteReply(outcome=Outcome.PRECONDITION_FAILED, reason=f"the object has version {number}")
    return None


def _frame(body: bytes, number: int) -> bytes:
    return b"%s %d %d %08x\n%s" % (_MAGIC, number, len(body), zlib.crc32(body), body)


def _read_object(path: Path) -> tuple[bytes, int]:
    """Body and version number.

    Errors: FileNotFoundError if there is no object (also if a folder on the way
        is missing); _Damaged if somebody else wrote the file.
    """
    header, newline, body = path.read_bytes().partition(b"\n")
    fields = header.split(b" ")
    number = decimal(fields[1]) if len(fields) == 4 else None
    if not newline or number is None or fields[0] != _MAGIC:
        raise _Damaged("is not an object of this store: its first line is missing")
    if fields[2:] != [b"%d" % len(body), b"%08x" % zlib.crc32(body)]:
        raise _Damaged("is damaged: length or checksum do not fit its body")
    return body, number


def _next_number(lock_fd: int) -> int:
    """Draw a version number, durably. The folder's lock is held.

    Errors: _Damaged if neither slot is whole: starting again at one could give
        an old version a second time.
    """
    raw = os.pread(lock_fd, 2 * _SLOT_BYTES, 0)
    slots = [raw[at : at + _SLOT_BYTES] for at in (0, _SLOT_BYTES)]
    numbers = [number for slot in slots if (number := _parse_slot(slot)) is not None]
    if not numbers:
        raise _Damaged(f"cannot be written: the counter in {STATE_FOLDER}/lock is damaged; use a new folder")
    number = max(numbers) + 1
    os.pwrite(lock_fd, _format_slot(number), (number % 2) * _SLOT_BYTES)
    os.fsync(lock_fd)
    return number


def _format_slot(number: int) -> bytes:
    digits = b"%020d" % number
    return b"%s %08x\n" % (digits, zlib.crc32(digits)) + b" " * (_SLOT_BYTES - 30)


def _parse_slot(slot: bytes) -> int | None:
    digits = slot[:20]
    return int(digits) if digits.isdigit() and slot == _format_slot(int(digits)) else None


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)


def _describe(error: OSError) -> str:
    return f"{error.strerror or type(error).__name__}: {error.filename}" if error.filename else str(error)
