"""The schema of a scenario: the model behind `scenarios/catalogue/*.yaml`.

A scenario describes clients, their lock, store, network, clocks and work, what
goes wrong, and what each build is expected to make of it. It does not say in
which world it runs: faults are possible in the simulated one only, so a
scenario without faults runs in both. docs/scenarios.md explains each key; the
exported JSON Schema (`scenario_schema`) serves editors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from lockref.claims import RENEWS
from lockref.clouds.s3.cloud import S3
from lockref.clouds.uri import server_statuses, store_dialects
from lockref.dynamodb.table import TABLE
from lockref.errors import ConfigError, did_you_mean
from lockref.lab.loading import ProviderSpec
from lockref.provider import DEFAULT_STORE
from lockref.quantities import NS_PER_UNIT
from lockref.runtime import NS_PER_S
from lockref.services import DEFAULT_KIND, SERVICES, entry_of, service_kind
from reports.checks.demands import COUNT_MAX, demand_text
from reports.checks.situation_names import SITUATIONS, TOKEN
from reports.checks.spec import CLAUSES, Verdict
from reports.checks.thresholds.limits import MEASURES, NEED_DETAIL, STATISTICS, measures_of, parse_threshold
from scenarios.definition.fault_forms import ClientName, FaultSpec, Model
from scenarios.definition.faults import FAULT_KINDS
from scenarios.definition.units import Count, DrawnNumber, Duration, Probability, Rate, Shift, constant
from sim.services.kinds import SIMULATED, make_service
from sim.services.service import Service

FORMAT_VERSION = 1
RESOURCE_NAME = "resource"
"""The protected resource; it is in every scenario."""

QUEUE_NAME = "queue"
"""The queue of a table's items; it is in a scenario whose workload enqueues (`Workload.has_queue`)."""

CLIENTS_MAX = 1024
PROVIDERS_MAX = 64
"""Clients with a lock of their own."""

REACHABLE = (*SITUATIONS, *(f"fault:{kind}" for kind in FAULT_KINDS))
"""What `must_happen` may ask for: the situations that the checks count, and kinds of faults that struck."""

PROMISES = {"reentry": "is_reentrant", "fork": "is_fork_safe", "resumption": "can_resume"}
"""Situations that are asked only of a lock which declares that it is made for them, and what it declares."""

RENEWALS = frozenset({"renewal", "renewal_race", "lost_reply_renew"})
"""Situations of a lock that renews its lease. A lock that its owner's session holds does not, unless it declares it."""

NAME_PATTERN = r"^[a-z0-9][a-z0-9-]{0,79}$"
CLAUSE_PATTERN = f"^({'|'.join(CLAUSES)})$"
ClauseId = Annotated[str, Field(pattern=CLAUSE_PATTERN)]


def _known_situation(name: str) -> str:
    if name not in REACHABLE:
        raise ValueError(
            f"is {name!r}; expected one of {', '.join(SITUATIONS)} or fault:<kind>.{did_you_mean(name, REACHABLE)}"
        )
    return name


Situation = Annotated[str, AfterValidator(_known_situation)]
LeastCount = Annotated[int, Field(ge=1, le=COUNT_MAX)]
Scale = Annotated[float, Field(gt=0, le=1_000_000)]


class Floor(Model):
    """The least number of times that a situation must come about in a run, by the size of the run.

    per_client: times its clients. per_second: times its duration; the smaller
    of the two counts. least, most: bounds of that, whatever the run's size.
    seeds: a campaign of fewer seeds is not asked, for what is rare need not
    come about in it.
    """

    per_client: Scale | None = None
    per_second: Scale | None = None
    least: LeastCount = 1
    most: LeastCount | None = None
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 1

    @model_validator(mode="after")
    def _grows(self) -> Floor:
        if self.per_client is None and self.per_second is None and self.seeds == 1:
            raise ValueError(
                "grows with nothing; expected such as {per_client: 2, per_second: 5, most: 100}, {seeds: 20} or a count"
            )
        if self.most is not None and self.most < self.least:
            raise ValueError(f"asks for at least {self.least} and for at most {self.most}")
        return self

    def count(self, *, clients: int, duration_ns: int) -> int:
        """The count for a run of so many clients and such a length."""
        scaled = [
            scale * size
            for scale, size in ((self.per_client, clients), (self.per_second, duration_ns / NS_PER_S))
            if scale is not None
        ]
        count = max(self.least, math.ceil(min(scaled, default=0)))
        return count if self.most is None else min(count, self.most)


