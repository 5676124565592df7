"""The tree of znodes as a state machine: operations in order, each of them or none of a `multi`.

It knows no time, no connection and no watch: it says which watches a change is told to, and the server keeps those.
The same operations in the same order make the same tree, so every server of an ensemble has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from lockref.coordination.port import (
    ANY_VERSION,
    CHECK,
    CREATE,
    DELETE,
    SET,
    ZNODE_BYTES_MAX,
    Change,
    Failure,
    Operation,
    Stat,
    WatchEvent,
)  # fmt: skip

ROOT: Final = "/"


class _Znode(NamedTuple):
    """Without its children, which `Tree` keeps. births: how often a child was made; it names sequential ones."""

    body: bytes
    created_zxid: int
    changed_zxid: int
    version: int = 0
    births: int = 0
    owner: int = 0
    children: int = 0


class TransactionResult(NamedTuple):
    """The result of one transaction: all its operations were done, or none, with the first failure and its path.

    stats: of each operation, its znode afterwards; None of a deleted or merely checked one.
    """

    stats: tuple[Stat | None, ...] = ()
    events: tuple[WatchEvent, ...] = ()
    failure: Failure | None = None
    path: str = ""


def parent_of(path: str) -> str:
    """The path of the znode above."""
    return path.rpartition("/")[0] or ROOT


def is_path(path: str) -> bool:
    """Absolute, without an empty, `.` or `..` part, and without a zero byte."""
    parts = path.split("/")
    return path == ROOT or (
        path.startswith("/") and all(part not in ("", ".", "..") for part in parts[1:]) and "\0" not in path
    )


class Tree:
    """zxid: the number of the last transaction. Each call of `apply` that changes something is one."""

    def __init__(self) -> None:
        self.zxid = 0
        self._znodes: dict[str, _Znode] = {ROOT: _Znode(b"", 0, 0)}
        # A dictionary as an ordered set: the order of a set's members would leak into a simulation.
        self._children: dict[str, dict[str, None]] = {ROOT: {}}
        self._owned: dict[int, dict[str, None]] = {}
        # By path, the stats that were asked for since their znodes changed.
        self._stats: dict[str, Stat] = {}

    def body(self, path: str) -> bytes | None:
        """None if there is no such znode."""
        found = self._znodes.get(path)
        return None if found is None else found.body

    def stat(self, path: str) -> Stat | None:
        known = self._stats.get(path)
        if known is None and (found := self._znodes.get(path)) is not None:
            known = self._stats[path] = _stat(path, found)
        return known

    def children(self, path: str) -> tuple[str, ...]:
        """The names below `path`, in no order that a client may rely on; here that of their creation."""
        return tuple(self._children.get(path, ()))

    def paths(self) -> list[str]:
        """Every znode, sorted."""
        return sorted(self._znodes)

    def owned_by(self, session: int) -> list[str]:
        """The ephemeral znodes of a session, in order of creation."""
        return list(self._owned.get(session, ()))

    def apply(self, operations: Sequence[Operation], session: int) -> TransactionResult:
        """Do all of these as one transaction of that session, or none of them."""
        staged: dict[str, _Znode | None] = {}
        stats: list[Stat | None] = []
        events: list[WatchEvent] = []
        zxid = self.zxid + 1
        for operation in operations:
            failure, path = self._stage(operation, session, zxid, staged, events)
            if failure is not None:
                return TransactionResult(failure=failure, path=operation.path)
            after = staged.get(path)
            stats.append(None if operation.verb == CHECK or after is None else _stat(path, after))
        if any(operation.verb != CHECK for operation in operations):
            self.zxid = zxid
            self._commit(staged)
        return TransactionResult(tuple(stats), tuple(events))

    def _stage(
        self, operation: Operation, session: int, zxid: int, staged: dict[str, _Znode | None], events: list[WatchEvent]
    ) -> tuple[Failure | None, str]:
        """One operation on what is staged so far. Returns why it fails, and the path of its znode."""
        verb, path, body, version, is_ephemeral, is_sequential = operation

        def look(at: str) -> _Znode | None:
            return staged[at] if at in staged else self._znodes.get(at)

        # A sequential znode may be all digits: its path then ends with a slash until the server has added them.
        whole = f"{path}0" if is_sequential else path
        if not is_path(whole) or (path == ROOT and verb in (CREATE, DELETE)):
            return Failure.BAD_ARGUMENTS, path
        if len(body) > ZNODE_BYTES_MAX:
            return Failure.TOO_LARGE, path
        above_path = parent_of(path)
        above = look(above_path)
        if verb == CREATE:
            if above is None:
                return Failure.NO_NODE, path
            if above.owner:
                return Failure.NO_CHILDREN_FOR_EPHEMERALS, path
            if is_sequential:
                path = f"{path}{above.births:010d}"
            if look(path) is not None:
                return Failure.NODE_EXISTS, path
            staged[path] = _Znode(body, zxid, zxid, owner=session if is_ephemeral else 0)
            staged[above_path] = above._replace(births=above.births + 1, children=above.children + 1)
            events += [WatchEvent(Change.CREATED, path), WatchEvent(Change.CHILDREN, above_path)]
            return None, path
        found = look(path)
        if found is None:
            return Failure.NO_NODE, path
        if version not in (ANY_VERSION, found.version):
            return Failure.BAD_VERSION, path
        if verb == SET:
            staged[path] = found._replace(body=body, changed_zxid=zxid, version=found.version + 1)
            events.append(WatchEvent(Change.CHANGED, path))
        elif verb == DELETE:
            if found.children:
                return Failure.NOT_EMPTY, path
            assert above is not None, "a znode has a parent"
            staged[path] = None
            staged[above_path] = above._replace(children=above.children - 1)
            events += [WatchEvent(Change.DELETED, path), WatchEvent(Change.CHILDREN, above_path)]
        else:
            assert verb == CHECK, f"znodes know no {verb!r}"
        return None, path

    def _commit(self, staged: dict[str, _Znode | None]) -> None:
        for path, after in staged.items():
            self._stats.pop(path, None)
            before = self._znodes.get(path)
            if before is not None and (after is None or after.created_zxid != before.created_zxid):
                self._forget(path, before)
            if after is not None:
                if path not in self._znodes:
                    self._children[path] = {}
                    if path != ROOT:
                        self._children.setdefault(parent_of(path), {})[path.rpartition("/")[2]] = None
                    if after.owner:
                        self._owned.setdefault(after.owner, {})[path] = None
                self._znodes[path] = after

    def _forget(self, path: str, before: _Znode) -> None:
        del self._znodes[path]
        self._children.pop(path, None)
        # A transaction that removes a znode and its parent may come here with the parent first.
        self._children.get(parent_of(path), {}).pop(path.rpartition("/")[2], None)
        if before.owner:
            self._owned[before.owner].pop(path, None)

    def close_session(self, session: int) -> TransactionResult:
        """Remove the ephemeral znodes of a session, as one transaction."""
        operations = [Operation(DELETE, path) for path in self.owned_by(session)]
        applied = self.apply(operations, session)
        assert applied.failure is None, "a session can remove what is its own"
        self._owned.pop(session, None)
        return applied


def _stat(path: str, znode: _Znode) -> Stat:
    return Stat(
        created_zxid=znode.created_zxid,
        changed_zxid=znode.changed_zxid,
        version=znode.version,
        owner=znode.owner,
        children=znode.children,
        path=path,
    )
