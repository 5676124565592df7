"""Scripts of requests to a coordination service, and what came of each: one source for the modelled and the real one.

A script gets two sessions and returns what it saw. Transaction numbers and sessions are numbered by first appearance,
so that what a modelled service and a real one showed can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from lockref.coordination.port import (
    EXISTS,
    GET,
    NamesReply,
    Operation,
    SessionState,
    Stat,
    WatchEvent,
    change,
    check,
    create,
    delete,
)  # fmt: skip
from lockref.coordination.session import PIPELINED_MAX, ReadRequest, Session
from lockref.ports import Reply
from lockref.runtime import NS_PER_S

EVENT_WAIT_NS = 3 * NS_PER_S


@dataclass
class Scene:
    """Two sessions of one service. expire: end a session behind its client's back. root: a folder of its own."""

    first: Session
    second: Session
    expire: Callable[[Session], None]
    root: str = ""
    _numbers: dict[str, dict[int, int]] = field(default_factory=dict)

    def at(self, path: str) -> str:
        return f"{self.root}{path}"

    def seen(self, answer: Reply | NamesReply | WatchEvent | SessionState | None) -> Any:
        """An answer in words that do not depend on who gave it."""
        if isinstance(answer, WatchEvent):
            return (answer.change.value, answer.path.removeprefix(self.root))
        if not isinstance(answer, Reply | NamesReply):
            return None if answer is None else answer.value
        stat = answer.version
        shown: tuple[Any, ...] = ()
        if isinstance(stat, Stat):
            shown = (
                self._number("zxid", stat.created_zxid),
                stat.version,
                self._number("session", stat.owner),
                stat.children,
                stat.path.removeprefix(self.root),
            )
        reason = answer.reason.partition(":")[0]
        return (answer.outcome.name, reason, answer.missing, answer.body, shown)

    def _number(self, kind: str, value: int) -> int:
        if value == 0:
            return 0
        known = self._numbers.setdefault(kind, {})
        return known.setdefault(value, len(known) + 1)

    def events(self, session: Session, count: int) -> list[Any]:
        """The next events; fewer if they do not come. Sorted: events of one transaction have no order."""
        found: list[Any] = []
        while len(found) < count:
            event = session.next_event(EVENT_WAIT_NS)
            # Whether a session falls silent before it is lost depends on how the connection ends.
            if event not in (SessionState.SUSPENDED, SessionState.CONNECTED):
                found.append(self.seen(event))
        return sorted(found, key=str)


Script = Callable[[Scene], list[Any]]


def one_znode(scene: Scene) -> list[Any]:
    """Create, create again, read, write on conditions, delete."""
    s, path = scene.first, scene.at("/a")
    seen = [scene.seen(each) for each in (s.get(path), s.create(path, b"x"), s.create(path, b"y"), s.get(path))]
    stat = s.get(path).version
    assert isinstance(stat, Stat), "the znode is there"
    seen += [scene.seen(each) for each in (s.set(path, b"y", stat), s.set(path, b"z", stat), s.delete(path, stat))]
    seen += [scene.seen(each) for each in (s.set(path, b"z"), s.get(path), s.delete(path), s.delete(path))]
    return [*seen, scene.seen(s.set(path, b"z")), scene.seen(s.create(scene.at("/no/parent")))]


def children_and_sequence(scene: Scene) -> list[Any]:
    """Names of sequential znodes count the children that were made; a znode with children stays."""
    s = scene.first
    seen = [s.create(scene.at("/q")), s.create(scene.at("/q/n-"), is_sequential=True)]
    seen += [s.create(scene.at("/q/x")), s.delete(scene.at("/q/x"))]
    seen += [s.create(scene.at("/q/n-"), is_sequential=True), s.delete(scene.at("/q")), s.children(scene.at("/q"))]
    seen += [s.children(scene.at("/absent")), s.exists(scene.at("/q")), s.exists(scene.at("/absent"))]
    return [scene.seen(each) for each in seen]


def transactions(scene: Scene) -> list[Any]:
    """All or nothing; the answer names the operation that failed."""
    s, at = scene.first, scene.at
    seen = [s.multi([create(at("/a"), b"1"), create(at("/a/b"), b"2"), change(at("/a"), b"3")])]
    seen += [s.get(at("/a")), s.multi([create(at("/c")), check(at("/a"), 7)]), s.get(at("/c"))]
    seen += [s.multi([check(at("/a"), 1), delete(at("/a/b")), delete(at("/a"))]), s.get(at("/a"))]
    seen += [s.multi([create(at("/d")), create(at("/d"))]), s.exists(at("/d"))]
    seen += [s.multi([create(at("/d")), delete(at("/d")), create(at("/d"), b"again")]), s.get(at("/d"))]
    return [scene.seen(each) for each in seen]


