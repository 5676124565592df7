"""Objects whose one body tells of several locks: a row for each, under one request number."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

from lockref.history import Recorder, to_table
from lockref.lab.lock_rows import LockRows, Row, lock_columns
from lockref.lab.recording import Journal, recorded_store
from lockref.provider import LockView
from lockref.runtime import WallNs
from lockref.stores.memory import MemoryStore
from lockref.stores.port import ObjectStore, Version
from lockref.words import ABSENT, Kind, Op

KEY = "leases.json"


def decode(key: str, body: bytes) -> list[LockView]:
    """A JSON object: lock to owner, token, end or duration, and whether it is given back."""
    return [
        LockView(
            owner=said["owner"],
            token=said["token"],
            lock=lock,
            valid_until_ns=WallNs(said["until"]) if "until" in said else None,
            duration_ns=said.get("for"),
            is_released=said.get("released", False),
            nonce=key,
        )
        for lock, said in json.loads(body).items()
    ]


def body(**locks: dict[str, object]) -> bytes:
    return json.dumps(locks).encode()


MINE = {"owner": "me", "token": 1, "until": 500}
OTHERS = {"owner": "other", "token": 7, "for": 9_000}


class Rig:
    """Two clients of one store, each behind a recorder of its own rows."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        store = MemoryStore()
        self.me, self.other = self._client(store, "n1"), self._client(store, "n2")

    def _client(self, store: ObjectStore, node: str) -> ObjectStore:
        journal = Journal(self.recorder, node=node, stamp=lambda: (1, 2, 3, "main"), numbers=itertools.count())
        return recorded_store(store, journal=journal, decode=decode)

    def rows(self, kind: Kind, node: str = "n1") -> list[dict[str, object]]:
        table = to_table([self.recorder]).to_pylist()
        return [row for row in table if row["kind"] == kind.name.lower() and row["node"] == node]

    def sent(self, node: str = "n1") -> list[tuple[object, object, object]]:
        return [(row["request"], row["lock"], row["op"]) for row in self.rows(Kind.SENT, node)]


def test_each_lock_of_a_body_has_a_row() -> None:
    """One request, two rows: with owner, token, end or duration of each lock; the answer to a read likewise."""
    rig = Rig()
    rig.me.put_if_absent(KEY, body(a=MINE, b=OTHERS))
    first, second = rig.rows(Kind.SENT)
    assert (first["lock"], first["owner"], first["token"], first["valid_until_ns"]) == ("a", "me", 1, 500)
    assert (second["lock"], second["owner"], second["token"], second["valid_until_ns"]) == ("b", "other", 7, None)
    assert (first["detail"], second["detail"]) == (None, '{"duration_ns":9000}')
    assert first["request"] == second["request"]
    rig.other.read(KEY)
    assert [row["lock"] for row in rig.rows(Kind.REPLIED, "n2")] == ["a", "b"]


def test_what_a_write_carries_along_is_neither_asked_for_nor_renewed() -> None:
    """A client that takes lock `a` writes the state of `b` again; `b` stays the other one's."""
    rig = Rig()
    version = rig.other.put_if_absent(KEY, body(b=OTHERS)).version
    rig.me.read(KEY)
    taken = rig.me.put_if_version(KEY, body(a=MINE, b=OTHERS), Version(str(version)))
    renewed = rig.me.put_if_version(KEY, body(a={**MINE, "until": 600}, b=OTHERS), Version(str(taken.version)))
    rig.me.put_if_version(KEY, body(a={**MINE, "released": True}, b=OTHERS), Version(str(renewed.version)))
    assert [op for _, lock, op in rig.sent() if lock == "a"] == ["acquire", "renew", "release"]
    # The first time, with one lock in the body that it had read, the client has not yet seen that there are several.
    assert [op for _, lock, op in rig.sent() if lock == "b"][1:] == ["write", "write"]


def test_a_lock_that_a_body_leaves_out_is_given_back() -> None:
    """A state that drops a lock's entry releases it; to delete the object ends every lock in it."""
    rig = Rig()
    version = rig.me.put_if_absent(KEY, body(a=MINE, b=OTHERS)).version
    version = rig.me.put_if_version(KEY, body(b=OTHERS), Version(str(version))).version
    assert rig.sent()[-2:] == [(1, "b", "write"), (1, "a", "release")]
    rig.me.put_if_version(KEY, body(a=MINE, b=OTHERS), Version(str(version)))
    assert rig.sent()[-2:] == [(2, "a", "acquire"), (2, "b", "write")]
    rig.me.delete(KEY)
    assert rig.sent()[-2:] == [(3, "a", "delete"), (3, "b", "delete")]
    rig.me.put_if_absent(KEY, body(a=MINE, b=OTHERS))
    assert rig.sent()[-2:] == [(4, "a", "acquire"), (4, "b", "acquire")]


