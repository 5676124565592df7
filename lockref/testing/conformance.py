"""Scenarios as items of pytest: a class to derive from, a decorator for functions, and what both do with a result.

A scenario is run in the setup of its item and judged in the call. So one that could not be judged is an error of
pytest, and one that the lock broke a failure.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import pytest

from lockref.errors import ConfigError, LockrefError
from lockref.seeds import seed_range
from lockref.testing.checking import LockResult, abilities_lacking, check_lock
from lockref.testing.markers import LockBroken, expected_failures, is_like, required_abilities
from lockref.testing.options import SEEDS
from scenarios.definition.load import catalogue, find_scenario
from scenarios.gate.demands import Ability

SCENARIOS: Final = ("e01", "e02", "e03", "e08", "e11", "e12", "e14", "swarm")
"""The scenarios of a test that names none: a first grant and a next one, a killed and a paused holder, a lost answer to
each kind of write, and faults drawn at random. They take some seconds."""

RESULT: Final = "lock_result"
_ORDER: Final = "lockref_order"
_PATTERN: Final = frozenset("*?[")


class LockConformance:
    """A class to derive from: each scenario is one test of your lock.

        class TestMyLock(LockConformance):
            provider = "my_lock.py:MyLock"
            scenarios = ["e01", "e08", "h0*", "pause.yaml"]
            seeds = range(1, 101)

    provider: the lock: a name of `lockref providers`, `module:Class`, `file.py:Class`, or the class itself.
    scenarios: names of the catalogue, patterns of such names, and files.
    seeds: default the one that a scenario pins, else 1 to 50. `--lockref-seeds` has the last word.
    Files are looked for beside the test, then where pytest began.

    A scenario that the lock breaks is a failure. One that could not be judged is an error, and never passes. One that
    is about other locks is skipped, with the reason.
    """

    provider: ClassVar[str | type[object]]
    scenarios: ClassVar[Sequence[str]] = SCENARIOS
    seeds: ClassVar[Sequence[int] | None] = None

    def test_scenario(self, lock_result: LockResult) -> None:
        """The lock keeps what a lock of its kind can keep in this scenario."""
        require_held(lock_result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The scenarios that a test asks for, as its author wrote them."""

    provider: str | type[object]
    scenarios: Sequence[str]
    seeds: Sequence[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One item: the arguments of `check_lock`, and what the test needs of the lock."""

    provider: str | type[object]
    scenario: str
    seeds: Sequence[int] | None
    requires: tuple[Ability, ...]


def lock_scenarios(
    *scenarios: str, provider: str | type[object], seeds: Sequence[int] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator of a test function: for each scenario it fails unless the lock holds, and then its body runs.

        @lock_scenarios("e01", "e08", provider="my_lock.py:MyLock")
        def test_my_lock(lock_result: LockResult) -> None:
            assert lock_result.runs >= 50

    The function need not take `lock_result`. The arguments are those of `LockConformance`, with the same defaults.
    """
    order = Order(provider=provider, scenarios=scenarios or SCENARIOS, seeds=seeds)

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function)
        takes_result = RESULT in signature.parameters

        @functools.wraps(function)
        def test(*given: object, **fixtures: object) -> None:
            result = fixtures[RESULT] if takes_result else fixtures.pop(RESULT)
            assert isinstance(result, LockResult), f"`{RESULT}` is the plugin's own fixture"
            require_held(result)
            function(*given, **fixtures)

        if not takes_result:
            added = inspect.Parameter(RESULT, inspect.Parameter.KEYWORD_ONLY)
            signature = signature.replace(parameters=[*signature.parameters.values(), added])
        # pytest reads from these two which fixtures the function takes, and which scenarios it is run for.
        vars(test).update({"__signature__": signature, _ORDER: order})
        return test

    return decorate


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Make one item for each scenario of a test, named by the scenario.

    Raises Collector.CollectError, which pytest prints without a traceback, for a name that means no scenario, and for a
    marker that fits nothing.
    """
    folder = metafunc.definition.path.parent
    try:
        order = _order_of(metafunc)
        provider = _found_from(folder, order.provider)
        found = dict(scenario for name in order.scenarios for scenario in _named(name, folder))
        expected = expected_failures(metafunc.definition, found)
        requires = tuple(required_abilities(metafunc.definition))
    except LockrefError as error:
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from None
    cases = [
        pytest.param(
            _Case(provider=provider, scenario=source, seeds=order.seeds, requires=requires),
            marks=expected.get(name, ()),
        )
        for name, source in found.items()
    ]
    metafunc.parametrize(RESULT, cases, ids=list(found), indirect=True)


def _order_of(metafunc: pytest.Metafunc) -> Order:
    order = getattr(metafunc.function, _ORDER, None)
    if isinstance(order, Order):
        return order
    made = metafunc.cls
    if made is None or not issubclass(made, LockConformance):
        raise ConfigError(f"`{RESULT}` is for classes that derive from LockConformance and for @lock_scenarios")
    if getattr(made, "provider", None) is None:
        raise ConfigError(f"{made.__name__} names no lock: set `provider`")
    return Order(provider=made.provider, scenarios=made.scenarios, seeds=made.seeds)


def _found_from(folder: Path, provider: str | type[object]) -> str | type[object]:
    """The provider; a file that lies beside the test is named by its path from here, as a replay will name it."""
    if not isinstance(provider, str):
        return provider
    source, _, name = provider.rpartition(":")
    if source.endswith(".py") and (folder / source).is_file():
        return f"{os.path.relpath(folder / source)}:{name}"
    return provider


def _named(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Each scenario that a name, a pattern or a file means: the id of its item, and what `load_scenario` takes."""
    if _PATTERN.isdisjoint(name):
        beside = folder / name
        found = beside if beside.is_file() else find_scenario(Path(name))
        paths = [found]
    else:
        paths = [path for path in catalogue() if is_like(path.stem, name)]
        anchor = Path(name).anchor
        paths = paths or sorted(Path(anchor or folder).glob(name.removeprefix(anchor)))
        if not paths:
            raise ConfigError(f"no scenario of the catalogue and no file is named like {name!r}")
    known = {path.stem for path in catalogue()}
    for path in paths:
        is_own = path.stem not in known or path != find_scenario(Path(path.stem))
        yield path.name.removesuffix(".yaml").removesuffix(".lock"), os.path.relpath(path) if is_own else path.stem


