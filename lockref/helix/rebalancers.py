"""Rebalancers decide who shall hold which lock: four rules, the recipe's own by its class name, and others by theirs.

A rebalancer is a function from a `Question` to a mapping of each lock to its holders. It is pure: equal questions have
equal answers, whatever the order in which anything was inserted (Z5).

    mod     the recipe's rule: the i-th lock goes to the i-th live instance, counted in circles. Every change of the
            number of instances moves nearly everything (Z1).
    sticky  a holder keeps what it has, up to its quota; the rest goes to whoever has least. The default.
    hrw     rendezvous hashing: each lock ranks the instances by a digest. No past is needed.
    ring    consistent hashing with a hundred points for each instance. No past is needed.

The class of the recipe does as the original: `mod` where the top state's count is a number, and nothing at all where
it is N or R. `mod` reads N as the live instances and R as the replicas.

Sources: `LockManagerRebalancer` of Helix' recipe; Thaler and Ravishankar, "Using name-based mappings to increase hit
rates" (rendezvous); Karger et al., "Consistent hashing and random trees". Rejected: Python's `hash()`. It differs from
process to process, so two controllers would disagree.
"""

from __future__ import annotations

import bisect
import hashlib
import importlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from lockref.errors import ConfigError, did_you_mean
from lockref.foreign_modules import StuckImport, module_from_file

RING_POINTS: Final = 100

RECIPES_CLASS: Final = "org.apache.helix.userdefinedrebalancer.LockManagerRebalancer"
"""The class of the recipe, which cluster files name: `recipes_rule`."""


class Question(NamedTuple):
    """The question to a rebalancer.

    locks: their names, in lexicographic order. live: the instances that may hold locks, in the controller's order.
    holders: by lock, the live instances that hold it now, sorted. per_lock: how many holders each lock shall have.
    top_count: the top state's count as the state model has it, such as "1" or "R"; "" where nobody has read a model.
    disabled: by lock, the live instances that an operator has disabled for it. A rule need not look at them: in the
    place of one the controller takes another instance.
    """

    locks: tuple[str, ...]
    live: tuple[str, ...]
    holders: Mapping[str, tuple[str, ...]]
    per_lock: int
    top_count: str = ""
    disabled: Mapping[str, Collection[str]] = MappingProxyType({})


Assignment = Mapping[str, tuple[str, ...]]
"""By lock, who shall hold it. A lock that is not named shall be held by nobody."""

Rebalancer = Callable[[Question], Assignment]


class BadAssignment(ConfigError):
    """A rebalancer answered what cannot be: an unknown lock or instance, too many holders, or no mapping at all."""


class AssignsNothing(ConfigError):
    """A rebalancer's answer that nobody shall hold any lock, for a reason that an operator must hear.

    Any other error of a rebalancer leaves the locks with their holders. This one is an answer: an empty table.
    """


def mod(question: Question) -> Assignment:
    """The recipe's rule, as printed in its README (section 1, step 3)."""
    live = question.live
    if not live:
        return {}  # The recipe divides by zero here (Z3).
    return {
        lock: tuple(dict.fromkeys(live[(place + step) % len(live)] for step in range(question.per_lock)))
        for place, lock in enumerate(question.locks)
    }


def recipes_rule(question: Question) -> Assignment:
    """`mod` as the recipe's class has it: the count of the top state is read as a number and as nothing else.

    The count is that of the first state in the priority list, whatever the resource's replicas are. With another word
    (N, R) the original logs an error and returns an empty table. Raises AssignsNothing in its place.
    Source: `LockManagerRebalancer.computeResourceMapping` (section 1, step 2).
    """
    if question.top_count and re.fullmatch("[+-]?[0-9]+", question.top_count) is None:
        raise AssignsNothing(
            "Invalid state model definition. The lock state does not have a valid count: "
            f"{question.top_count!r} is no number, so the recipe's rule assigns nothing. The rule `mod` reads N and R"
        )
    return mod(question)