def _form(value: object) -> str:
    """Which form of a demand, or of its count, was meant; pydantic then complains about that one alone."""
    return "[mapping]" if isinstance(value, (dict, Floor)) else "[plain]"


_Least = Annotated[
    Annotated[LeastCount, Tag("[plain]")] | Annotated[Floor, Tag("[mapping]")],
    Discriminator(_form),
]
Demand = Annotated[
    Annotated[Situation, Tag("[plain]")]
    | Annotated[dict[Situation, _Least], Field(min_length=1, max_length=1), Tag("[mapping]")],
    Discriminator(_form),
]
"""`contention`, `{grant: 100}` or `{grant: {per_second: 5, most: 100}}`."""


def _threshold(text: str) -> str:
    return parse_threshold(text).text


ThresholdText = Annotated[
    str,
    AfterValidator(_threshold),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^\s*({'|'.join(MEASURES)})(\.({'|'.join(STATISTICS)}))?\s*<=?\s*\S.*$",
            "description": "A limit on what is measured, such as handoff.p99 < 12s.",
        }
    ),
]


class Lock(Model):
    """Timing that every lock is told; `options` go to the provider untouched.

    validity: how long a record promises that its grant is not replaced. renew_every: how often a holder renews.
    poll_every: how often a waiter looks. drift_bound: the largest difference of two wall clocks that the lock must
    survive. `hudi` and `hardened` demand what RFC-91 does: validity ≥ 10 × renew_every, a drift_bound of at least
    500 ms. options: the provider's own. unsafe: allows what RFC-91 forbids, to show what comes of it; every verdict
    then says so.
    """

    validity: Duration = constant(10 * NS_PER_UNIT["s"], "10s")
    renew_every: Duration = constant(NS_PER_UNIT["s"], "1s")
    poll_every: Duration = constant(NS_PER_UNIT["s"], "1s")
    drift_bound: Duration = constant(500 * NS_PER_UNIT["ms"], "500ms")
    options: dict[str, str] = Field(default_factory=dict, max_length=64)
    unsafe: bool = False


def _known_dialect(name: str) -> str:
    try:
        server_statuses(name)
    except ConfigError as error:
        raise ValueError(str(error).removeprefix("store dialect ")) from None
    return name


Dialect = Annotated[
    str, AfterValidator(_known_dialect), WithJsonSchema({"type": "string", "enum": list(store_dialects())})
]


class Store(Model):
    """The object store.

    dialect: whose answers it gives, and whose status codes and versions.
    """

    dialect: Dialect = S3.name


def _known_kind(kind: str) -> str:
    if kind not in SIMULATED:
        raise ValueError(f"is {kind!r}; expected one of {', '.join(SIMULATED)}.{did_you_mean(kind, SIMULATED)}")
    return kind


ServiceKind = Annotated[str, AfterValidator(_known_kind), WithJsonSchema({"type": "string", "enum": list(SIMULATED)})]


class DeclaredService(Model):
    """A service that clients and nodes may open by its name, beside `store` and `resource`.

    kind: what it is. dialect: whose answers it gives; left out, those of its kind's usual server. options: its own.
    """

    kind: ServiceKind
    dialect: str = ""
    options: dict[str, str] = Field(default_factory=dict, max_length=64)

    def make(self) -> Service:
        """A new one. Raises ConfigError for a dialect or option that its kind does not know."""
        return make_service(self.kind, dialect=self.dialect, options=self.options)