def _told(rows: Sequence[Row]) -> list[tuple[str, Op, LockView | None]]:
    """The rows without their columns, which follow from the view alone."""
    assert all(tuple(columns) == lock_columns(view) for _lock, _op, view, *columns in rows)
    return [(lock, op, view) for lock, op, view, *_columns in rows]


def test_an_object_of_one_lock_has_its_key_for_a_name() -> None:
    """Unless the view says another, and whatever the object held before."""
    rows = LockRows()
    view = LockView(owner="x")
    assert _told(rows.rows(KEY, Op.WRITE, ())) == [(KEY, Op.WRITE, None)]
    assert _told(rows.rows(KEY, Op.RENEW, (view,))) == [(KEY, Op.RENEW, view)]
    named = LockView(owner="x", lock="a")
    assert _told(rows.rows(KEY, Op.RENEW, (named,))) == [("a", Op.RENEW, named)]


def test_what_a_view_leaves_open_has_no_value() -> None:
    """Without token and end, a row has none of them: 0 would be a token, and an instant."""
    assert lock_columns(LockView(owner="x")) == (ABSENT, "x", ABSENT, "")
    assert lock_columns(LockView(owner="x", token=0, valid_until_ns=WallNs(0))) == (0, "x", 0, "")
    assert lock_columns(None) == (ABSENT, "", ABSENT, "")


def test_what_a_body_leaves_out() -> None:
    """Left out by a write: released, as it stood there; by a deletion: deleted; a read says nothing. Sorted by name."""
    rows, views = LockRows(), [LockView(owner=owner, lock=lock) for lock, owner in (("c", "z"), ("a", "x"), ("b", "y"))]
    rows.remember(KEY, views)
    assert _told(rows.rows(KEY, Op.WRITE, views[:1])) == [
        ("c", Op.WRITE, views[0]), ("a", Op.RELEASE, views[1]), ("b", Op.RELEASE, views[2]),
    ]  # fmt: skip
    assert _told(rows.rows(KEY, Op.DELETE, ())) == [(lock, Op.DELETE, None) for lock in "abc"]
    assert _told(rows.rows(KEY, Op.READ, views[:1])) == [("c", Op.READ, views[0])]
    rows.remember(KEY, ())
    assert _told(rows.rows(KEY, Op.WRITE, ())) == [(KEY, Op.WRITE, None)], "a request leaves one row at least"


def test_who_writes_over_the_records_gives_no_lock_back() -> None:
    """E25, H17: an operator's bytes release nothing; a request that leaves a lock out releases it."""
    rows, views = LockRows(), [LockView(owner="x", lock="a"), LockView(owner="y", lock="b")]
    rows.remember(KEY, views)
    assert _told(rows.rows_from_outside(KEY, Op.WRITE, ())) == [("a", Op.WRITE, None), ("b", Op.WRITE, None)]
    assert _told(rows.rows_from_outside(KEY, Op.DELETE, ())) == [("a", Op.DELETE, None), ("b", Op.DELETE, None)]
    assert list(rows.rows_from_outside(KEY, Op.WRITE, views[:1])) == list(rows.rows(KEY, Op.WRITE, views[:1]))
    assert _told(rows.rows_from_outside("other", Op.WRITE, ())) == [("other", Op.WRITE, None)]


def test_a_lock_without_a_name_has_the_objects_even_among_others() -> None:
    """Carried, left out or deleted: its rows are under the key."""
    rows, views = LockRows(), [LockView(owner="x"), LockView(owner="y", lock="b")]
    assert [row[0] for row in rows.rows(KEY, Op.WRITE, views)] == [KEY, "b"]
    rows.remember(KEY, views)
    assert [row[:2] for row in rows.rows(KEY, Op.WRITE, views[1:])] == [("b", Op.WRITE), (KEY, Op.RELEASE)]
    assert [row[:2] for row in rows.rows(KEY, Op.DELETE, ())] == [(KEY, Op.DELETE), ("b", Op.DELETE)]
