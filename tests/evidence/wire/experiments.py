"""Released locks when something goes wrong: each experiment is one run of `lockref wire`, judged by clauses.

An experiment names the program, the plan, and the clauses that break; every other clause must not. What it shows is a
sentence in docs/findings.md, with the command that shows it again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from lockref.runtime import NS_PER_S
from lockref.words import Op, Outcome
from reports.checks.verdicts import decide
from scenarios.definition.load import load_scenario
from scenarios.wire.run import WireOutcome, run_wire
from scenarios.wire.settings import WireSettings
from tests.evidence.wire import programs

PLANS: Final = programs.FILES / "plans"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One run of a released program.

    argv: made when the program is there; raises BackendUnavailable where it cannot be had. plan: a file of `PLANS`.
    breaks: the clauses that this program breaks here. may_break: those that it breaks in some runs only, by chance.
    shows: what the run shows, in one sentence. lasting_s, validity_s, handover_s: as for `lockref wire`.
    """

    name: str
    argv: Callable[[], tuple[str, ...]]
    plan: str
    shows: str
    breaks: tuple[str, ...] = ()
    may_break: tuple[str, ...] = ()
    backend: str = "ministack"
    protects: str = "state/*"
    decoder: str = "auto"
    clients: int = 2
    lasting_s: int = 60
    validity_s: int | None = None
    handover_s: int = 10
    templates: tuple[str, ...] = ()


def _worker(cycles: int, hold: str, ttl: str, *more: str) -> Callable[[], tuple[str, ...]]:
    script = str(programs.FILES / "s3_locks_worker.py")
    return lambda: (str(programs.s3_locks()), "-I", script, str(cycles), hold, ttl, *more)


def _gcslock(cycles: int, hold: str, expiry: str) -> Callable[[], tuple[str, ...]]:
    script = str(programs.FILES / "gcslock.sh")
    return lambda: ("sh", script, str(programs.gcslock()), str(cycles), hold, expiry)


def _bucket_locker(cycles: int, hold: str) -> Callable[[], tuple[str, ...]]:
    script = str(programs.FILES / "bucket_locker_worker.py")
    return lambda: (str(programs.bucket_locker()), "-I", script, str(cycles), hold)


def _apply(hold: str, cycles: int, patience: str) -> Callable[[], tuple[str, ...]]:
    script = str(programs.FILES / "apply.sh")
    return lambda: ("sh", script, str(programs.opentofu()), hold, str(cycles), patience)


def _forced() -> tuple[str, ...]:
    return ("sh", str(programs.FILES / "force_unlock.sh"), str(programs.opentofu()), "{client}")


def _leaser(cycles: int, hold: str, ttl: str) -> Callable[[], tuple[str, ...]]:
    return lambda: (str(programs.litestream_leaser()), str(cycles), hold, ttl)


_STATE: Final = "*.tfstate"
_BACKEND: Final = ("main.tf",)
_FAKE: Final = "fake-gcs-server"
_THERE: Final = "exists:locks/*"