@cache
def _store_of(kind: str, dialect: str) -> DeclaredService:
    """The service `store`, checked once: each client of each seed asks for it. Nobody changes one."""
    return DeclaredService(kind=kind, dialect=dialect)


class DeclaredNode(Model):
    """A node that is no client, such as a controller or a proxy. It lives in simulations only.

    program: `module:Class` or `path/file.py:Class` (see `lockref.provider.NodeProgram`). options: what it is told.
    companion: a lock that brings along its own program, such as its own controller, runs that one here.
    """

    program: Annotated[str, Field(min_length=1, max_length=400)]
    options: dict[str, str] = Field(default_factory=dict, max_length=64)
    companion: bool = False


NodeName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
"""The name of a service, or of a node that is no client."""


class Network(Model):
    """The network of a scenario.

    latency: of one way; a range is drawn for each message, not once per seed. loss: the share of messages that get
    lost. duplication: the share of messages that arrive twice.
    """

    latency: Duration = DrawnNumber("1ms..5ms", (), 1_000_000, 5_000_000)
    loss: Probability = 0.0
    duplication: Probability = 0.0


class Clock(Model):
    """Clocks that are wrong from the start, by client.

    drift: by how much both clocks of the client run too fast. offset: by how much its wall clock is ahead.
    """

    drift: dict[ClientName, Rate] = Field(default_factory=dict)
    offset: dict[ClientName, Shift] = Field(default_factory=dict)


class Work(Model):
    """The work of one client; a range is drawn anew in each cycle.

    start: before the first cycle. cycles: how often it asks for the lock. think: before each lock call. hold: the
    time in the critical section. writes: the protected writes in it, spread over that time. wait: the timeout of
    the lock call; 0 means one `try_lock`. refused_threads: so many times its system has no thread to give when its
    lock wants to start one (U8).
    """

    start: Duration | None = None
    cycles: Count | None = None
    think: Duration | None = None
    hold: Duration | None = None
    writes: Count | None = None
    wait: Duration | None = None
    refused_threads: Annotated[int, Field(ge=0, le=1000)] = 0


