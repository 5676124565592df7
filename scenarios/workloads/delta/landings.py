"""Entries of a Delta log that landed: the EFFECT rows of both worlds.

A simulated store says at which instant a put took effect. A real one does not, so there whoever sends the request (a
client, or under a fault plan the process that injects) writes the row, for the instant right before the request left
(`LandingChannel`). This keeps cause and effect in order: who writes version
N + 1 has read version N before, and version N was on its way before that.

What the clients of a real run cannot know is settled from the log itself once the run is over (`settle`): puts that
landed without an answer, and which of two unconditional puts of one version came last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa

from lockref.errors import LockrefError
from lockref.history import Recorder
from lockref.ports import Channel, Reply, Request
from lockref.stores.client import PUT
from lockref.words import ABSENT, Kind, Op, Outcome
from scenarios.workloads.delta.log_files import Commit, Log, entry_key, parse_commit, parse_entry_key

SETTLED: Final = "read back"
"""The `detail` of a row that `settle` wrote: nobody was told that this entry landed."""


def record_landing(recorder: Recorder, request: Request, reply: Reply, at_ns: int) -> None:
    """Write the EFFECT row if this request put a log entry into its place; of a coalesced commit, one for each item.

    `version` is the entry's number, `content` the commit's identity, `request` the tenure behind it if there is one,
    `detail` who put it there. Source of the columns: docs/history.md.
    """
    entry = parse_entry_key(request.key) if request.verb == PUT and reply.outcome is Outcome.APPLIED else None
    if entry is not None:
        assert request.body is not None, "what is put has a body"
        commit = parse_commit(request.body)
        assert commit is not None, "every entry of this workload is one of its commits"
        _record(recorder, *entry, commit, at_ns, request.client)


def _record(recorder: Recorder, table: str, version: int, commit: Commit, at_ns: int, put_by: str) -> None:
    for identity in commit.identities:
        recorder.event(
            Kind.EFFECT, (at_ns, ABSENT, ABSENT, commit.task), commit.node, table, Op.COMMIT, Outcome.APPLIED,
            request=ABSENT if commit.tenure is None else commit.tenure, attempt=commit.attempt, version=str(version),
            content=identity, token=ABSENT if commit.token is None else commit.token, owner=commit.owner,
            detail=put_by,
        )  # fmt: skip


class LandingChannel:
    """A channel to the real store of a log, which writes down what its requests put into their places.

    true_ns: the time of the record. client: whose requests these are.
    """

    def __init__(self, channel: Channel, recorder: Recorder, true_ns: Callable[[], int], *, client: str) -> None:
        self._channel, self._recorder, self._true_ns = channel, recorder, true_ns
        self.client, self.service = client, channel.service

    @property
    def capabilities(self) -> object:
        return self._channel.capabilities

    def send(self, request: Request, timeout_ns: int) -> Reply:
        at_ns = self._true_ns()
        reply = self._channel.send(request, timeout_ns)
        record_landing(self._recorder, request, reply, at_ns)
        return reply

    def close(self) -> None:
        self._channel.close()


def settle(recorder: Recorder, events: pa.Table, logs: Iterable[Log]) -> int:
    """Write an EFFECT row for every entry that stands at the end and is not the last one recorded at its place.

    events: the run's, as recorded so far. Returns how many rows were written.
    A row is as early as its commit was called, but not before the version below it, nor before an entry that it
    replaced: so a gap (DL3) is never read out of an answer that was lost.
    Errors: LockrefError for an entry that no writer of the run has made; OutcomeUnknown if the store does not answer.
    """
    called: dict[str, int] = {}
    # By place: the operations of the last entry, when it landed, and when the first one did.
    landed: dict[tuple[str, int], tuple[set[str], int, int]] = {}
    for row in events.select(["kind", "op", "lock", "version", "content", "at_ns"]).to_pylist():
        if row["op"] != "commit" or not row["content"]:
            continue
        if row["kind"] == "call":
            called[row["content"]] = row["at_ns"]
        elif row["kind"] == "effect":
            place = row["lock"], int(row["version"])
            before, at_ns, first_ns = landed.get(place, (set(), row["at_ns"], row["at_ns"]))
            # The rows of one entry are of one instant.
            items = before if at_ns == row["at_ns"] else set()
            landed[place] = {*items, row["content"]}, row["at_ns"], first_ns
    written = 0
    for log in logs:
        below_ns, version = 0, 0
        while (body := log.read(entry_key(log.table, version))) is not None:
            commit = parse_commit(body)
            if commit is None or not called.keys() >= {*commit.identities}:
                raise LockrefError(f"version {version} of {log.table} was written by nobody of this run")
            last = landed.get((log.table, version))
            if last is not None and last[0] == {*commit.identities}:
                below_ns = last[2]
            else:
                called_ns = max(called[identity] for identity in commit.identities)
                at_ns = max(called_ns, below_ns + 1, 0 if last is None else last[1] + 1)
                _record(recorder, log.table, version, commit, at_ns, SETTLED)
                written += 1
                below_ns = at_ns if last is None else last[2]
            version += 1
    return written
