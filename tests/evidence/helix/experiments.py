"""What an experiment is given, and the ones in which both origins do the recipe's work."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kazoo.exceptions import NoNodeError

from lockref.helix.cluster.cluster_file import parse_cluster
from lockref.helix.cluster.configured import configured
from lockref.helix.cluster.declared import Cluster
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.state_model import StateModel
from tests.evidence.experiments import ROOT
from tests.evidence.helix.fleet import SELF_SENT, Fleet

COUNTS: Final = (12, 12, 16)
"""Messages of the recipe's rule for start, leave and return, where nobody sends a surplus one."""

MOVED: Final = 8
"""How many locks the rule moves when one of three leaves, and when it returns."""


def recipe_text() -> str:
    """The recipe's cluster file: twelve locks, three instances."""
    return (ROOT / "docs/examples/lock-manager.yaml").read_text(encoding="utf-8")


def with_model(model: StateModel, replicas: int) -> Cluster:
    """The recipe's cluster with another state model."""
    cluster = parse_cluster(recipe_text())
    return replace(cluster, resources=(replace(cluster.resources[0], model=model, replicas=replicas),))


@dataclass(slots=True)
class Experiment:
    """hosts: of a ZooKeeper that other experiments may use, too. say: a line of what was seen."""

    hosts: str
    log_folder: Path
    say: Callable[[str], None]
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @contextmanager
    def fleet(
        self, name: str, *, cluster: Cluster | None = None, is_configured: bool = True, **how: Any
    ) -> Iterator[Fleet]:
        """A fleet on a cluster of its own; without one, the recipe's. how: see `Fleet`."""
        found = parse_cluster(recipe_text()) if cluster is None else cluster
        named = replace(found, name=f"{name}-{next(self._numbers)}")
        with Fleet(self.hosts, named, self.log_folder, **how) as fleet:
            if is_configured:
                fleet.configure()
            yield fleet


def set_up(run: Experiment) -> bool:
    """Helix' loader and ours read the recipe's file: equal znodes with equal records, whatever the order of keys."""
    text = recipe_text()
    with run.fleet("set-up", is_configured=False) as fleet:
        named = re.sub(r"(?m)^clusterName: \S+", f"clusterName: {fleet.cluster.name}", text)
        file = run.log_folder / f"{fleet.cluster.name}.yaml"
        file.write_text(named, encoding="utf-8")
        fleet.they_configure(file)
        theirs, ours = fleet.tree.records(), configured(fleet.cluster)
        wrong = [path for path in sorted({*theirs, *ours}) if path not in theirs or path not in ours]
        wrong += [path for path in sorted({*theirs} & {*ours}) if theirs[path] != ours[path]]
        run.say(f"{len(theirs)} znodes of theirs, {len(ours)} of ours, {len(wrong)} differ")
        for path in wrong:
            run.say(f"{path}: theirs {theirs.get(path)}, ours {ours.get(path)}")
        return not wrong


def names_of(cluster: Cluster) -> list[str]:
    """The instances that the file lists, in its order."""
    return [instance.name for instance in cluster.instances]


def _are_as_many(made: Sequence[int], *, ours: Sequence[bool]) -> bool:
    """Are these the messages of the rule? ours: of each phase, whose controller led.

    Ours reads messages before current states, so that its counts are exact (T27). Helix' may send a surplus message.
    """
    return all(
        sent == count if is_ours else sent >= count for sent, count, is_ours in zip(made, COUNTS, ours, strict=True)
    )


def _recipe(run: Experiment, fleet: Fleet, is_ours: Sequence[bool], *, leads_ours: bool) -> bool:
    """Start, the first instance leaves, it returns: tables, moves, and messages.

    is_ours: for each instance of the file, whose participant it is. leads_ours: our controller leads, or Helix'.
    """
    names = names_of(fleet.cluster)
    for name, ours in zip(names, is_ours, strict=True):
        fleet.join(name, is_ours=ours)
    if leads_ours:
        fleet.we_control()
    else:
        fleet.they_control()
    made = [0, fleet.settled(*names)]
    fleet.leave(names[0])
    made.append(fleet.settled(*names[1:]))
    fleet.join(names[0], is_ours=is_ours[0])
    made.append(fleet.settled(*names))
    counts = tuple(after - before for before, after in itertools.pairwise(made))
    before, between = fleet.rule(tuple(names)), fleet.rule(tuple(names[1:]))
    moved = sum(before[lock] != between[lock] for lock in before)
    two = fleet.two_holders()
    run.say(f"every table is the rule's; moved on leave and on return {moved}; messages {counts}; two holders: {two}")
    return _are_as_many(counts, ours=(leads_ours,) * 3) and moved == MOVED and not two


