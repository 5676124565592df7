"""What the hardened lock is made of, and how a variant of it is made.

A variant replaces one part, and is loaded by its name like any lock:

    class Forgetful(StorageLock):
        parts = replace(StorageLock.parts, cell=ForgetfulCell)

    class Bold(StorageLock):
        parts = replace(StorageLock.parts, rules=replace(Rules(), deadline_after=no_margin))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lockref.locks.acquisition import Acquisition
from lockref.locks.adaptive_waiting import AdaptiveWaiting
from lockref.locks.cell import Cell
from lockref.locks.cleanup import Cleanup
from lockref.locks.client import LeaseClient
from lockref.locks.heartbeat import Heartbeat
from lockref.locks.returning import ReturningAcquisition
from lockref.locks.rules import Rules
from lockref.locks.tenure import Gate, Tenure
from lockref.locks.values import Tokens, Writer
from lockref.locks.waiting import Shortcut, Waiting
from lockref.runtime import Runtime
from lockref.storage.fence import FenceMark
from lockref.storage.lockfile import LockFile, owner_id
from lockref.storage.shortcut import RememberedVersion
from lockref.storage.writer import LockFileWriter


def new_owner(runtime: Runtime) -> str:
    """An owner that nobody else has: a random UUID, as Hudi's (H22)."""
    return owner_id(runtime.token_bytes(16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The rules, and who makes each part: a class, or a function with the arguments of that class."""

    rules: Rules = field(default_factory=Rules)
    owner: Callable[[Runtime], str] = new_owner
    cell: Callable[..., Cell[LockFile]] = Cell
    writer: Callable[..., Writer[LockFile]] = LockFileWriter
    gate: Callable[[Runtime, str], Gate] = Gate
    acquisition: Callable[[LeaseClient[LockFile], int], Acquisition[LockFile]] = ReturningAcquisition
    tenure: Callable[..., Tenure[LockFile]] = Tenure
    heartbeat: Callable[..., Heartbeat[LockFile]] = Heartbeat
    cleanup: Callable[..., Cleanup[LockFile]] = Cleanup
    waiting: Callable[[int, int, Runtime], Waiting] = AdaptiveWaiting
    tokens: Callable[..., Tokens[LockFile]] = FenceMark
    shortcut: Callable[[], Shortcut[LockFile]] = RememberedVersion
