"""What a request is called in the record: there triggered faults strike, and by that renewals are measured."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

from lockref.history import Kind, Op, Recorder, to_table
from lockref.lab.contract import OneRecord
from lockref.lab.recording import Journal, recorded_store
from lockref.provider import RecordView
from lockref.runtime import WallNs
from lockref.stores.memory import MemoryStore
from lockref.stores.port import Outcome, Version, WriteReply


class LosesAnswers(MemoryStore):
    """Applies every write; tells nothing while `is_deaf`."""

    is_deaf = False

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        reply = super().put_if_version(key, body, version)
        return replace(reply, outcome=Outcome.AMBIGUOUS, version=None) if self.is_deaf else reply


def record(owner: str, token: int | None, until: int = 0, *, released: bool = False) -> bytes:
    return json.dumps({"owner": owner, "token": token, "until": until, "released": released}).encode()


def decode(body: bytes) -> RecordView:
    said = json.loads(body)
    return RecordView(
        owner=said["owner"], token=said["token"], valid_until_ns=WallNs(said["until"]), is_released=said["released"]
    )


class Desk:
    """One process's recording store, and the names of the writes that it sent."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.store = LosesAnswers()
        journal = Journal(self.recorder, node="n1", stamp=lambda: (0, 0, 0, "main"), numbers=itertools.count(1))
        self.through = recorded_store(self.store, journal=journal, decode=OneRecord(decode))

    def write(self, body: bytes) -> None:
        version = self.store.read("lock").version
        if version is None:
            self.through.put_if_absent("lock", body)
        else:
            self.through.put_if_version("lock", body, version)

    def sent(self) -> list[str]:
        rows = [row for row in to_table([self.recorder]).to_pylist() if row["kind"] == Kind.SENT.name.lower()]
        return [row["op"] for row in rows if row["op"] != Op.READ.name.lower()]


def test_the_same_grant_written_again_is_a_renewal() -> None:
    """Renewal: a live record by the owner and token of the live record before it (glossary)."""
    desk = Desk()
    for until in (10, 20, 30):
        desk.write(record("a", 1, until))
    desk.write(record("a", 1, released=True))
    assert desk.sent() == ["acquire", "renew", "renew", "release"]


def test_the_same_owner_under_another_token_asks_anew() -> None:
    """A process that was overtaken keeps its name: its next grant is no renewal of the lost one."""
    desk = Desk()
    desk.write(record("a", 1))
    desk.store.put("lock", record("b", 2))
    desk.write(record("a", 3))
    desk.write(record("a", 3, until=20))
    assert desk.sent() == ["acquire", "acquire", "renew"]


def test_a_grant_found_by_reading_is_renewed() -> None:
    """The answer to the acquiring write was lost and its bytes were read: what follows renews it."""
    desk = Desk()
    desk.write(record("b", 1, released=True))
    desk.store.is_deaf = True
    desk.write(record("a", 2))
    desk.store.is_deaf = False
    desk.through.read("lock")
    desk.write(record("a", 2, until=20))
    assert desk.sent() == ["release", "acquire", "renew"]


def test_a_lock_without_tokens_renews_under_its_owner() -> None:
    """Hudi's records carry no token; the owner alone names the grant, until it is released."""
    desk = Desk()
    for body in (record("a", None, 10), record("a", None, 20), record("a", None, released=True), record("a", None, 30)):
        desk.write(body)
    assert desk.sent() == ["acquire", "renew", "release", "acquire"]