class Workload(Model):
    """The workload of the clients: how they use the lock, and how each of them lives.

    kind: the protected resource: `list` and `counter` trust the lock alone, `register` and `log` check what they
    are told (see scenarios/workloads).
    life: `loop`; `relock`: as loop, but after a loss the client asks for the lock again before it gives it back
    (U7); `two_threads` share one provider (U6); `careless_thread`: the second of them unlocks even what it was not
    given (H9); `owner_ends`: the thread that locked ends and another goes on (U10); `reentrant`: the client locks
    again while it holds, and unlocks twice (H9); `forks`: its process forks while it holds, and the child uses what
    it inherited (H9); `closes`: it ends its last cycle by closing the lock that it holds (U16);
    `closed_by_another`: a second thread closes the lock under the first one that holds it (U16); `unlocked`: it
    never asks its lock; `members`: a task for each of `locks` asks for its lock, works under it if it is given, and
    all are given back together.
    asks: what a client asks its lock before each protected write. `guard`: whether it still holds, and the write
    carries the token of the grant; `token`: only for the fencing token, anew; `both`: the guard, then the token;
    `nothing`: nothing, and the write carries no token. `token` and `both` need `register`, which compares tokens,
    and a lock that gives them.
    locks: so many does each client ask for. What they protect is one resource for each.
    protocol: of a `delta_log`, how writers commit (see `scenarios.workloads.delta.protocols`); `helping` needs a
    service of kind `table`. Under `queue_…` clients enqueue, and the lock is the right to serve a table's queue.
    items: of a queue, how many a client enqueues before it asks for the lock. batch: the most items of one version.
    visibility: so long a worker may have items before they are delivered again.
    tables: so many tables, client n2 writes to the second of two.
    lock_key: `table`: each has its own lock; `shared`: all have one (D3).
    checkpoint_delay: between a tenth version and its checkpoint.
    arrivals: an open loop: so long after the intended start of a client's lock call it intends the next one, also where
    the call before is not over. It then asks as soon as it can, and its response time counts from the intended start.
    The loop is under way at the client's start, which falls anywhere into the time between two calls.
    There is no think time then. Without it the loop is closed: a client thinks, and asks, when its last cycle is over.
    start, cycles, think, hold, writes, wait: of every client, as Work explains them.
    clients: what is otherwise for single clients.
    """

    kind: Literal["list", "counter", "register", "log", "delta_log"] = "register"
    protocol: Literal[
        "put", "rename", "rename_identity", "create", "create_identity", "helping",
        "queue_exactly_once", "queue_at_least_once", "queue_at_most_once",
    ] = "put"  # fmt: skip
    items: Count = constant(1)
    batch: Annotated[int, Field(ge=1, le=10_000)] = 100
    visibility: Duration = constant(10 * NS_PER_UNIT["s"], "10s")
    tables: Annotated[int, Field(ge=1, le=64)] = 1
    lock_key: Literal["table", "shared"] = "table"
    checkpoint_delay: Duration = constant(0, "0s")
    locks: Annotated[int, Field(ge=1, le=16)] = 1
    life: Literal[
        "loop", "relock", "two_threads", "careless_thread", "owner_ends", "reentrant", "closes", "closed_by_another",
        "forks", "unlocked", "members",
    ] = "loop"  # fmt: skip
    asks: Literal["guard", "token", "both", "nothing"] = "guard"
    arrivals: Duration | None = None
    start: Duration = constant(0, "0s")
    cycles: Count = constant(2)
    think: Duration = DrawnNumber("0s..500ms", (), 0, 500_000_000)
    hold: Duration = constant(NS_PER_UNIT["s"], "1s")
    writes: Count = constant(2)
    wait: Duration = constant(30 * NS_PER_UNIT["s"], "30s")
    clients: dict[ClientName, Work] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _several_locks(self) -> Self:
        if self.locks > 1 and (self.life != "members" or self.kind == "delta_log"):
            raise ValueError("several locks need 'life: members', and another kind than delta_log")
        return self

    @model_validator(mode="after")
    def _can_ask(self) -> Self:
        if self.asks != "guard" and (self.kind == "delta_log" or self.life == "unlocked"):
            what = "writers of a delta_log" if self.kind == "delta_log" else "clients that live `unlocked`"
            raise ValueError(f"asks {self.asks!r}: {what} ask as their protocol says; expected 'guard'")
        if self.asks_token and self.kind != "register":
            raise ValueError(f"asks {self.asks!r}: only 'kind: register' compares tokens, and this is {self.kind!r}")
        return self

    @model_validator(mode="after")
    def _can_arrive(self) -> Self:
        if self.arrivals is None:
            return self
        if self.life in ("members", "unlocked"):
            raise ValueError(f"arrivals: life is {self.life!r}, and an open loop is of clients that make one lock call")
        if self.arrivals.most == 0:
            raise ValueError("arrivals: calls that are intended 0s apart never end; expected a time above 0s")
        thinking = [f"clients.{name}.think" for name, work in self.clients.items() if work.think is not None]
        if "think" in self.model_fields_set:
            thinking.insert(0, "think")
        if thinking:
            raise ValueError(f"arrivals: an open loop has no think time; leave out {', '.join(thinking)}")
        return self

    @model_validator(mode="after")
    def _owns_queue(self) -> Self:
        if self.has_queue and self.life == "unlocked":
            raise ValueError(
                f"protocol {self.protocol!r}: a queue is served under its table's lock; life is 'unlocked'"
            )
        return self

    @property
    def has_queue(self) -> bool:
        """True if clients enqueue what they want committed, in the service `queue`."""
        return self.kind == "delta_log" and self.protocol.startswith("queue_")

    @property
    def asks_token(self) -> bool:
        """True if clients ask their lock for a fencing token, so that one without tokens proves nothing."""
        return self.asks in ("token", "both")

    @property
    def works_in(self) -> str:
        """The kind of the service that the clients' own work may use beside the resource; "" where it uses none.

        The clients of a helping log keep its entries in rows.
        """
        return TABLE.name if self.kind == "delta_log" else ""

    @property
    def needs(self) -> str:
        """As `works_in`, where the work cannot be done without that service; else ""."""
        return self.works_in if self.protocol == "helping" else ""

    def lock_names(self, key: str) -> tuple[str, ...]:
        """Every lock of the workload. key: of the first one."""
        return (key, *(f"{key}-{number}" for number in range(2, self.locks + 1)))


