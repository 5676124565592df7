"""The sources that a campaign's result depends on: hashes of the lock's own, and of lockref's."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import lockref
from lockref.lab.loading import ProviderSpec
from lockref.rooms import HOME
from scenarios.definition.mixture import locks_in
from scenarios.definition.schema import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Hashes of the code that a campaign runs: the lock's own, and lockref's."""

    provider: str
    code: str

    @classmethod
    def of(cls, *locks: ProviderSpec) -> Sources:
        """Taken once, right after the locks were loaded: what they import later, in a run, is not in it."""
        return cls(provider=_hash_of_locks(locks), code=_hash([platform.python_version().encode(), *_own_sources()]))

    @classmethod
    def of_each(cls, scenarios: Mapping[str, Scenario], under_test: ProviderSpec) -> dict[str, Sources]:
        """The sources of each campaign, by the name of its scenario: a lock counts only where it runs. Taken once."""
        # All locks are loaded before the first is hashed: the order of the scenarios says nothing.
        locks = {name: locks_in([scenario], under_test) for name, scenario in scenarios.items()}
        under_test_alone = cls.of(under_test)
        return {
            name: under_test_alone if len(found) == 1 else replace(under_test_alone, provider=_hash_of_locks(found))
            for name, found in locks.items()
        }


def _hash_of_locks(locks: Sequence[ProviderSpec]) -> str:
    return _hash([part for lock in locks for part in (lock.name.encode(), *_provider_sources(lock))])


def scenario_hash(scenario: Scenario) -> str:
    """The hash of a resolved scenario."""
    return _hash([scenario.model_dump_json().encode()])


def _hash(parts: Sequence[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        # The length goes first, so that ("ab", "c") and ("a", "bc") differ.
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _own_sources() -> list[bytes]:
    """Every source file that decides what a simulated run does and how it is judged."""
    # All sources, not those that the scenario reaches: imports in functions make the reach undecidable, and a hash that
    # misses a file lets an old verdict speak for new code. The price is a run from the first seed after any change.
    rooms = [Path(lockref.__file__).resolve().parent, HOME / "sim", HOME / "scenarios", HOME / "reports" / "checks"]
    files = {path for room in rooms for path in room.rglob("*.py")}
    return [path.read_bytes() for path in sorted(files)]


def _provider_sources(spec: ProviderSpec) -> list[bytes]:
    """The source of the lock: its module's file, and the files beside and below it that were imported.

    A lock that lockref ships adds nothing: `_own_sources` has its source already.
    """
    made = getattr(spec.factory, "made", spec.factory)
    file = getattr(sys.modules.get(getattr(made, "__module__", "")), "__file__", None)
    if file is None:
        return [repr(spec.reference).encode()]
    folder = Path(file).resolve().parent
    if folder.is_relative_to(Path(lockref.__file__).resolve().parent):
        return []
    # A doubt: what the lock imports later, or reads as data, is in no hash. `Sources.of` is called right after loading,
    # so that at least the set does not depend on how far the first run came.
    loaded = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    paths = {Path(name).resolve() for name in loaded if name is not None}
    return [path.read_bytes() for path in sorted(paths) if path.is_relative_to(folder) and path.suffix == ".py"]
