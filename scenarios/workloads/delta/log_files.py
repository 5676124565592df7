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
from lockref.strict_json import NotJson, is_whole, read_object, whole_number
from lockref.words import Outcome
from scenarios.delta.loading import CHECKPOINT_EVERY

_TEXTS: Final = {"identity": "txnId", "node": "node", "task": "task", "owner": "owner"}
"""The text fields of a commit, and what an entry calls them."""

_QUEUE_APP: Final = "queue"
"""The application whose transactions are the positions of a queue's items."""

_ENTRY: Final = re.compile(r"(?P<table>.*)/_delta_log/(?P<version>[0-9]{20})\.json")


def is_checkpoint(version: int) -> bool:
    """Does the writer of this version make a checkpoint?"""
    return version > 0 and version % CHECKPOINT_EVERY == 0


def entry_key(table: str, version: int) -> str:
    """The key of a version's log entry."""
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
    """A commit as its writer wants it in the log: one data file, under an identity that no other commit has.

    identity: of the operation, the same in every attempt (`txnId`). items: of a coalesced commit, the operations that
    it holds. position: of the newest of these in the table's queue. node, task, tenure, attempt, token, owner: the
    write behind it, as `scenarios.workloads.resource.Write` has them; tenure None where no lock is asked.
    """

    identity: str
    node: str
    task: str
    tenure: int | None = None
    attempt: int = 0
    token: int | None = None
    owner: str = ""
    items: tuple[str, ...] = ()
    position: int = -1

    @property
    def identities(self) -> tuple[str, ...]:
        """The operations that stand in this entry."""
        return self.items or (self.identity,)

    def to_bytes(self) -> bytes:
        """The log entry: what it adds, and who made it. Equal in every attempt, so a second copy is the same bytes."""
        info = {
            "txnId": self.identity, "node": self.node, "task": self.task, "tenure": self.tenure,
            "attempt": self.attempt, "token": self.token, "owner": self.owner,
        }  # fmt: skip
        lines: list[dict[str, object]] = [{"commitInfo": {**info, "items": [*self.items]} if self.items else info}]
        if self.items:
            lines.append({"txn": {"appId": _QUEUE_APP, "version": self.position}})
        lines += [
            {"add": {"path": f"part-00000-{identity}.parquet", "size": 1, "dataChange": True}}
            for identity in self.identities
        ]
        return "\n".join(json.dumps(line, sort_keys=True) for line in lines).encode()


def parse_commit(body: bytes) -> Commit | None:
    """The commit that an entry of ours tells of; None for bytes that are no such entry."""
    try:
        info = read_object(body.split(b"\n", 1)[0])["commitInfo"]
        texts = {name: info[of] for name, of in _TEXTS.items()}
        numbers = {name: info[name] for name in ("tenure", "attempt", "token")}
        items = info.get("items", [])
        position = newest_position(body) if items else -1
    except (NotJson, KeyError, TypeError):
        return None
    if not all(isinstance(value, str) for value in texts.values()):
        return None
    if not all(is_whole(value) or (value is None and name != "attempt") for name, value in numbers.items()):
        return None
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        return None
    return Commit(**texts, **numbers, items=tuple(items), position=position)


def newest_position(body: bytes) -> int:
    """The position of the newest item of a queue that an entry has, as its action `txn` tells; -1 where it has none.

    Source: the Delta protocol, "Transaction Identifiers".
    """
    for line in body.split(b"\n"):
        try:
            told = read_object(line).get("txn")
        except NotJson:
            continue
        if isinstance(told, dict) and told.get("appId") == _QUEUE_APP and is_whole(told.get("version")):
            version: int = told["version"]
            return version
    return -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The state of a table as a writer has read it.

    version: the newest entry, -1 of an empty log. gets: objects read; what is asked for and not there is not counted.
    """

    version: int
    gets: int


def _named_version(newest: bytes) -> int | None:
    """The version that `_last_checkpoint` names; None where it names none.

    The file is a hint by the protocol ("Last Checkpoint File"): a reader that cannot read it lists the log.
    """
    try:
        return whole_number(read_object(newest).get("version"), least=0, most=10**20 - 1)
    except ValueError:
        return None


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

    def load(self) -> TableState:
        """Read the state: the newest checkpoint, and every entry after it until one is not there."""
        gets, version = 0, -1
        newest = self.read(last_checkpoint_key(self.table))
        if newest is not None:
            named = _named_version(newest)
            gets += 1
            if named is not None and self.read(checkpoint_key(self.table, named)) is not None:
                gets, version = gets + 1, named
        while self.read(entry_key(self.table, version + 1)) is not None:
            gets, version = gets + 1, version + 1
        return TableState(version=version, gets=gets)

    def write_checkpoint(self, version: int) -> None:
        """Write a checkpoint, as the writer of each tenth version does.

        The answers do not matter: no reader needs one.
        """
        written = self.store.put(checkpoint_key(self.table, version), b"%d" % version)
        if written.outcome is Outcome.APPLIED:
            newest = json.dumps({"version": version, "size": 1}).encode()
            self.store.put(last_checkpoint_key(self.table), newest)
