"""The ledger of a Delta log: does it hold what its writers were told (DL1 to DL5)?

The log is the truth: an entry counts where it stands at the end of the run, and what was put over it is gone. A copy of
the same commit over itself changes nothing: whoever helps may repeat it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockref.words import Outcome
from reports.checks.facts.columns import Events, Ints
from reports.checks.facts.commits import Commits, Landings, Returns
from reports.checks.rulings import Ruling, Violations, no_violations
from reports.checks.spec import COMMITS
from reports.checks.witness_rows import witness_row

NO_COMMIT = "nothing was committed to a log"


def check_commits(events: Events, commits: Commits, run_count: int) -> list[Ruling]:
    """DL1 to DL5, in order."""
    excused = [(~commits.runs(run_count), NO_COMMIT)]
    if not len(commits.landings.row) and not len(commits.returns.row):
        return [Ruling(no_violations(clause), excused=excused) for clause in COMMITS]
    ledger = _Ledger(events, commits)
    found = [
        ledger.acknowledged_elsewhere(),
        ledger.unacknowledged_twice(),
        ledger.gaps(),
        ledger.overwritten(),
        ledger.landed_errors(),
    ]
    return [Ruling(violations, excused=excused) for violations in found]


class _Ledger:
    def __init__(self, events: Events, commits: Commits) -> None:
        self.events = events
        self.landings: Landings = commits.landings
        self.returns: Returns = commits.returns
        self.commits = commits
        self.standing = np.flatnonzero(self.landings.stands)
        self.count = commits.identity_count

    def acknowledged_elsewhere(self) -> Violations:
        """DL1: an acknowledged commit stands in no version, in several, or in another one than its writer was told."""
        place = np.full(self.count, -1, dtype=np.int64)
        place[self.landings.identity[self.standing]] = self.landings.version[self.standing]
        # A queue alone may confirm a commit without a word about its version.
        is_elsewhere = self.returns.is_acknowledged & ~(self.returns.is_queued & (self.returns.version < 0))
        is_elsewhere &= place[self.returns.identity] != self.returns.version
        bad = np.flatnonzero(self.commits.is_lost | self.commits.is_twice | is_elsewhere)

        def witness(index: int) -> dict[str, Any]:
            answer = int(bad[index])
            identity = int(self.returns.identity[answer])
            where = self._standing_of(identity)
            version = int(self.returns.version[answer])
            told = "a commit that was acknowledged" + (f" as version {version}" if version >= 0 else "")
            if not len(where):
                kind, text = "lost", f"{told} is in no version"
            elif len(where) > 1:
                versions = ", ".join(str(int(self.landings.version[each])) for each in where)
                kind, text = "duplicate", f"{told} is in versions {versions}"
            else:
                found = int(self.landings.version[where[0]])
                untold = "" if version >= 0 else ", and its writer was told none"
                kind, text = "elsewhere", f"{told} is in version {found}{untold}"
            return {**self._told(answer), "kind": kind, "text": text, "entries": self._entries(identity)}

        at_ns = np.maximum(self.returns.at_ns[bad], self._last_change(self.returns.identity[bad]))
        return Violations(clause="DL1", run=self.returns.run[bad], at_ns=at_ns, witness=witness)

    def unacknowledged_twice(self) -> Violations:
        """DL2: a commit that nobody acknowledged stands in more than one version."""
        acknowledged = np.zeros(self.count, dtype=np.bool_)
        acknowledged[self.returns.identity[self.returns.is_acknowledged]] = True
        twice = np.flatnonzero((self.commits.places > 1) & ~acknowledged)
        last = np.array([self._standing_of(int(identity))[-1] for identity in twice], dtype=np.int64)

        def witness(index: int) -> dict[str, Any]:
            identity = int(twice[index])
            versions = ", ".join(str(int(self.landings.version[each])) for each in self._standing_of(identity))
            text = f"a commit that was never acknowledged is in versions {versions}"
            return self._landed(text, self._entries(identity))

        return Violations(clause="DL2", run=self.landings.run[last], at_ns=self.landings.at_ns[last], witness=witness)

    def gaps(self) -> Violations:
        """DL3: an entry landed although a version before it is missing."""
        landings = self.landings
        first = np.flatnonzero(landings.replaces < 0)
        order = first[np.lexsort((landings.row[first], landings.log[first]))]
        bad: list[int] = []
        for begin, end in _groups(landings.log[order]):
            version = landings.version[order[begin:end]]
            highest = np.maximum.accumulate(np.append(-1, version))[:-1]
            bad += order[begin:end][version > highest + 1].tolist()
        wrong = np.array(bad, dtype=np.int64)

        def witness(index: int) -> dict[str, Any]:
            landing = int(wrong[index])
            version = int(landings.version[landing])
            text = f"version {version} was written and version {version - 1} is not there"
            return self._landed(text, [self._entry(landing)])

        return Violations(clause="DL3", run=landings.run[wrong], at_ns=landings.at_ns[wrong], witness=witness)

    def overwritten(self) -> Violations:
        """DL4: another commit was put over an entry."""
        landings = self.landings
        before = landings.replaces
        wrong = np.flatnonzero((before >= 0) & (landings.identity[np.maximum(before, 0)] != landings.identity))

        def witness(index: int) -> dict[str, Any]:
            landing = int(wrong[index])
            shown = [self._entry(int(before[landing])), self._entry(landing)]
            version = int(landings.version[landing])
            return self._landed(f"version {version} was overwritten by another commit", shown)

        return Violations(clause="DL4", run=landings.run[wrong], at_ns=landings.at_ns[wrong], witness=witness)

    def landed_errors(self) -> Violations:
        """DL5: a writer was told of an error, and its commit is in the log, or was until somebody wrote over it."""
        wrong = np.flatnonzero(self.commits.is_landed_error)

        def witness(index: int) -> dict[str, Any]:
            answer = int(wrong[index])
            return {
                **self._told(answer),
                "text": "a writer was told that its commit failed, and the commit landed",
                "entries": self._entries(int(self.returns.identity[answer])),
            }

        at_ns = np.maximum(self.returns.at_ns[wrong], self._last_change(self.returns.identity[wrong]))
        return Violations(clause="DL5", run=self.returns.run[wrong], at_ns=at_ns, witness=witness)

    def _standing_of(self, identity: int) -> Ints:
        """The versions in which a commit stands at the end."""
        found: Ints = self.standing[self.landings.identity[self.standing] == identity]
        return found

    def _last_change(self, identity: Ints) -> Ints:
        """When each of these commits landed last, or was overwritten; a very early instant for those that never did."""
        landings = self.landings
        last = np.full(self.count, np.iinfo(np.int64).min, dtype=np.int64)
        np.maximum.at(last, landings.identity, landings.at_ns)
        over = np.flatnonzero(landings.replaces >= 0)
        np.maximum.at(last, landings.identity[landings.replaces[over]], landings.at_ns[over])
        found: Ints = last[identity]
        return found

    def _told(self, answer: int) -> dict[str, Any]:
        row = int(self.returns.row[answer])
        events = self.events
        told = witness_row(events, row, outcome=Outcome(int(self.returns.outcome[answer])).name.lower())
        return {
            "table": told["key"],
            "node": told["node"],
            "identity": events.text("content", int(events.codes("content")[row])),
            "told_ns": int(self.returns.at_ns[answer]),
            "calls": [told],
        }

    @staticmethod
    def _landed(text: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
        return {"text": text, "table": entries[0]["key"], "entries": entries}

    def _entries(self, identity: int) -> list[dict[str, Any]]:
        """Every landing of a commit, and what was put over it, in the order of landing."""
        landings = self.landings
        own = np.flatnonzero(landings.identity == identity)
        over = np.flatnonzero((landings.replaces >= 0) & np.isin(landings.replaces, own))
        shown = np.union1d(own, over)
        return [self._entry(int(which)) for which in shown[np.argsort(landings.row[shown])]]

    def _entry(self, landing: int) -> dict[str, Any]:
        events, row = self.events, int(self.landings.row[landing])
        return witness_row(
            events,
            row,
            version=int(self.landings.version[landing]),
            identity=events.text("content", int(events.codes("content")[row])),
        )


def _groups(key: Ints) -> list[tuple[int, int]]:
    """Begin and end of each run of equal keys."""
    if not len(key):
        return []
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(key)], strict=True))