EXPERIMENTS: Final = {
    each.name: each
    for each in (
        Experiment(
            name="s3-locks", argv=_worker(10, "0.2", "2"), plan="no-fault",
            shows="undisturbed, two clients take turns, and nobody writes outside its grant",
        ),
        Experiment(
            name="s3-locks-paused", argv=_worker(20, "0.2", "2"), plan="paused-holder", breaks=("S4",),
            shows="a holder that was stopped beyond its lease writes over its successor: nothing renews and "
            "nothing asks",
        ),
        Experiment(
            name="s3-locks-lost-grant", argv=_worker(5, "0.2", "3"), plan="lost-grant",
            shows="the SDK's own retry meets the lock that was just made (412); its author waits for its own "
            "lease to end",
        ),
        Experiment(
            name="s3-locks-killed", argv=_worker(5, "0.2", "3"), plan="killed-holder",
            shows="the next client takes a killed holder's lock when its lease is over",
        ),
        Experiment(
            name="s3-locks-failed-read", argv=_worker(20, "0.2", "3"), plan="failed-read",
            shows="a failed read ends the program: None is taken apart (TypeError)",
        ),
        Experiment(
            name="s3-locks-clocks", argv=_worker(10, "0.2", "2"), plan="clocks-apart", breaks=("S5",),
            may_break=("S4",),
            shows="a client whose clock is ahead takes a live lock: the end is compared with the own clock, "
            "without margin",
        ),
        Experiment(
            name="s3-locks-create", argv=_worker(1, "1", "2", "create"), plan="paused-creators", breaks=("S4",),
            shows="get_or_create writes the object without a condition after its lease",
        ),
        Experiment(
            name="gcslock", argv=_gcslock(4, "0.3", "3"), plan="no-fault", backend=_FAKE,
            shows="undisturbed, two clients take turns",
        ),
        Experiment(
            name="gcslock-paused", argv=_gcslock(8, "0.5", "2"), plan="paused-holder", backend=_FAKE,
            breaks=("S4",), may_break=("S1", "S6"),
            shows="a holder that was stopped beyond its lease writes over its successor; the release names the "
            "generation, which this server ignores (S1: the store's fault)",
        ),
        Experiment(
            name="gcslock-lost-grant", argv=_gcslock(3, "0.3", "3"), plan="lost-grant", backend=_FAKE,
            shows="no retry: the command fails, and its lock keeps everybody out until it expires",
        ),
        Experiment(
            name="gcslock-killed", argv=_gcslock(4, "0.3", "3"), plan="killed-holder", backend=_FAKE,
            shows="the next client takes a killed holder's lock when it has expired",
        ),
        Experiment(
            name="gcslock-clocks", argv=_gcslock(2, "3", "8"), plan="clocks-apart", backend=_FAKE, breaks=("S5",),
            may_break=("S1", "S4", "S6"),
            shows="a client whose clock is ahead takes a live lock",
        ),
        Experiment(
            name="bucket-locker", argv=_bucket_locker(4, "0.3"), plan="no-fault", backend=_FAKE, decoder=_THERE,
            shows="undisturbed, two clients take turns",
        ),
        Experiment(
            name="bucket-locker-paused", argv=_bucket_locker(4, "0.3"), plan="paused-holder", backend=_FAKE,
            decoder=_THERE,
            shows="no lease: nobody takes over, so nobody writes over anybody; the others wait",
        ),
        Experiment(
            name="bucket-locker-lost-grant", argv=_bucket_locker(2, "0.3"), plan="lost-grant", backend=_FAKE,
            decoder=_THERE, breaks=("L1",), validity_s=5, handover_s=10, lasting_s=70,
            shows="the client's own retry meets the lock that was just made (412), and keeps everybody out, itself too",
        ),
        Experiment(
            name="bucket-locker-killed", argv=_bucket_locker(3, "0.3"), plan="killed-first-holder", backend=_FAKE,
            decoder=_THERE, breaks=("L1", "L2"), validity_s=5, handover_s=10, lasting_s=40,
            shows="a killed holder keeps everybody out until somebody deletes its lock by hand",
        ),
        Experiment(
            name="opentofu", argv=_apply("1", 2, "60s"), plan="no-fault", handover_s=20, lasting_s=120,
            protects=_STATE, templates=_BACKEND,
            shows="undisturbed, applies take turns; the state is written without a condition and without a "
            "fence",
        ),
        Experiment(
            name="opentofu-paused", argv=_apply("1", 1, "60s"), plan="paused-holder", handover_s=20,
            lasting_s=120, protects=_STATE, templates=_BACKEND,
            shows="without a lease nobody takes a stopped holder's lock, so nobody writes over anybody",
        ),
        Experiment(
            name="opentofu-lost-grant", argv=_apply("1", 1, "100s"), plan="lost-grant", breaks=("L1",), clients=2,
            validity_s=5, handover_s=18, lasting_s=70, protects=_STATE, templates=_BACKEND,
            shows="the SDK's own retry meets the lock that was just made: OpenTofu names its own lock as "
            "somebody else's and keeps everybody out for ever",
        ),
        Experiment(
            name="opentofu-killed", argv=_apply("1", 1, "100s"), plan="killed-first-holder", breaks=("L1", "L2"),
            validity_s=5, handover_s=18, lasting_s=70, protects=_STATE, templates=_BACKEND,
            shows="a killed holder keeps everybody out until somebody unlocks by force",
        ),
        Experiment(
            name="opentofu-two-unlocks", argv=_forced, plan="two-unlocks", breaks=("S4", "S6"), clients=3,
            handover_s=25, lasting_s=120, protects=_STATE, templates=_BACKEND,
            shows="a late unlock deletes the next holder's lock, because it compares first and deletes without "
            "a condition; two applies work at once, and a state is written outside its lock",
        ),
        Experiment(
            name="litestream", argv=_leaser(6, "300ms", "3s"), plan="no-fault", breaks=("S2",),
            shows="the generation starts at 1 again after each release: it is no fencing token",
        ),
        Experiment(
            name="litestream-paused", argv=_leaser(12, "600ms", "2s"), plan="paused-holder", breaks=("S2",),
            may_break=("S4",),
            shows="a holder that was stopped beyond its lease learns of its loss at its next renewal, if it "
            "renews before it writes",
        ),
        Experiment(
            name="litestream-lost-grant", argv=_leaser(3, "300ms", "3s"), plan="lost-grant", breaks=("S2",),
            shows="the SDK's own retry meets the lease that was just made (412); its owner waits for its own "
            "lease to end",
        ),
        Experiment(
            name="litestream-lost-renewal", argv=_leaser(2, "4s", "3s"), plan="lost-renewal", breaks=("S2",),
            may_break=("L1", "L3"),
            shows="a renewal that landed is taken for a loss: the holder gives up a lease that is its own, and "
            "keeps everybody out until it ends",
        ),
        Experiment(
            name="litestream-killed", argv=_leaser(4, "300ms", "3s"), plan="killed-holder", breaks=("S2",),
            shows="the next client takes a killed holder's lease when it is over, under the next generation",
        ),
        Experiment(
            name="litestream-late-unlock", argv=_leaser(4, "300ms", "3s"), plan="late-unlock", breaks=("S2",),
            shows="a late release is conditional: it is refused, and spares the successor's lease",
        ),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a run showed. gap_s: the longest time between two grants, in seconds; None with fewer than two."""

    outcome: WireOutcome
    broken: tuple[str, ...]
    is_expected: bool
    gap_s: float | None
    reasons: tuple[str, ...]


def show(experiment: Experiment, folder: Path) -> Shown:
    """Run one experiment and compare what broke with what is expected.

    folder: where the run records. Errors: BackendUnavailable where the program or the server cannot be had.
    """
    settings = WireSettings(
        argv=experiment.argv(),
        clients=experiment.clients,
        plan=load_scenario(PLANS / f"{experiment.plan}.yaml"),
        protects=(experiment.protects,),
        decoder=experiment.decoder,
        lasting_ns=experiment.lasting_s * NS_PER_S,
        templates=tuple(programs.FILES / name for name in experiment.templates),
        validity_ns=None if experiment.validity_s is None else experiment.validity_s * NS_PER_S,
        handover_ns=experiment.handover_s * NS_PER_S,
    )
    outcome = run_wire(experiment.backend, settings, folder=folder)
    verdicts = decide(outcome.summary)
    broken = tuple(name for name, verdict in verdicts.clauses.items() if verdict == "violated")
    is_expected = set(experiment.breaks) <= set(broken) <= {*experiment.breaks, *experiment.may_break}
    return Shown(
        outcome=outcome,
        broken=broken,
        is_expected=is_expected and (bool(broken) or verdicts.safety == "held"),
        gap_s=_longest_gap_s(outcome),
        reasons=verdicts.reasons,
    )


def _longest_gap_s(outcome: WireOutcome) -> float | None:
    rows = outcome.events.to_pylist()
    granted = [
        row["at_ns"]
        for row in rows
        if (row["kind"], row["op"], row["outcome"])
        == ("replied", Op.ACQUIRE.name.lower(), Outcome.APPLIED.name.lower())
    ]
    return float(np.diff(granted).max()) / NS_PER_S if len(granted) > 1 else None


def tell(experiment: Experiment, shown: Shown) -> None:
    """One experiment in a line or two."""
    gap = "" if shown.gap_s is None else f", at most {shown.gap_s:.1f} s between two grants"
    grants = shown.outcome.summary.reach.get("grant", (0, 0))[1]
    faults = ", ".join(f"{name} x{count}" for name, count in shown.outcome.fired.items()) or "none"
    mark = "as expected" if shown.is_expected else "NOT AS EXPECTED"
    broken = ", ".join(shown.broken) or "nothing"
    sys.stdout.write(f"{experiment.name}: breaks {broken} ({mark}); {grants} grants{gap}; faults {faults}\n")
    for line in (*shown.reasons, *shown.outcome.notices[1:]):
        sys.stdout.write(f"    {line}\n")
    sys.stdout.flush()
