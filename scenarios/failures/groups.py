"""The failures of one command, grouped: one mistake of a lock breaks the same clause in dozens of scenarios."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lockref.words import counted
from scenarios.failures.kinds import FailureKind

NAMED_MAX = 8
"""Scenarios that are named in the summary line of a group; each has a line of its own before."""


class FailureName(Protocol):
    """A failure as people are told of it. id: as `FailureStore` gave it."""

    @property
    def id(self) -> str: ...
    @property
    def clause(self) -> str: ...
    @property
    def scenario(self) -> str: ...


@dataclass(slots=True)
class _Group:
    """The failures of one kind. first: the one whose block is shown. others: scenarios that show the kind, too."""

    first: FailureName
    others: list[str] = field(default_factory=list)


class FailureGroups:
    """The kinds of failure that one command has met, in the order in which they were shown.

    `FailureStore` notes the kind of each failure. Whoever prints asks `repeats`, once for each scenario.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, FailureKind] = {}
        self._groups: dict[FailureKind, _Group] = {}

    def note(self, identity: str, kind: FailureKind, *, alike: str = "") -> None:
        """Note the kind of a stored failure. alike: the id of an earlier failure that stands for this one, if any.

        Such a failure was not shrunk because the earlier one was. Its own plan still has the faults that shrinking
        would take away, so the kind of the earlier failure is the better one.
        """
        self._kinds[identity] = self._kinds.get(alike, kind)

    def repeats(self, failures: Sequence[FailureName], *, blocks_max: int) -> dict[str, str]:
        """By id, the failures of one scenario whose kind has been shown already, with the id of the one that was shown.

        The first `blocks_max` others are taken to be shown now. A failure that does not come again from its seed has no
        kind, and repeats nothing.
        """
        repeated: dict[str, str] = {}
        blocks = 0
        for failure in failures:
            kind = self._kinds.get(failure.id)
            group = None if kind is None else self._groups.get(kind)
            if group is not None:
                repeated[failure.id] = group.first.id
                if failure.scenario not in (group.first.scenario, *group.others):
                    group.others.append(failure.scenario)
            elif blocks < blocks_max:
                blocks += 1
                if kind is not None:
                    self._groups[kind] = _Group(failure)
        return repeated

    def lines(self) -> Iterator[str]:
        """A line for each kind that several scenarios show, the most frequent one first."""
        shared = [group for group in self._groups.values() if group.others]
        for group in sorted(shared, key=lambda group: -len(group.others)):
            rest = len(group.others) - NAMED_MAX
            names = ", ".join(group.others[:NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")
            show = "shows" if len(group.others) == 1 else "show"
            yield (
                f"✗ {group.first.clause}   {group.first.id} of {group.first.scenario}: "
                f"{counted(len(group.others), 'scenario')} {show} it too: {names}"
            )
