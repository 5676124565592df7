"""A mixed fleet, as one text: `hardened,hudi-jvm,hudi:3` is five clients with three locks on one object.

A fleet in the middle of an upgrade is the hardest thing that a lock meets: it must hold beside builds that do not know
its rules. A scenario can say so of single clients (`providers`); here any scenario is run by a fleet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lockref.errors import ConfigError
from lockref.grammar import decimal
from lockref.lab.loading import ProviderSpec, load_provider
from scenarios.definition.schema import CLIENTS_MAX, PROVIDERS_MAX, Scenario

_MEMBER: Final = re.compile(r"(?P<reference>.*?)(?::(?P<count>[0-9]+))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The locks of a run.

    spec: the lock under test, which is the first member; called as the whole fleet. members: the lock of each client,
    in order; none where all run the lock under test. locks: each lock once.
    """

    spec: ProviderSpec
    locks: tuple[ProviderSpec, ...]
    members: tuple[str, ...] = ()

    def require_virtual_time(self, *, sets_up: bool = True) -> None:
        """Set each lock up, unless `sets_up` is False. Errors: as `ProviderSpec.require_virtual_time`."""
        for lock in self.locks:
            lock.require_virtual_time(sets_up=sets_up)

    @property
    def is_mixed(self) -> bool:
        """True if clients run different locks."""
        return len(self.locks) > 1

    def on(self, scenario: Scenario, clients: int | None = None) -> Scenario:
        """The scenario as this fleet runs it: by at least as many clients, who repeat the fleet in order.

        A client to which the scenario gives a lock of its own keeps it. clients: that are asked for in their place.
        Raises ConfigError for fewer than the fleet has, and for more than a mixed fleet may have.
        """
        if not self.members:
            return scenario
        count = len(self.members)
        clients = max(scenario.clients, count) if clients is None else clients
        if not count <= clients <= PROVIDERS_MAX:
            raise ConfigError(
                f"provider {self.spec.name!r} on {scenario.name}: {clients} clients; expected at least the fleet's "
                f"{count}, and at most {PROVIDERS_MAX}"
            )
        given = {f"n{number + 1}": self.members[number % count] for number in range(clients)}
        return scenario.model_copy(update={"clients": clients, "providers": {**given, **scenario.providers}})


def load_fleet(text: str) -> Fleet:
    """The locks that a text names: one, or several with commas, each with `:COUNT` if several clients run it.

    Errors: as `load_provider`; ConfigError for locks that cannot share one object.
    """
    if Path(text.rpartition(":")[0]).is_file():
        spec = load_provider(text)  # The path of a file may have commas in it.
        return Fleet(spec, (spec,))
    found = [match for part in text.split(",") if (match := _MEMBER.fullmatch(part.strip()))]
    if len(found) == 1 and found[0]["count"] is None:
        spec = load_provider(text)
        return Fleet(spec, (spec,))
    members: list[str] = []
    for match in found:
        count = decimal(match["count"] or "1")
        if not match["reference"] or count is None or not 1 <= count <= CLIENTS_MAX:
            raise ConfigError(
                f"provider {text!r}: expected locks with commas between them, each with the number of its clients if "
                f"that is not 1, such as hardened,hudi:3; a count is 1 to {CLIENTS_MAX}"
            )
        members += [match["reference"]] * count
    if len(members) > PROVIDERS_MAX:
        raise ConfigError(f"provider {text!r} has {len(members)} clients; a mixed fleet has at most {PROVIDERS_MAX}")
    locks = {reference: load_provider(reference) for reference in dict.fromkeys(members)}
    first = locks[members[0]]
    for lock in locks.values():
        if len(locks) > 1 and (lock.record_format is None or lock.record_format != first.record_format):
            raise ConfigError(
                f"provider {text!r}: {first.name} and {lock.name} cannot share one object: their records are "
                f"{first.record_format or 'undeclared'} and {lock.record_format or 'undeclared'}"
            )
    return Fleet(replace(first, name=text), tuple(locks.values()), tuple(members))
