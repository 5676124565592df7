"""Which client runs which lock.

Usually all run the one under test. A scenario may give single clients another
one (`providers: {n2: hudi}`), to show how the lock under test fares beside it
on one object: a hardened holder beside an unmodified Hudi contender, say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lockref.errors import ConfigError
from lockref.lab.loading import ProviderSpec, load_provider, program_stands_on
from lockref.provider import LockSettings, StateDecoder
from scenarios.definition.schema import DeclaredNode, Scenario, Workload

CONTROLLER = "controller"
"""The node of a lock's companion, where the scenario declares no nodes."""


class Mixture:
    """The lock of each client. Raises ConfigError if a scenario names one that cannot be loaded.

    others: by client, the locks that the scenario itself names.
    """

    __slots__ = ("_count", "_nodes", "_settings", "others", "under_test")

    def __init__(self, scenario: Scenario, under_test: ProviderSpec) -> None:
        self.under_test = under_test
        self._count = scenario.clients
        self._nodes = scenario.nodes
        lock = scenario.lock
        self._settings = LockSettings(
            validity_ns=lock.validity.least, renew_interval_ns=lock.renew_every.least, unsafe=lock.unsafe
        )
        self.others = {client: load_provider(reference) for client, reference in scenario.providers.items()}

    @property
    def misfit(self) -> str:
        """Why these locks cannot share one object; empty if they can.

        Two protocols on one object are simply two locks: what happens then says nothing about either.
        """
        own = self.under_test.record_format
        for name, node in self._nodes.items():
            kind = program_stands_on(node.program)
            if kind not in (None, self.under_test.stands_on):
                return f"{name} serves locks on a {kind} service; {self.under_test.name} stands on {self.stands_on}"
        if refusal := self._refusal_of(self.under_test):
            return refusal
        for client, other in self.others.items():
            if refusal := self._refusal_of(other):
                return f"{client} runs {other.name}: {refusal}"
            if other.name == self.under_test.name:
                continue
            if own is None:
                name = self.under_test.name
                return f"{client} runs {other.name} on the same object, and {name} declares no record_format"
            if other.record_format != own:
                return f"{client} runs {other.name}, whose records are {other.record_format}, not {own}"
        return ""

    def _refusal_of(self, spec: ProviderSpec) -> str:
        return "" if spec.refuses is None else spec.refuses(self._settings)

    def of(self, client: str) -> ProviderSpec:
        """The lock of one client.

        A real run may have more clients than the scenario. They repeat it in order: of six, n7 runs the lock of n1.
        """
        other = self.others.get(client)
        if other is None and self.others:
            number = (int(client.removeprefix("n")) - 1) % self._count + 1
            other = self.others.get(f"n{number}")
        return self.under_test if other is None else other

    @property
    def stands_on(self) -> str:
        """The kind of the service `store` in this run: what the lock under test is made for."""
        return self.under_test.stands_on

    @property
    def nodes(self) -> Mapping[str, DeclaredNode]:
        """The nodes that are no clients: those of the scenario, else the one that the lock under test needs.

        Whoever judges a lock judges the program that it brings along, too.
        """
        own = self.under_test.companion
        if own is None:
            return self._nodes
        if not self._nodes:
            return {CONTROLLER: DeclaredNode(program=own)}
        return {
            name: node.model_copy(update={"program": own}) if node.companion else node
            for name, node in self._nodes.items()
        }

    @property
    def decode(self) -> StateDecoder:
        """Reads the objects of the run, whoever wrote them: in both worlds, in each process and at the service.

        The lock under test says how, since the others declare that they write the same records (`misfit`).
        """
        return self.under_test.decode

    def providers_beside(self, clients: Iterable[str]) -> dict[str, str]:
        """By client, the name of its lock where that is not the one under test."""
        named = {client: self.of(client).name for client in clients} if self.others else {}
        return {client: name for client, name in named.items() if name != self.under_test.name}

    @property
    def claims(self) -> list[str]:
        """Claims that every lock of the run makes."""
        return [
            claim for claim in self.under_test.claims if all(claim in other.claims for other in self.others.values())
        ]

    @property
    def needs_threads(self) -> bool:
        """True if a lock of the run cannot be carried by greenlets."""
        return any(spec.needs_threads for spec in (self.under_test, *self.others.values()))

    def require_virtual_time(self) -> None:
        """Set every client's lock up. Errors: ConfigError if one lives in real time only; what a `set_up` raises."""
        for spec in (self.under_test, *self.others.values()):
            spec.require_virtual_time()


def locks_in(scenarios: Iterable[Scenario], under_test: ProviderSpec) -> list[ProviderSpec]:
    """Every lock that runs in these scenarios, each once: the one under test, and those that single clients have."""
    references = dict.fromkeys(reference for each in scenarios for reference in each.providers.values())
    return [under_test, *map(load_provider, references)]


def node_options(workload: Workload, key: str, declared: DeclaredNode) -> dict[str, str]:
    """The options for the program of a node: the names of the locks if there are several, and the declared options.

    key: of the first lock.
    """
    locks = workload.lock_names(key)
    several = {"locks": ",".join(locks)} if len(locks) > 1 else {}
    return {**several, **declared.options}


def inapplicable(scenario: Scenario, under_test: ProviderSpec) -> str:
    """Why the scenario says nothing about this lock, or about one beside it; empty if it does."""
    mixture = Mixture(scenario, under_test)
    missing = (
        f"{client} runs {other.name}: {reason}"
        for client, other in mixture.others.items()
        if (reason := scenario.missing_promises(other))
    )
    return mixture.misfit or scenario.missing_promises(under_test) or next(missing, "")


def require_applicable(scenarios: Mapping[str, Scenario], under_test: ProviderSpec) -> None:
    """Raise ConfigError for the first of these scenarios that says nothing about this lock. By the user's names."""
    for name, scenario in scenarios.items():
        if reason := inapplicable(scenario, under_test):
            raise ConfigError(f"{name}: does not apply to {under_test.name}: {reason}")
