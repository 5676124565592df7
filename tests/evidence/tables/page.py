"""The page of a run, as Markdown: the verdict, each check, and what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lockref.words import counted
from reports.checks.verdicts import Verdicts
from reports.formats.exit_codes import HELD, INCONCLUSIVE, VIOLATED
from reports.formats.markdown import table
from tests.evidence.tables.attempts import ACKNOWLEDGED, REFUSED, UNKNOWN
from tests.evidence.tables.measuring import ClientCost, Spread
from tests.evidence.tables.rewrites import lost_files
from tests.evidence.tables.run import TableRun
from tests.evidence.tables.validation import Finding

_MEBI: Final = 1 << 20
_UNKNOWN_TOLD_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a run came to. findings: on the table. verdicts: on the lock's clauses.

    doubts: why it proves less than it seems.
    """

    findings: Sequence[Finding]
    verdicts: Verdicts
    doubts: Sequence[str]

    @property
    def broken(self) -> list[str]:
        """What broke: checks of the table, and clauses of the lock."""
        clauses = [name for name, verdict in self.verdicts.clauses.items() if verdict == "violated"]
        return [finding.check for finding in self.findings if not finding.holds] + clauses

    @property
    def code(self) -> int:
        """0: all held; 1: something broke; 3: too little happened to say."""
        if self.broken:
            return VIOLATED
        return INCONCLUSIVE if self.doubts else HELD

    @property
    def sentence(self) -> str:
        """The verdict in a line."""
        if self.broken:
            return f"BROKEN: {', '.join(self.broken)}"
        return f"inconclusive: {'; '.join(self.doubts)}" if self.doubts else "held: nothing was lost, doubled or undone"


def doubts_about(run: TableRun, verdicts: Verdicts) -> list[str]:
    """Why the run proves less than it seems."""
    found = []
    for client, roles in zip(run.settings.clients, run.settings.jvms, strict=True):
        for role in roles:
            its = [each for each in run.attempts if (each.client, each.role) == (client, role)]
            if not any(each.outcome == ACKNOWLEDGED for each in its):
                found.append(f"{role} of {client} had no acknowledged batch")
    if "is_cut_off" in run.wire.runs.column_names and any(run.wire.runs["is_cut_off"].to_pylist()):
        found.append("the time was over before the roles were")
    found += [f"{fault} never struck" for fault, count in run.wire.fired.items() if not count]
    if run.settings.lock == "storage" and verdicts.safety == "inconclusive":
        found += verdicts.reasons
    return found


def page(run: TableRun, judgement: Judgement, costs: Sequence[ClientCost]) -> str:
    """The whole page."""
    return "".join(_parts(run, judgement, costs))


def _parts(run: TableRun, judgement: Judgement, costs: Sequence[ClientCost]) -> Iterator[str]:
    settings = run.settings
    roles = "; ".join(f"{name}: {', '.join(its)}" for name, its in zip(settings.clients, settings.jvms, strict=True))
    outcomes = Counter(each.outcome for each in run.attempts if each.rows)
    yield "# Hudi's table under its lock\n\n"
    yield f"**{judgement.sentence}**\n\n"
    yield (
        f"Hudi's provider over a client of ours, lock `{settings.lock}`, on {run.wire.server}; "
        f"{counted(len(settings.jvms), 'JVM')} ({roles}); seed {settings.seed}; {run.lasting_s:.0f} s "
        f"(load {run.loads[0]:.1f} at the beginning, {run.loads[1]:.1f} at the end)"
        f"{'; each SQL statement lists the files anew' if settings.refresh else ''}. "
        f"Batches: {outcomes[ACKNOWLEDGED]} acknowledged, {outcomes[REFUSED]} refused, {outcomes[UNKNOWN]} unknown.\n\n"
    )
    faults = ", ".join(f"{name} struck {count}×" for name, count in run.wire.fired.items())
    yield f"Faults: {faults}.\n\n" if faults else ""
    yield "## The table\n\n"
    yield table(
        ("check", "asked", "verdict", "what broke"),
        [(f.check, str(f.asked), "holds" if f.holds else "BROKEN", "; ".join(f.broken)) for f in judgement.findings],
    )
    if run.timeline is not None:
        done = Counter(instant.action for instant in run.timeline.instants.values() if instant.is_completed)
        unfinished = sum(not instant.is_completed for instant in run.timeline.instants.values())
        told = ", ".join(f"{count} {action}" for action, count in sorted(done.items()))
        yield f"\nTimeline: {told or 'nothing completed'}; {unfinished} unfinished.\n"
        lost = lost_files(run.wire.events, run.timeline)
        yield "\n## Changes in files that nobody reads\n\n" if lost else ""
        yield "".join(f"- {line}\n" for line in lost)
    yield "\n## The lock\n\n"
    applied = {name: verdict for name, verdict in judgement.verdicts.clauses.items() if verdict != "not_applicable"}
    is_seen = any(each.holds for each in costs)
    yield ", ".join(f"{name} {verdict}" for name, verdict in applied.items()) if is_seen else "No lock was seen."
    yield "\n\n"
    yield "".join(f"- {line}\n" for line in (*run.wire.notes, *judgement.doubts))
    yield "\n## Commits, seconds\n\n"
    yield table(
        ("client", "operation", "commits", "median", "longest"),
        [(c.client, op, str(s.count), _s(s.median_s), _s(s.longest_s)) for c in costs for op, s in c.commits.items()],
    )
    yield "\n## Lock and processes\n\n"
    yield table(
        (
            "client", "refusals", "lock holds", "hold, s: median, longest", "wait, s: median, longest",
            "lock's share of commit time", "CPU, s", "memory at most, MiB", "network, MiB", "HTTP requests",
        ),
        [_row(run, each) for each in costs],
    )  # fmt: skip
    unknown = [each for each in run.attempts if each.outcome == UNKNOWN]
    if unknown:
        yield "\n## Attempts whose outcome is unknown\n\n"
        yield table(("batch", "error"), [(each.batch, each.error) for each in unknown[:_UNKNOWN_TOLD_MAX]])
        more = len(unknown) - _UNKNOWN_TOLD_MAX
        yield f"\n… and {more} more.\n" if more > 0 else ""


def _row(run: TableRun, each: ClientCost) -> tuple[str, ...]:
    usage = run.usage.get(each.client)
    return (
        each.client,
        str(each.refused),
        str(each.holds.count if each.holds else 0),
        _spread(each.holds),
        _spread(each.waits),
        "–" if each.lock_share is None else f"{each.lock_share:.0%}",
        "–" if usage is None else f"{usage.cpu_s:.0f}",
        "–" if usage is None else f"{usage.rss_max / _MEBI:.0f}",
        f"{run.wire.carried.get(each.client, 0) / _MEBI:.1f}",
        str(each.requests),
    )


def _s(seconds: float) -> str:
    return f"{seconds:.2f}"


def _spread(spread: Spread | None) -> str:
    return "–" if spread is None else f"{_s(spread.median_s)}, {_s(spread.longest_s)}"
