"""The identity of a campaign: all that decides its result, kept beside its chunks.

Finished chunks are taken over by a campaign of the same identity alone: one verdict must not speak for two locks. The
number of processes, the machines and the place are no part of it, since no result depends on them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

import lockref
from lockref.errors import ConfigError, Location
from lockref.lab.loading import ProviderSpec
from scenarios.campaigns.orders import seeds_of_a_chunk
from scenarios.campaigns.places import Place
from scenarios.campaigns.sources import Sources, scenario_hash
from scenarios.definition.schema import Scenario
from scenarios.runs import commit
from scenarios.search.schedules import Exploration

FILE: Final = "campaign.json"

REMEDY: Final = "choose another --out"


class Identity(BaseModel):
    """The file `campaign.json` of a campaign's folder.

    scenario_hash, lock_hash, code_hash: of the resolved scenario, the lock's sources, and lockref with its Python.
    seeds: the first and the one after the last. keep, keep_failures, compare_every: see `Order`. explore: the options
    of its exploration; "" without one. not_demanded: clauses that are no failure, sorted. The names and versions are
    for people: they tell what a hash stands for, and decide nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    format: Literal["lockref.campaign/3"] = "lockref.campaign/3"
    scenario: str
    provider: str
    lockref: str
    commit: str
    seeds: tuple[int, int]
    chunk_seeds: int
    keep: int
    keep_failures: int
    compare_every: int
    explore: str = ""
    not_demanded: tuple[str, ...] = ()
    scenario_hash: str
    lock_hash: str
    code_hash: str

    @property
    def digest(self) -> str:
        """The name of this identity in each file of a chunk."""
        decisive = self.model_dump_json(exclude={"lockref", "commit"})
        return hashlib.blake2b(decisive.encode(), digest_size=16).hexdigest()

    def differences(self, earlier: Identity) -> list[str]:
        """The differences from an earlier campaign, in words; the earlier value first."""
        found = []
        if self.scenario != earlier.scenario:
            found.append(f"the scenario ({earlier.scenario}, now {self.scenario})")
        elif self.scenario_hash != earlier.scenario_hash:
            found.append(f"the text of the scenario {self.scenario}")
        if self.provider != earlier.provider:
            found.append(f"the lock ({earlier.provider}, now {self.provider})")
        elif self.lock_hash != earlier.lock_hash:
            found.append(f"the source of the lock {self.provider}")
        if self.code_hash != earlier.code_hash:
            before, now = _version(earlier), _version(self)
            found.append("lockref itself" + (f" ({before}, now {now})" if before != now else ", or its Python"))
        if self.seeds != earlier.seeds:
            found.append(f"the seeds ({_range(earlier.seeds)}, now {_range(self.seeds)})")
        for name, option in (("keep", "--keep"), ("keep_failures", "--keep-failures")):
            before, now = getattr(earlier, name), getattr(self, name)
            if before != now:
                found.append(f"{option} ({before}, now {now})")
        if self.compare_every != earlier.compare_every:
            found.append("--check-determinism")
        if self.explore != earlier.explore:
            found.append(f"the schedules ({earlier.explore or 'plain'}, now {self.explore or 'plain'})")
        if self.not_demanded != earlier.not_demanded:
            found.append("the clauses that are demanded")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """The histories that a campaign keeps, and the seeds that it repeats: see `Order`."""

    keep: int
    keep_failures: int
    compare_every: int


def identity_of(
    scenario: Scenario,
    spec: ProviderSpec,
    sources: Sources,
    seeds: range,
    keeping: Keeping,
    exploration: Exploration | None = None,
    *,
    not_demanded: frozenset[str] = frozenset(),
    chunk_seeds: int | None = None,
) -> Identity:
    """The identity of the campaign that these describe.

    sources: taken right after the lock was loaded. chunk_seeds: of a campaign that is not cut by its number of seeds.
    """
    return Identity(
        scenario=scenario.name,
        provider=spec.name,
        lockref=lockref.__version__,
        commit=commit(),
        seeds=(seeds[0], seeds[-1] + 1),
        chunk_seeds=chunk_seeds or seeds_of_a_chunk(len(seeds)),
        keep=keeping.keep,
        keep_failures=keeping.keep_failures,
        compare_every=keeping.compare_every,
        explore="" if exploration is None else exploration.options,
        not_demanded=tuple(sorted(not_demanded)),
        scenario_hash=scenario_hash(scenario),
        lock_hash=sources.provider,
        code_hash=sources.code,
    )


def read_identity(place: Place, *, remedy: str = REMEDY) -> Identity | None:
    """The identity of the campaign in a place; None where there is none.

    remedy: what its user can do about a file that is none. Raises ConfigError for such a file.
    """
    content = place.read(FILE)
    if content is None:
        return None
    try:
        return Identity.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        what = f"{'.'.join(map(str, first['loc'])) or 'document'}: {first['msg']}"
        raise ConfigError(
            f"no campaign of this version of lockref ({what}); {remedy}",
            location=Location(f"{place}/{FILE}"),
        ) from error


def write_identity(place: Place, identity: Identity) -> None:
    """Begin a campaign in a place."""
    place.write(FILE, (identity.model_dump_json(indent=1) + "\n").encode())


def _version(identity: Identity) -> str:
    return f"{identity.lockref} {identity.commit}".strip()


def _range(seeds: tuple[int, int]) -> str:
    return f"{seeds[0]:,}..{seeds[1] - 1:,}"
