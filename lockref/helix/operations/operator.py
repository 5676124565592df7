"""An operator's session: reads that are answered, and writes that have happened or have not.

A write is a *plan*: a function that reads what is there and says which operations are missing. The operations carry the
versions that were read, or fail where a znode is there already. So a change that somebody else makes meanwhile is never
overwritten: the transaction fails as a whole, and the plan is asked again. The same settles a lost answer: if the
transaction has landed, nothing is missing any more. The removal of an instance or of a cluster has no versions: it
removes what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final

from lockref.coordination.port import GET, Operation, SessionState, Stat, delete
from lockref.coordination.session import COORDINATION, ReadRequest, Session
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.errors import BackendUnavailable, ConfigError, did_you_mean, quote
from lockref.helix.records import layout
from lockref.helix.records.zn_record import ZNRecord
from lockref.ports import Reply
from lockref.runtime import NS_PER_S, Runtime
from lockref.words import Outcome

REQUEST_TIMEOUT_NS: Final = 5 * NS_PER_S
SESSION_TIMEOUT_NS: Final = 20 * NS_PER_S
ATTEMPTS_MAX: Final = 10
"""So often a plan is tried, or a read repeated, before the operator is told that it did not succeed."""

PAUSE_NS: Final = NS_PER_S // 10
DELETES_AT_ONCE: Final = 500


class Operator:
    """session: open. hosts: the servers, for messages.

    Errors of all methods: BackendUnavailable where no server answers, or one refuses.
    """

    def __init__(self, session: Session, runtime: Runtime, hosts: str) -> None:
        self.runtime = runtime
        self.hosts = hosts
        self._session = session

    # Reads.

    def children(self, path: str) -> list[str]:
        """The names below a znode; none of one that is not there."""
        for _ in range(ATTEMPTS_MAX):
            reply = self._session.children(path)
            if reply.outcome is Outcome.APPLIED:
                return reply.body or []
            self._pause(reply.outcome, f"{path} could not be read: {reply.reason}")
        raise BackendUnavailable(f"{path} could not be read: {reply.reason}")

    def read(self, path: str) -> Reply:
        """The body and the `Stat` of a znode; `missing` where there is none."""
        (found,) = self.read_all([path])
        return found

    def read_all(self, paths: Iterable[str]) -> list[Reply]:
        """The same of many, in the order of the paths."""
        wanted = [ReadRequest(GET, path, is_watching=False) for path in paths]
        for _ in range(ATTEMPTS_MAX):
            replies = self._session.read_all(wanted)
            failed = next((each for each in replies if each.outcome is not Outcome.APPLIED), None)
            if failed is None:
                return replies
            self._pause(failed.outcome, f"{self.hosts} could not be read: {failed.reason}")
        raise BackendUnavailable(f"{self.hosts} could not be read: {failed.reason}" if failed else "")

    def record(self, path: str) -> tuple[ZNRecord, Stat] | None:
        """The record of a znode, and its `Stat`; None where there is none. Errors: ConfigError for another text."""
        reply = self.read(path)
        if not isinstance(reply.version, Stat):
            return None
        return ZNRecord.from_json(reply.body or b"", path), reply.version

    def below(self, root: str) -> list[str]:
        """A znode and all below it, parents first; none if it is not there."""
        if self.read(root).missing:
            return []
        paths = [root]
        for path in paths:  # Grows while it is walked.
            paths += [f"{path}/{name}" for name in self.children(path)]
        return paths

    # Clusters.

    def clusters(self) -> list[str]:
        """The clusters on the server: the znodes of the root that have what every cluster has."""
        names = [name for name in self.children("/") if name != "zookeeper"]
        replies = self.read_all(layout.ClusterPaths(name).config for name in names)
        return [name for name, reply in zip(names, replies, strict=True) if not reply.missing]

    def require_cluster(self, name: str) -> str:
        """The name of the cluster that is meant. name: "" means the only one. Errors: ConfigError."""
        if name and not self.read(layout.ClusterPaths(name).config).missing:
            return name
        if self.read("/").missing:
            raise ConfigError(f"{self.hosts} has no folder /{self.hosts.partition('/')[2]}; make it first")
        there = self.clusters()
        if not name and len(there) == 1:
            return there[0]
        if not there:
            raise ConfigError(f"there is no cluster{f' {quote(name)}' if name else ''} on {self.hosts}, nor any other")
        if not name:
            raise ConfigError(f"{self.hosts} has several clusters; name one with --cluster: {', '.join(there)}")
        near = did_you_mean(name, there)
        raise ConfigError(f"there is no cluster {quote(name)} on {self.hosts}; there is {', '.join(there)}.{near}")

    # Writes.

    def carry_out(self, plan: Callable[[], Sequence[Operation]], what: str) -> bool:
        """Carry out a plan: what it says is missing is one transaction. what: is done, for messages.

        Returns whether anything had to be written. Errors: those of the plan.
        """
        for attempt in range(ATTEMPTS_MAX):
            operations = plan()
            if not operations:
                return attempt > 0
            reply = self._session.multi(operations)
            if reply.outcome is Outcome.APPLIED:
                return True
            self._pause(reply.outcome, f"{what}: {self.hosts} refuses: {reply.reason}")
        raise BackendUnavailable(f"{what}: not done after {ATTEMPTS_MAX} attempts: {reply.reason}")

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete these, children before parents, in transactions of some hundred. One that is gone is no failure."""
        for start in range(0, len(paths), DELETES_AT_ONCE):
            part = paths[start : start + DELETES_AT_ONCE]

            def missing(part: Sequence[str] = part) -> list[Operation]:
                replies = self.read_all(part)
                return [delete(path) for path, reply in zip(part, replies, strict=True) if not reply.missing]

            self.carry_out(missing, f"delete {part[0]} and what is beside it")

    def _pause(self, outcome: Outcome, problem: str) -> None:
        """Before another attempt. Errors: BackendUnavailable with the problem where another attempt is of no use."""
        if outcome is Outcome.REJECTED or self._session.state is SessionState.LOST:
            raise BackendUnavailable(problem)
        self.runtime.sleep(PAUSE_NS)


@contextmanager
def operator_on(hosts: str, runtime: Runtime, *, auth: tuple[tuple[str, str], ...] = ()) -> Iterator[Operator]:
    """An operator's session with these servers. auth: scheme and credential. Errors: BackendUnavailable."""
    channel = ZooKeeperChannel(hosts, client="operator", service="zookeeper", auth=auth)
    with closing(COORDINATION.over(channel, REQUEST_TIMEOUT_NS)) as session:
        session.start(runtime, timeout_ns=SESSION_TIMEOUT_NS)
        yield Operator(session, runtime, hosts)