def sticky(question: Question) -> Assignment:
    """Keep holders up to their quota, take locks from instances above it, give the rest to those with the fewest.

    The past is what the instances say that they hold, so a new controller decides as the old one (T19).
    """
    locks, live, per_lock = question.locks, question.live, min(question.per_lock, len(question.live))
    if not live:
        return {}
    load = dict.fromkeys(live, 0)
    kept: dict[str, list[str]] = {}
    for lock in locks:
        kept[lock] = [each for each in question.holders.get(lock, ()) if each in load][:per_lock]
        for each in kept[lock]:
            load[each] += 1
    least, over = divmod(len(locks) * per_lock, len(live))
    # Instances that have most may keep one more than the others; among equals the first by name.
    ranked = sorted(live, key=lambda each: (-load[each], each))
    quota = {each: least + (place < over) for place, each in enumerate(ranked)}
    for lock in reversed(locks):
        for each in [each for each in kept[lock] if load[each] > quota[each]]:
            kept[lock].remove(each)
            load[each] -= 1
    order = {each: place for place, each in enumerate(sorted(live))}
    for lock in locks:
        while len(kept[lock]) < per_lock:
            free = [each for each in live if each not in kept[lock]]
            best = min(free, key=lambda each: (load[each] - quota[each], load[each], order[each]))
            kept[lock].append(best)
            load[best] += 1
    return {lock: tuple(holders) for lock, holders in kept.items()}


def hrw(question: Question) -> Assignment:
    """Rendezvous hashing: of all live instances, those whose digest with the lock is greatest."""
    per_lock = min(question.per_lock, len(question.live))
    if per_lock == 1:
        # The usual case, without sorting.
        return {
            lock: (max(question.live, key=lambda each: (_digest(f"{lock}\0{each}"), each)),) for lock in question.locks
        }
    return {lock: tuple(ranked(lock, question.live)[:per_lock]) for lock in question.locks if per_lock}


def ranked(lock: str, live: Iterable[str]) -> list[str]:
    """The instances in the order in which rendezvous hashing gives them the lock."""
    return sorted(live, key=lambda each: (_digest(f"{lock}\0{each}"), each), reverse=True)


def ring(question: Question, *, points: int = RING_POINTS) -> Assignment:
    """Consistent hashing: of the points behind that of the lock, those of the first instances. points: of each."""
    if not question.live:
        return {}
    places = sorted((_digest(f"{each}\0{number}"), each) for each in question.live for number in range(points))
    per_lock = min(question.per_lock, len(question.live))
    found: dict[str, tuple[str, ...]] = {}
    for lock in question.locks:
        start = bisect.bisect_left(places, (_digest(lock), ""))
        holders: dict[str, None] = {}
        for step in range(len(places)):
            holders[places[(start + step) % len(places)][1]] = None
            if len(holders) == per_lock:
                break
        found[lock] = tuple(holders)
    return found


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


REBALANCERS: Final[Mapping[str, Rebalancer]] = {
    "mod": mod, "sticky": sticky, "hrw": hrw, "ring": ring, RECIPES_CLASS: recipes_rule,
}  # fmt: skip
"""By the name that a cluster file gives as `class`."""


def nobody(_question: Question) -> Assignment:
    """The rule of a resource that nobody configures any more: whoever has a replica drops it."""
    return {}


def keep(question: Question) -> Assignment:
    """The rule of a resource in maintenance: whoever holds a lock and may hold it keeps it, and nobody gets one."""
    live = dict.fromkeys(question.live)
    kept: dict[str, tuple[str, ...]] = {}
    for lock in question.locks:
        # In the place of an instance that is disabled for the lock, the controller would take another one.
        disabled = question.disabled.get(lock, ())
        able = [each for each in question.holders.get(lock, ()) if each in live and each not in disabled]
        kept[lock] = tuple(able[: question.per_lock])
    return kept


_PURE: Final = (mod, sticky, hrw, ring, recipes_rule, nobody, keep)