def watches(scene: Scene) -> list[Any]:
    """A watch tells once; a read watches what is there, `exists` also what is not yet."""
    a, b, at = scene.first, scene.second, scene.at
    a.create(at("/w"), b"0")
    b.sync(at("/w"))
    b.get(at("/w"), is_watching=True)
    b.children(at("/w"), is_watching=True)
    b.exists(at("/w/new"), is_watching=True)
    b.get(at("/w/new"), is_watching=True)
    a.set(at("/w"), b"1")
    a.set(at("/w"), b"2")
    first = scene.events(b, 1)
    a.create(at("/w/new"))
    a.create(at("/w/other"))
    second = scene.events(b, 2)
    b.sync(at("/w"))
    b.get(at("/w/new"), is_watching=True)
    b.children(at("/w/new"), is_watching=True)
    a.delete(at("/w/new"))
    return [first, second, scene.events(b, 1)]


def ephemerals(scene: Scene) -> list[Any]:
    """They have no children, name their session, and go with it: when it is closed and when it is ended."""
    a, b, at = scene.first, scene.second, scene.at
    a.create(at("/live"))
    seen = [scene.seen(a.create(at("/live/a"), is_ephemeral=True)), scene.seen(a.create(at("/live/a/x")))]
    b.sync(at("/live"))
    seen += [scene.seen(b.exists(at("/live/a"), is_watching=True)), scene.seen(b.set(at("/live/a"), b"by b"))]
    seen.append(scene.events(b, 1))
    b.exists(at("/live/a"), is_watching=True)
    scene.expire(a)
    seen.append(scene.events(b, 1))
    seen.append(scene.seen(b.exists(at("/live/a"))))
    a.get(at("/live"))
    return [*seen, scene.events(a, 1), a.state.value, scene.seen(a.create(at("/live/late"), is_ephemeral=True))]


def many_reads(scene: Scene) -> list[Any]:
    """Many reads at once are answered as one after the other, each with its own watch, told once."""
    s, other, at = scene.first, scene.second, scene.at
    s.create(at("/m"), b"0")
    names = [at(f"/m/{number:03}") for number in range(PIPELINED_MAX + 3)]
    s.multi([create(name, name[-3:].encode()) for name in names])
    reads = [ReadRequest(GET, name, is_watching=False) for name in names]
    seen = [scene.seen(each) for each in s.read_all(reads)]
    mixed = [
        ReadRequest(EXISTS, at("/m/absent")),
        ReadRequest(GET, names[0]),
        ReadRequest(GET, at("/absent")),
    ]
    seen += [scene.seen(each) for each in [*s.read_all(mixed), *s.children_of_all([at("/m")])]]
    seen += [scene.seen(each) for each in s.read_all([ReadRequest(GET, names[0]), ReadRequest(GET, names[0])])]
    other.set(names[0], b"new")
    seen += scene.events(s, 1)
    other.delete(names[1])
    other.create(at("/m/absent"))
    return [*seen, *scene.events(s, 2), *map(scene.seen, s.read_all([]))]


def whole_trees(scene: Scene) -> list[Any]:
    """A tree goes in one transaction, children before parents, and its root may come back in the same one."""
    first = scene.first
    made = [create(scene.at(path)) for path in ("/t", "/t/a", "/t/a/x", "/t/b")]
    gone = [delete(scene.at(path)) for path in ("/t/a/x", "/t/a", "/t/b", "/t")]
    seen = [scene.seen(first.multi(each)) for each in (made, gone, made, [*gone, create(scene.at("/t"))])]
    return [*seen, *(scene.seen(first.exists(scene.at(path))) for path in ("/t", "/t/a", "/t/b"))]


SCRIPTS: tuple[Script, ...] = (
    one_znode, children_and_sequence, transactions, whole_trees, watches, ephemerals, many_reads,
)  # fmt: skip

_paths = st.sampled_from(["/x", "/y", "/x/p", "/x/q", "/y/p"])
_versions = st.sampled_from([-1, -1, 0, 1])
_bodies = st.sampled_from([b"", b"1", b"2"])
OPERATIONS = st.one_of(
    st.builds(create, _paths, _bodies, is_ephemeral=st.booleans(), is_sequential=st.sampled_from([False, False, True])),
    st.builds(change, _paths, _bodies, _versions),
    st.builds(delete, _paths, _versions),
    st.builds(check, _paths, _versions),
)
STEPS = st.lists(
    st.tuples(st.booleans(), st.lists(OPERATIONS, min_size=1, max_size=3)), min_size=1, max_size=12
)  # fmt: skip
"""Steps of random scripts: whose session, and the operations of one transaction."""


def random_script(steps: list[tuple[bool, list[Operation]]]) -> Script:
    """Each step as one transaction; at the end every path is read."""

    def script(scene: Scene) -> list[Any]:
        seen = []
        for is_first, operations in steps:
            session = scene.first if is_first else scene.second
            session.sync(scene.at("/"))
            placed = [operation._replace(path=scene.at(operation.path)) for operation in operations]
            seen.append(scene.seen(session.multi(placed)))
        scene.first.sync(scene.at("/"))
        for path in ("/x", "/y", "/x/p", "/x/q", "/y/p"):
            seen += [scene.seen(scene.first.get(scene.at(path))), scene.seen(scene.first.children(scene.at(path)))]
        return seen

    return script