def judged(request: pytest.FixtureRequest) -> LockResult:
    """Run the scenario of an item; the result, held or violated. Everything else ends the item here."""
    case = request.param
    assert isinstance(case, _Case), f"`{RESULT}` is parametrized by its scenarios"
    return run(request.config, case.provider, case.scenario, case.seeds, requires=case.requires)


def run(
    config: pytest.Config,
    provider: str | type[object],
    scenario: str,
    seeds: Sequence[int] | None = None,
    *,
    requires: Sequence[Ability] = (),
) -> LockResult:
    """The result of a scenario that the lock held or broke.

    A scenario that could not be run or judged fails the item, without frames of ours; one that does not apply skips it,
    and so does a lock that lacks an ability that the test `requires`.
    """
    asked = config.getoption(SEEDS)
    try:
        if lacking := abilities_lacking(provider, requires):
            pytest.skip(lacking)
        result = check_lock(provider, scenario, seed_range(asked) if asked else seeds)
    except LockrefError as error:
        pytest.fail(f"{scenario}: {error}", pytrace=False)
    if result.outcome == "not_applicable":
        pytest.skip(f"{result.scenario} is about other locks than {result.provider}: {result.reason}")
    if result.outcome == "inconclusive":
        pytest.fail(result.text, pytrace=False)
    return result


def require_held(result: LockResult) -> None:
    """Raise LockBroken, which fails the item without frames of ours, if the lock broke the scenario."""
    if not result.is_held:
        raise LockBroken(result.text)
