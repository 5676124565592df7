"""Running scenarios: one seed, many seeds, or a real store.

`run_simulated` is one seed; `simulate_many` is many seeds over processes; `run_real` is contention on a real store.
All give the two tables of `lockref.history` that `reports.checks.judgement` takes.
"""

from __future__ import annotations

from scenarios.batch import Batch, simulate_many
from scenarios.worlds.real import RealOutcome, require_counts, require_feasible, run_real
from scenarios.worlds.simulated import RunOutcome, run_simulated

__all__ = [
    "Batch",
    "RealOutcome",
    "RunOutcome",
    "require_counts",
    "require_feasible",
    "run_real",
    "run_simulated",
    "simulate_many",
]