class Swarm(Model):
    """Random fault plans: per seed some kinds are off entirely, the rest have wild weights.

    kinds: what may be drawn; default: everything that a correct lock survives.
    beyond_envelope: clocks go anywhere instead of within `envelope`.
    """

    kinds: list[str] = Field(default_factory=list)
    beyond_envelope: bool = False


class Envelope(Model):
    """The envelope that the lock is promised: beyond it, S3 and S5 may break and the lock is not at fault.

    offset: largest wall offset between two processes. drift: largest rate error.
    A swarm stays within them.
    """

    offset: Duration = constant(500 * NS_PER_UNIT["ms"], "500ms")
    drift: Rate = constant(0, "0ppm")


class Scenario(Model):
    """One scenario file.

    version: of this format. name: lower case, digits, hyphens; in the catalogue equal to the file's name.
    ids: the numbered items that it shows. about: what happens, and why that matters.
    seed: a pinned one: it is run where no `--seeds` are given. clients: how many; they are called n1, n2 and so on.
    duration: no cycle begins later; calls then end by themselves.
    heal_at: from then on nothing disturbs: liveness is judged from there. lock: the timing that the lock is told.
    store: whose answers the object store gives. services: services beside `store` and `resource`.
    nodes: nodes that are no clients. network: how long messages take, and how many get lost.
    clock: clocks that are wrong from the start. workload: what clients do.
    providers: another lock for single clients, such as `{n2: hudi}`: the lock under test beside it on one object.
    It is loaded when the file is read.
    faults: what goes wrong, and when. swarm: random fault plans.
    envelope: what the lock is promised; a swarm stays within.
    expect: by build: `held` (no clause violated, and safety not inconclusive), or clause to verdict. A known-bad
    scenario is a regression test, too.
    must_happen: situations without which the batch is inconclusive, by name or with a least count, such as `{grant:
    100}`. `fault:pause` names a fault that struck and changed something.
    thresholds: limits on what is measured, such as `handoff.p99 < 12s`.
    """

    version: Literal[1]
    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    ids: list[Annotated[str, Field(pattern=r"^[A-Z]{1,2}[0-9]{1,2}$")]] = Field(default_factory=list)
    about: Annotated[str, Field(max_length=4000)] = ""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    clients: Annotated[int, Field(ge=1, le=CLIENTS_MAX)] = 3
    duration: Duration = constant(60 * NS_PER_UNIT["s"], "60s")
    heal_at: Duration | None = None
    lock: Lock = Lock()
    store: Store = Store()
    services: Annotated[dict[NodeName, DeclaredService], Field(max_length=16)] = Field(default_factory=dict)
    nodes: Annotated[dict[NodeName, DeclaredNode], Field(max_length=16)] = Field(default_factory=dict)
    network: Network = Network()
    clock: Clock = Clock()
    workload: Workload = Workload()
    providers: dict[ClientName, str] = Field(default_factory=dict, max_length=PROVIDERS_MAX)
    faults: Annotated[list[FaultSpec], Field(max_length=256)] = Field(default_factory=list)
    swarm: Swarm | None = None
    envelope: Envelope = Envelope()
    expect: dict[str, Verdict | dict[ClauseId, Verdict]] = Field(default_factory=dict)
    must_happen: Annotated[list[Demand], Field(max_length=64)] = Field(default_factory=list)
    thresholds: Annotated[list[ThresholdText], Field(max_length=64)] = Field(default_factory=list)

    def demanding(self, thresholds: Sequence[str]) -> Scenario:
        """The same, with further thresholds, each once."""
        return self.model_copy(update={"thresholds": list(dict.fromkeys((*self.thresholds, *thresholds)))})

    @property
    def needs_detail(self) -> bool:
        """Some threshold asks for more than a history says by itself (`lockref.history.Recorder`)."""
        return not NEED_DETAIL.isdisjoint(measures_of(self.thresholds))

    @property
    def client_names(self) -> tuple[str, ...]:
        return tuple(f"n{number}" for number in range(1, self.clients + 1))

    def services_on(self, kind: str) -> Mapping[str, DeclaredService]:
        """Every service but the protected resource, by name: `store` first, then what the file declares, in order.

        kind: of `store`: what the lock under test stands on (`ProviderSpec.stands_on`).
        """
        dialect = self.store.dialect if entry_of(kind, SIMULATED).has_dialects else ""
        return {DEFAULT_STORE: _store_of(kind, dialect), **self.services}

    def declared_for_work(self) -> str | None:
        """The first declared service of the kind that the clients' own work may use; None if none is declared."""
        kind = self.workload.works_in
        return next((name for name, each in self.services.items() if each.kind == kind), None)

    def service_for(self, kind: str, name: str = "", *, stands_on: str = DEFAULT_KIND) -> str:
        """Which service is meant by a kind of port and a name; "" is the first of that kind.

        stands_on: as of `services_on`. Raises ConfigError where the scenario declares none such.
        """
        declared = self.services_on(stands_on)
        if not name:
            for each, service in declared.items():
                if service.kind == kind:
                    return each
            raise ConfigError(
                f"a {kind} was opened, and scenario {self.name} declares none; add such as "
                f"'services: {{{kind}: {{kind: {kind}}}}}', or say in the lock's class that it stands on one "
                f"(stands_on = {kind!r})"
            )
        if name not in declared:
            raise ConfigError(
                f"service {name!r} was opened; scenario {self.name} has {', '.join(declared)}."
                f"{did_you_mean(name, declared)}"
            )
        if declared[name].kind != kind:
            raise ConfigError(f"service {name!r} was opened as {kind}; it is declared as {declared[name].kind}")
        return name

    @property
    def service_names(self) -> tuple[str, ...]:
        """Every service of the scenario: `store`, `resource`, its queue, then what the file declares beside them."""
        queue = (QUEUE_NAME,) if self.workload.has_queue else ()
        return tuple(dict.fromkeys((DEFAULT_STORE, RESOURCE_NAME, *queue, *self.services)))

    @property
    def has_unreliable_network(self) -> bool:
        """Does its network lose or repeat messages?"""
        return bool(self.network.loss or self.network.duplication)

    @property
    def disturbs(self) -> bool:
        """True if anything in it is not as on a machine and a network that work."""
        return bool(
            self.faults
            or self.swarm
            or self.clock.drift
            or self.clock.offset
            or self.has_unreliable_network
            or self.workload.life == "forks"
        )

    def demanded_of(self, spec: ProviderSpec, *, clients: int, duration_ns: int) -> list[str]:
        """The demands on a run of this lock, with so many clients and of such a length, as the runs table says them."""
        least, unasked = self.demanded(clients=clients, duration_ns=duration_ns), self.unreachable_by(spec)
        return [demand_text(situation, count) for situation, count in least.items() if situation not in unasked]

    def demanded(self, *, clients: int, duration_ns: int) -> dict[str, int]:
        """The least number of times for each situation in a run with so many clients and of such a length.

        A situation that is named twice must come about as often as it is asked for most. Where clients ask for fencing
        tokens, one must have been given.
        """
        least: dict[str, int] = {TOKEN: 1} if self.workload.asks_token else {}
        for demand in self.must_happen:
            for situation, floor in ({demand: 1} if isinstance(demand, str) else demand).items():
                count = floor if isinstance(floor, int) else floor.count(clients=clients, duration_ns=duration_ns)
                least[situation] = max(count, least.get(situation, 1))
        return least

    def owed_by(self, seeds: int) -> Scenario:
        """The same, without what is not asked of a campaign of so few seeds."""
        owed = [
            demand
            for demand in self.must_happen
            if isinstance(demand, str)
            or all(isinstance(floor, int) or floor.seeds <= seeds for floor in demand.values())
        ]
        return self if len(owed) == len(self.must_happen) else self.model_copy(update={"must_happen": owed})

    def expected(self, provider: str) -> Mapping[str, str]:
        """Clause to verdict for a build; the key "" is the verdict as a whole."""
        said = self.expect.get(provider, {})
        return {"": said} if isinstance(said, str) else dict(said)

    def unreachable_by(self, spec: ProviderSpec) -> frozenset[str]:
        """The situations in `must_happen` that this lock cannot bring about, whatever befalls it."""
        is_held_by_session = service_kind(spec.stands_on).has_sessions and RENEWS not in spec.claims
        renewals = RENEWALS & self._situations() if is_held_by_session else frozenset()
        return renewals | frozenset(self.unasked_of(spec))

    def _situations(self) -> frozenset[str]:
        """The situations in `must_happen`, by name."""
        return frozenset(
            name for demand in self.must_happen for name in ([demand] if isinstance(demand, str) else demand)
        )

    def unasked_of(self, spec: ProviderSpec) -> list[str]:
        """The situations in `must_happen` that only locks which promise them are asked for, and this one does not."""
        return sorted(name for name in self._situations() if name in PROMISES and not getattr(spec, PROMISES[name]))

    def seeds(self, asked: Sequence[int] | None, otherwise: Sequence[int]) -> Sequence[int]:
        """The seeds to run: those asked for, else the one that the scenario pins, else `otherwise`."""
        if asked is not None:
            return asked
        return otherwise if self.seed is None else range(self.seed, self.seed + 1)

    def missing_promises(self, spec: ProviderSpec) -> str:
        """Why the scenario asks nothing of this lock: the lock does not declare what the scenario is about; or ""."""
        return "; ".join(
            f"it is about {situation}, and the lock does not declare `{PROMISES[situation]}`"
            for situation in self.unasked_of(spec)
        )

    def reference_of(self, stands_on: str) -> str:
        """The lock whose expectation says what is demanded here of every lock of its kind.

        Of locks in a table it is `dynamodb` where the scenario says something of it: that lock needs no wall clock, so
        more is demanded of its kind. Else it is `hardened`, and where the scenario says nothing of that one either, the
        reference of another kind: a commit protocol that loses commits under one right lock loses them under each.
        """
        usual = service_kind(DEFAULT_KIND).reference
        known = (service_kind(stands_on).reference, usual, *(kind.reference for kind in SERVICES.values()))
        return next((name for name in known if name in self.expect), usual)

    def why_reference(self, stands_on: str) -> str:
        """A clause to end a sentence on the reference: why it is not the lock of this kind; "" where it is."""
        own = service_kind(stands_on).reference
        return "" if own == self.reference_of(stands_on) else f": the scenario says nothing of the {own} lock itself"

    def not_demanded(self, stands_on: str = DEFAULT_KIND) -> frozenset[str]:
        """The clauses that a gate does not demand: those that not even the reference is known to keep here.

        All of them where it is expected to break without a word on what it
        keeps; none where it holds, or nothing is said of it. S4 is no lock's to keep where clients ask nothing.

        stands_on: of the lock that is judged; it says which lock is the reference (`reference_of`).
        """
        said = self.expect.get(self.reference_of(stands_on), "held")
        if isinstance(said, str):
            nobodys = frozenset({"S4"}) if self.workload.asks == "nothing" else frozenset()
            return nobodys if said == "held" else frozenset(CLAUSES)
        return frozenset(clause for clause in CLAUSES if said.get(clause) != "held")


def scenario_schema() -> dict[str, Any]:
    """JSON Schema of a scenario file, for editors."""
    schema = Scenario.model_json_schema(by_alias=True, mode="validation")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "lockref scenario"
    return schema