@dataclass(frozen=True, slots=True)
class OfRecord:
    """A rule that an ideal state holds. It is made anew with each reading, and equal while the state says the same.

    choose: a pure function of a question and of `said`. said: what the ideal state says.
    """

    choose: Callable[..., Assignment]
    said: tuple[object, ...]

    def __call__(self, question: Question) -> Assignment:
        return self.choose(question, *self.said)


def is_pure(rule: Rebalancer) -> bool:
    """True if the rule answers the same question with the same table, always. Of a stranger's rule nobody knows."""
    return isinstance(rule, OfRecord) or any(rule is each for each in _PURE)


def load(name: str) -> Rebalancer:
    """A rebalancer by its name, by the recipe's class, or as `module:function` or `file.py:function`.

    A class is made without arguments, and its instance called. Errors: ConfigError.
    """
    if name in REBALANCERS:
        return REBALANCERS[name]
    place, colon, attribute = name.rpartition(":")
    if not colon:
        raise ConfigError(
            f"rebalancer {name!r} is not known; expected one of {', '.join(REBALANCERS)}, or module:function or "
            f"path/file.py:function.{did_you_mean(name, REBALANCERS)}"
        )
    try:
        module = _module(place)
    except (ImportError, OSError, SyntaxError) as error:
        raise ConfigError(f"rebalancer {name!r}: {place!r} cannot be loaded: {error}") from error
    except StuckImport as error:
        raise ConfigError(f"rebalancer {name!r}: the import of {place} {error}") from error
    except (Exception, SystemExit) as error:  # A stranger's module may raise anything while it is imported.
        words = f"{type(error).__name__}: {error}"
        raise ConfigError(f"rebalancer {name!r}: {place!r} cannot be loaded: it raised {words}") from error
    made: Any = getattr(module, attribute, None)
    if isinstance(made, type):
        try:
            made = made()
        except (Exception, SystemExit) as error:  # As above.
            words = f"{type(error).__name__}: {error}"
            raise ConfigError(f"rebalancer {name!r}: its class cannot be made without arguments: {words}") from error
    if not callable(made):
        raise ConfigError(f"rebalancer {name!r}: {place!r} has no function {attribute!r}")
    rebalancer: Rebalancer = made
    return rebalancer


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        if not all(part.isidentifier() for part in place.split(".")):
            raise ImportError("that is no name of a module")
        return importlib.import_module(place)
    path = Path(place)
    if not path.is_file():
        raise ImportError("there is no such file")
    return module_from_file(path)


def checked(question: Question, answer: Any) -> Assignment:
    """The answer of a stranger's rebalancer, if it can be.

    Fewer holders than asked for may be: there may be fewer instances. Errors: BadAssignment naming lock and instance.
    """
    if not isinstance(answer, Mapping):
        raise BadAssignment(f"the rebalancer answered {type(answer).__name__}; expected a mapping of locks to holders")
    known, live = set(question.locks), set(question.live)
    found: dict[str, tuple[str, ...]] = {}
    for lock, holders in answer.items():
        if lock not in known:
            raise BadAssignment(f"the rebalancer assigned {lock!r}; there is no such lock")
        # What can be walked once only would be empty the second time, and its holder would lose the lock.
        is_sequence = type(holders) is tuple or (
            isinstance(holders, Collection) and not isinstance(holders, (str, Mapping))
        )
        if not is_sequence or not all(isinstance(each, str) for each in holders):
            raise BadAssignment(f"lock {lock!r}: the rebalancer gave {holders!r}; expected a sequence of instances")
        holders = sorted(holders) if isinstance(holders, Set) else holders
        if not live.issuperset(holders):
            stranger = min(each for each in holders if each not in live)
            raise BadAssignment(f"lock {lock!r}: the rebalancer gave it to {stranger!r}, which is not live")
        distinct = tuple(dict.fromkeys(holders))
        if len(distinct) > question.per_lock:
            raise BadAssignment(f"lock {lock!r}: {len(distinct)} holders; at most {question.per_lock} may hold it")
        found[lock] = distinct
    return found
