"""Two locks that differ from the reference in one part each; both are wrong.

lockref sim swarm --provider docs/examples/variants.py:ForgetfulRelease --seeds 1..30
"""

from __future__ import annotations

from dataclasses import replace

from lockref import StorageLock
from lockref.locks.cell import Cell
from lockref.locks.rules import Rules
from lockref.locks.values import Deadline, LeaseTerms, Moment, Purpose
from lockref.runtime import MonoNs, WallNs
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version, WriteReply


class ForgetfulCell(Cell[LockFile]):
    """Releases whatever the object holds by now, instead of what the holder wrote."""

    def swap(self, if_version: Version | None, record: LockFile, purpose: Purpose) -> WriteReply:
        if purpose is Purpose.RELEASE:
            if_version = self.store.read(self.key).version
        return super().swap(if_version, record, purpose)


class ForgetfulRelease(StorageLock):
    """One part of the reference is another."""

    parts = replace(StorageLock.parts, cell=ForgetfulCell)


def to_the_end_and_beyond(sent: Moment, terms: LeaseTerms) -> Deadline:
    """The margin has the wrong sign."""
    reach_ns = terms.validity_ns + terms.margin_ns
    return Deadline(WallNs(sent.wall_ns + reach_ns), MonoNs(sent.mono_ns + reach_ns))


class Boastful(StorageLock):
    """One decision of the reference is another."""

    parts = replace(StorageLock.parts, rules=Rules(deadline_after=to_the_end_and_beyond))