def alone(run: Experiment) -> bool:
    """A participant of Helix joins where no controller is: it sends itself messages, which others must not count."""
    with run.fleet("alone") as fleet:
        first = names_of(fleet.cluster)[0]
        kinds: dict[str, str] = {}
        folder = fleet.tree.paths.instance(first).messages

        def read(names: list[str]) -> None:
            for name in names:
                with contextlib.suppress(NoNodeError):
                    body, _ = fleet.tree.client.get(f"{folder}/{name}")
                    kinds[name] = ZNRecord.from_json(body, name).simple["MSG_TYPE"]

        fleet.tree.client.ChildrenWatch(folder, read)
        fleet.they_join(first)
        fleet.until(lambda seen: seen.live == (first,) and not seen.pending, f"{first} to be live")
        made = fleet.tree.messages_made()
        run.say(f"{made} messages without a controller; types of those that could be read: {sorted({*kinds.values()})}")
        return made == SELF_SENT and {*kinds.values()} <= {"NO_OP"}


def their_controller(run: Experiment) -> bool:
    """Helix' controller, our three participants."""
    with run.fleet("their-controller") as fleet:
        return _recipe(run, fleet, (True, True, True), leads_ours=False)


def their_participants(run: Experiment) -> bool:
    """Our controller, Helix' three participants."""
    with run.fleet("their-participants") as fleet:
        return _recipe(run, fleet, (False, False, False), leads_ours=True)


def mixed_theirs(run: Experiment) -> bool:
    """Helix' controller; one participant is Helix', two are ours."""
    with run.fleet("mixed-theirs") as fleet:
        return _recipe(run, fleet, (True, False, True), leads_ours=False)


def mixed_ours(run: Experiment) -> bool:
    """Our controller; two participants are Helix', one is ours."""
    with run.fleet("mixed-ours") as fleet:
        return _recipe(run, fleet, (False, True, False), leads_ours=True)


def killed(run: Experiment) -> bool:
    """Our controller; a process of Helix with one participant ends by SIGKILL, and comes back."""
    with run.fleet("killed") as fleet:
        first, *others = names_of(fleet.cluster)
        fleet.they_join(first, process="doomed")
        for name in others:
            fleet.they_join(name)
        fleet.we_control()
        made = fleet.settled(first, *others)
        fleet.kill("doomed")
        after = fleet.settled(*others)
        fleet.they_join(first)
        back = fleet.settled(first, *others)
        two = fleet.two_holders()
        run.say(f"messages after SIGKILL {after - made}, after the return {back - after}; two holders: {two}")
        return (after - made, back - after) == COUNTS[1:] and not two


def failover(run: Experiment) -> bool:
    """Helix leads, ends, ours leads and moves locks, ends, and Helix leads again; participants of both."""
    with run.fleet("failover") as fleet:
        names = names_of(fleet.cluster)
        for name, ours in zip(names, (True, False, True), strict=True):
            fleet.join(name, is_ours=ours)
        fleet.they_control("first")
        start = fleet.settled(*names)
        fleet.we_control()
        fleet.they_stop_controlling("first")
        fleet.leave(names[0])
        left = fleet.settled(*names[1:])
        fleet.they_control("second")
        is_standing_by = not fleet.leads("second")
        fleet.we_stop_controlling()
        fleet.we_join(names[0])
        back = fleet.settled(*names)
        two = fleet.two_holders()
        run.say(f"messages under theirs {start}, ours {left - start}, theirs {back - left}; two holders: {two}")
        run.say(f"theirs stands by while ours leads: {is_standing_by}; leads afterwards: {fleet.leads('second')}")
        as_many = _are_as_many((start, left - start, back - left), ours=(False, True, False))
        return is_standing_by and fleet.leads("second") and as_many and not two


TOGETHER: Final = {
    "set-up": set_up,
    "alone": alone,
    "their-controller": their_controller,
    "their-participants": their_participants,
    "mixed-theirs": mixed_theirs,
    "mixed-ours": mixed_ours,
    "killed": killed,
    "failover": failover,
}
"""Experiments in which both do the recipe's work."""
