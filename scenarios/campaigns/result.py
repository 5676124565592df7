"""The result of one campaign: counts, distinct failures and one running hash, added up chunk by chunk.

Its memory does not grow with the seeds, but for the histories that a campaign without a place keeps.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from lockref.lab.loading import ProviderSpec
from lockref.words import counted
from reports.checks.demands import demand_text
from reports.checks.summary import Finding, Summary
from scenarios.campaigns.account import ChunkAccount
from scenarios.campaigns.chunks import read_kept
from scenarios.campaigns.orders import Order
from scenarios.campaigns.places import Place
from scenarios.definition.draw import Draws
from scenarios.definition.fault_plan import written_faults
from scenarios.definition.schema import RENEWALS, Scenario
from scenarios.worlds.judged_result import History, JudgedResult, joined_histories
from sim.faults.fault import RequestFault

DISTINCT_MAX: Final = 100
"""Distinct failures of a campaign that are told apart; further ones are counted by clause."""


@dataclass(slots=True, kw_only=True)
class CampaignResult(JudgedResult):
    """The result of one campaign; the run numbers of its summary are seeds.

    seeds: asked for. resumed: of them, those that a former command had run and judged. chunks, done: chunks in all, and
    joined so far. compared: seeds that were run twice and gave one trace. further: clause to runs that broke it in a
    way that is not among the distinct failures, which were too many. spent_ns, processor_ns: real and processor time
    that the chunks of this command took, over all processes. kept, failures_kept: histories that are kept, and those of
    them in which a demanded clause broke. sure_faults: the ids of the faults that the scenario writes down, but for
    those that strike with a probability. effects: fault id to how often it changed something, over all runs. not_asked:
    demanded situations that no lock held by a session brings about. tables: kept histories of a campaign without a
    place. kept_in: where they are read from, of one with a place. tells_all: every distinct failure is told apart.
    leaves_histories: they stay where the executors wrote them.
    """

    seeds: int = 0
    chunks: int = 0
    done: int = 0
    resumed: int = 0
    compared: int = 0
    spent_ns: int = 0
    processor_ns: int = 0
    kept: int = 0
    failures_kept: int = 0
    further: Counter[str] = field(default_factory=Counter)
    sure_faults: tuple[str, ...] = ()
    effects: Counter[str] = field(default_factory=Counter)
    not_asked: tuple[str, ...] = ()
    tables: list[History] = field(default_factory=list)
    kept_in: Place | None = None
    tells_all: bool = True
    leaves_histories: bool = False
    _asked: tuple[str, ...] | None = None
    _trace: hashlib.blake2b = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    @classmethod
    def begun(cls, order: Order) -> CampaignResult:
        """The result of a campaign of which nothing has been joined, not even the seeds that it asks for."""
        spec, scenario = order.spec, order.scenario
        return cls(
            scenario=scenario.name,
            provider=spec.name,
            sure_faults=_sure_faults(scenario),
            summary=Summary(not_demanded=order.not_demanded),
            kept_in=order.place if order.keeps_speakers else None,
            leaves_histories=order.place is not None and not order.keeps_speakers,
            tells_all=order.keeps_speakers,
            not_asked=tuple(sorted(RENEWALS & scenario.unreachable_by(spec))),
        )

    def expect(self, order: Order) -> None:
        """Take note of the seeds of an order, and of what their runs demand together."""
        self.seeds += len(order.seeds)
        self.chunks += order.chunks
        spec, scenario = order.spec, order.scenario
        demands = scenario.demanded_of(spec, clients=scenario.clients, duration_ns=scenario.duration.least)
        self.summary.demand((scenario.name, spec.name), demands)

    @property
    def title(self) -> str:
        return f"{self.scenario} under {self.provider}"

    @property
    def digest(self) -> str:
        """One hash over all traces in the order of seeds, kept or not."""
        return self._trace.hexdigest()

    @property
    def history(self) -> History:
        """The kept histories in the order of the seeds; none where they stay where the executors wrote them."""
        kept: Sequence[History] = self.tables
        if self.kept_in is not None:
            kept = [each for number in range(self.chunks) if (each := read_kept(self.kept_in, number)) is not None]
        events, runs = joined_histories(kept)
        return events, runs if self._asked is None else _told_demands(runs, self._asked)

    @property
    def is_history_written(self) -> bool:
        return self.leaves_histories

    def ask(self, scenario: Scenario, spec: ProviderSpec, *, without: Collection[str] = ()) -> None:
        """Demand of these runs what `scenario` demands of so many seeds, but for some situations.

        without: situations that such a lock cannot bring about. The kept rows of runs say the same, so that whoever
        judges the history again asks no more.
        """
        least = _demanded_by(scenario, spec, self.seeds, without=without)
        self.summary.demanded[(scenario.name, spec.name)] = least
        self._asked = tuple(demand_text(name, count) for name, count in least.items())
        self.not_asked = ()

    @property
    def notices(self) -> list[str]:
        """The notices about the way in which the seeds were run."""
        found = [*self.notes, *self._seed_notices()]
        if self.not_asked:
            found.append(
                f"not asked of this lock: {', '.join(self.not_asked)}: a session holds it, and it declares no renewals"
            )
        if self.further:
            told = ", ".join(f"{clause} in {counted(runs, 'run')}" for clause, runs in sorted(self.further.items()))
            found.append(
                f"only the first {DISTINCT_MAX} distinct failures are told apart; of further ones there is {told}"
            )
        return [*found, *_idle_faults(self.sure_faults, self.effects, runs=self.summary.runs)]

    def _seed_notices(self) -> list[str]:
        """The notices about seeds: cut short by the time, run twice and compared, or taken over from before."""
        found = []
        if self.summary.runs < self.seeds and not self.is_interrupted and self.error is None:
            found.append(f"cut short: the time was over after {self.summary.runs:,} of {counted(self.seeds, 'seed')}")
        if self.compared:
            found.append(f"determinism: {counted(self.compared, 'seed')} run twice, event for event the same")
        if self.resumed:
            found.append(f"resumed: {counted(self.resumed, 'seed')} had been run and judged before the interruption")
        return found

    def absorb(self, account: ChunkAccount) -> list[Finding]:
        """Add the next chunk in the order of the seeds; the failures in it that are new."""
        part = account.summary(self.summary.not_demanded)
        known = {finding.key for finding in self.summary.findings}
        new: list[Finding] = []
        told: list[Finding] = []
        for finding in part.findings:
            if finding.key in known:
                told.append(finding)
            elif self.tells_all or len(known) + len(new) < DISTINCT_MAX:
                told.append(finding)
                new.append(finding)
            else:
                self.further[finding.clause] += 1 + finding.similar
        part.findings = told
        self.summary.add(part)
        for digest in account.trace_digests:
            self._trace.update(digest.encode())
        self.effects.update(account.effects)
        self.compared += account.compared
        self.kept += len(account.kept)
        self.failures_kept += len(account.failures_kept)
        self.done += 1
        return new


def _demanded_by(scenario: Scenario, spec: ProviderSpec, seeds: int, *, without: Collection[str]) -> dict[str, int]:
    """The situations that so many seeds of a scenario must bring about, and how often; `without` some of them."""
    owed = scenario.owed_by(seeds)
    return {
        name: count
        for name, count in owed.demanded(clients=owed.clients, duration_ns=owed.duration.least).items()
        if name not in {*without, *owed.unreachable_by(spec)}
    }


def _told_demands(runs: pa.Table, texts: Sequence[str]) -> pa.Table:
    """Rows of runs that say, in the place of what they said, that these situations must happen in them."""
    column = runs.column_names.index("must_happen")
    said = pa.array([list(texts)] * len(runs), runs.schema.field(column).type)
    return runs.set_column(column, runs.schema.field(column), said)


def _sure_faults(scenario: Scenario) -> tuple[str, ...]:
    """The ids of the faults that the scenario writes down, but for those that may stay away by their own words."""
    faults = written_faults(scenario, Draws(1))
    return tuple(each.id for each in faults if not (isinstance(each, RequestFault) and each.probability < 1))


def _idle_faults(sure: Sequence[str], effects: Mapping[str, int], *, runs: int) -> list[str]:
    """The notice of the faults that changed nothing in so many runs; none where each did, or nothing has run.

    sure: ids of faults, as `_sure_faults` gives them. effects: fault id to how often it changed something.
    """
    # A demand for a kind is met by any fault of that kind. Without a demand no verdict shows an idle fault.
    idle = [fault for fault in sure if not effects.get(fault)]
    if not runs or not idle:
        return []
    return [
        f"{counted(len(idle), 'fault')} of the scenario changed nothing in {counted(runs, 'run')}: {', '.join(idle)}"
    ]
