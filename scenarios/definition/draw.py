"""A scenario under one seed: every range and choice drawn, so that only numbers are left.

Each quantity draws from a stream named after its place in the file, so that a
new key moves no other draw. What varies per cycle (think, hold, …) stays a
range here; clients draw it as they live.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lockref.grammar import decimal
from lockref.history import RunRow
from lockref.lab.loading import ProviderSpec
from lockref.provider import LockSettings
from lockref.runtime import NS_PER_MS
from lockref.storage.config import timing_faults
from scenarios.definition.client_profile import ClientProfile
from scenarios.definition.faults import rates_of
from scenarios.definition.mixture import Mixture
from scenarios.definition.schema import Lock, Scenario, Work
from scenarios.definition.units import DrawnNumber
from sim.kernel.streams import stream


class Draws:
    """Draws the quantities of one seed, by their place in the file."""

    __slots__ = ("_seed",)

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, drawn: DrawnNumber, place: str) -> int:
        if drawn.is_constant:
            return drawn.choices[0]
        return drawn.draw(stream(self._seed, f"scenario/{place}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnScenario:
    """The numbers of one run. Durations in nanoseconds.

    heal_at_ns: true time after which nothing disturbs the run; None where the
        scenario names none.
    """

    validity_ns: int
    renew_interval_ns: int
    poll_interval_ns: int
    drift_bound_ns: int
    duration_ns: int
    heal_at_ns: int | None

    def lock_settings(self, lock: Lock, *, key: str) -> LockSettings:
        """The settings that the provider gets. key: of the lock, in a simulation the default one of its kind."""
        return LockSettings(
            key=key,
            validity_ns=self.validity_ns,
            renew_interval_ns=self.renew_interval_ns,
            poll_interval_ns=self.poll_interval_ns,
            drift_bound_ns=self.drift_bound_ns,
            options=lock.options,
            unsafe=lock.unsafe,
        )

    def lasting(self, duration_ns: int) -> DrawnScenario:
        """The same for another length of run."""
        return replace(self, duration_ns=duration_ns)

    def run_row(self, scenario: Scenario, spec: ProviderSpec, *, clients: int, lock: str) -> RunRow:
        """The columns of the runs table that both worlds fill in the same way.

        clients: so many take part. lock: what the history calls their lock, or the first of them.
        """
        mixture = Mixture(scenario, spec)
        own = scenario.workload.clients.values()
        waits = [scenario.workload.wait, *(work.wait for work in own if work.wait)]
        workload = scenario.workload
        thinks = [workload.arrivals or workload.think, *(work.think for work in own if work.think)]
        return {
            "scenario": scenario.name,
            "provider": spec.name,
            "validity_ns": self.validity_ns,
            "poll_interval_ns": self.poll_interval_ns,
            "wait_timeout_ns": max(wait.most for wait in waits),
            "think_ns": max(think.most for think in thinks),
            "drift_bound_ns": self.drift_bound_ns,
            "rate_error_ppm": rate_error_ppm(scenario),
            "clients": clients,
            "must_happen": scenario.demanded_of(spec, clients=clients, duration_ns=self.duration_ns),
            "claims": mixture.claims,
            "thresholds": list(scenario.thresholds) or None,
            "node_providers": mixture.providers_beside(f"n{number}" for number in range(1, clients + 1)) or None,
            "lock_protocols": None
            if spec.protocol is None
            else dict.fromkeys(scenario.workload.lock_names(lock), spec.protocol),
            "unsafe": self._unsafe(scenario.lock),
            "watch_ns": None if spec.watch_ns is None else spec.watch_ns(self.lock_settings(scenario.lock, key=lock)),
        }

    def _unsafe(self, lock: Lock) -> str | None:
        """The rule of RFC-91 that this timing breaks, for the reader of the verdict; None if it breaks none."""
        margin_ms = decimal(lock.options.get("margin_ms", ""))
        faults = timing_faults(
            validity_ns=self.validity_ns,
            renew_interval_ns=self.renew_interval_ns,
            drift_bound_ns=self.drift_bound_ns,
            margin_ns=self.drift_bound_ns if margin_ms is None else margin_ms * NS_PER_MS,
        )
        return "; ".join(faults) if lock.unsafe and faults else None


def rate_error_ppm(scenario: Scenario) -> int:
    """The largest rate error that the scenario's clocks may have (ρ)."""
    rates = [*scenario.clock.drift.values(), scenario.envelope.drift]
    rates += [rate for fault in scenario.faults for rate in rates_of(fault)]
    return max(max(abs(rate.least), abs(rate.most)) for rate in rates)


def is_drawn_alike(scenario: Scenario) -> bool:
    """True if each seed draws the same numbers."""
    lock = scenario.lock
    quantities = [lock.validity, lock.renew_every, lock.poll_every, lock.drift_bound, scenario.duration]
    quantities += [] if scenario.heal_at is None else [scenario.heal_at]
    return all(quantity.is_constant for quantity in quantities)


def draw_scenario(scenario: Scenario, seed: int) -> DrawnScenario:
    """Draw the numbers of one seed."""
    draw = Draws(seed)
    lock = scenario.lock
    return DrawnScenario(
        validity_ns=draw(lock.validity, "lock.validity"),
        renew_interval_ns=draw(lock.renew_every, "lock.renew_every"),
        poll_interval_ns=draw(lock.poll_every, "lock.poll_every"),
        drift_bound_ns=draw(lock.drift_bound, "lock.drift_bound"),
        duration_ns=draw(scenario.duration, "duration"),
        heal_at_ns=None if scenario.heal_at is None else draw(scenario.heal_at, "heal_at"),
    )


_NOTHING_OWN = Work()
"""The profile of a client of which a scenario says nothing."""


def profile_of(scenario: Scenario, drawn: DrawnScenario, client: str) -> ClientProfile:
    """One client's profile: its own where it has them, the scenario's otherwise."""
    common = scenario.workload
    own = common.clients.get(client) or _NOTHING_OWN
    return ClientProfile(
        start=own.start or common.start,
        cycles=own.cycles or common.cycles,
        think=own.think or common.think,
        hold=own.hold or common.hold,
        writes=own.writes or common.writes,
        wait=own.wait or common.wait,
        refused_threads=own.refused_threads,
        last_start_ns=drawn.duration_ns,
        arrivals=common.arrivals,
    )
