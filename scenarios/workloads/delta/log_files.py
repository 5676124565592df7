"""The files of a Delta table's log, and what it costs to load its state.

Version N is the object `_delta_log/<N as 20 digits>.json`. After every tenth version its writer makes a checkpoint, and
`_last_checkpoint` names the newest. Data files are uploaded before, under names that nobody else has, so no protocol
guards them.

Loading reads the newest checkpoint that `_last_checkpoint` names and every entry after it (W10;
`scenarios.delta.loading.gets` computes how many objects these are). A load that comes before a new checkpoint is
written starts from the one before, or from version 0.

Source: Buoyant Data, "Concurrency limitations for Delta Lake on AWS"; the Delta protocol, "Delta Log Entries",
"Checkpoints".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from lockref.errors import OutcomeUnknown
from lockref.stores.port import ObjectStore
from lockref.words import Outcome
from scenarios.delta.loading import CHECKPOINT_EVERY

_ENTRY: Final = re.compile(r"(?P<table>.*)/_delta_log/(?P<version>[0-9]{20})\.json")


def is_checkpoint(version: int) -> bool:
    """Does the writer of this version make a checkpoint?"""
    return version > 0 and version % CHECKPOINT_EVERY == 0


def entry_key(table: str, version: int) -> str:
    """Where the log entry of a version lies."""
    return f"{table}/_delta_log/{version:020}.json"


def checkpoint_key(table: str, version: int) -> str:
    return f"{table}/_delta_log/{version:020}.checkpoint.parquet"


def last_checkpoint_key(table: str) -> str:
    return f"{table}/_delta_log/_last_checkpoint"


def parse_entry_key(key: str) -> tuple[str, int] | None:
    """Table and version of a log entry's key; None for every other object."""
    found = _ENTRY.fullmatch(key)
    return None if found is None else (found["table"], int(found["version"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a writer wants in the log: one data file, under an identity that no other commit has.

    identity: of the operation, the same in every attempt (`txnId`). node, task, tenure, attempt, token, owner: the
    write behind it, as `scenarios.workloads.resource.Write` has them; tenure None where no lock is asked.
    """

    identity: str
    node: str
    task: str
    tenure: int | None = None
    attempt: int = 0
    token: int | None = None
    owner: str = ""

    def to_bytes(self) -> bytes:
        """The log entry: what it adds, and who made it. Equal in every attempt, so a second copy is the same bytes."""
        info = {
            "txnId": self.identity, "node": self.node, "task": self.task, "tenure": self.tenure,
            "attempt": self.attempt, "token": self.token, "owner": self.owner,
        }  # fmt: skip
        add = {"path": f"part-00000-{self.identity}.parquet", "size": 1, "dataChange": True}
        return "\n".join(json.dumps(line, sort_keys=True) for line in ({"commitInfo": info}, {"add": add})).encode()


def parse_commit(body: bytes) -> Commit | None:
    """The commit that an entry of ours tells of; None for bytes that are no such entry."""
    try:
        info = json.loads(body.split(b"\n", 1)[0])["commitInfo"]
        return Commit(
            identity=info["txnId"], node=info["node"], task=info["task"], tenure=info["tenure"],
            attempt=info["attempt"], token=info["token"], owner=info["owner"],
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The state of a table as a writer has read it.

    version: the newest entry, -1 of an empty log. gets: objects read; what is asked for and not there is not counted.
    """

    version: int
    gets: int


class Log:
    """The log of one table, as one writer sees it.

    store: where it lies. Errors: every method raises OutcomeUnknown if the store does not answer.
    """

    def __init__(self, store: ObjectStore, table: str) -> None:
        self.store, self.table = store, table

    def read(self, key: str) -> bytes | None:
        """The object, or None if there is none."""
        reply = self.store.read(key)
        if reply.outcome is not Outcome.APPLIED:
            raise OutcomeUnknown(f"reading {key}: {reply.outcome.name.lower()} ({reply.reason})")
        return reply.body

    def load(self) -> Loaded:
        """Read the state: the newest checkpoint, and every entry after it until one is not there."""
        gets, version = 0, -1
        newest = self.read(last_checkpoint_key(self.table))
        if newest is not None:
            named = int(json.loads(newest)["version"])
            gets += 1
            if self.read(checkpoint_key(self.table, named)) is not None:
                gets, version = gets + 1, named
        while self.read(entry_key(self.table, version + 1)) is not None:
            gets, version = gets + 1, version + 1
        return Loaded(version=version, gets=gets)

    def write_checkpoint(self, version: int) -> None:
        """What the writer of a tenth version does. Its answers do not matter: a reader needs no checkpoint."""
        written = self.store.put(checkpoint_key(self.table, version), b"%d" % version)
        if written.outcome is Outcome.APPLIED:
            newest = json.dumps({"version": version, "size": 1}).encode()
            self.store.put(last_checkpoint_key(self.table), newest)
