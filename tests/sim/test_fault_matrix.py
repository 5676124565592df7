"""Every kind of fault, under every kind of workload and lock: `validate` refuses it with its place, or it runs.

Nothing else may come of a scenario file: no defect of ours, and no complaint that comes only when it is run.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from lockref.cli.main import run
from lockref.errors import ConfigError
from lockref.lab.loading import load_provider
from scenarios.definition.fault_forms import written_name
from scenarios.definition.faults import FAULT_KINDS
from scenarios.definition.load import parse_scenario
from scenarios.run import run_simulated
from sim.faults.fault import RequestFault
from sim.faults.plan import FAULT_TYPES
from sim.faults.quantities import Quantity, quantity_of

OPS = ("acquire", "renew", "release", "read", "write", "delete")
SERVICES = ("store", "resource", "rows", "zk")
KEYS = ("x", "", "/", "/a", "/zz/y", "a//b", "..", "k" * 5000)
BODIES = (
    "", "{", "[]", "NaN", "1e999", "[" * 5000, '{"validUntil": 1}', '{"leaseDuration": {"N": "x"}}',
    '{"leaseDuration": {"N": "9e999"}}', '{"key": {"S": 1}}', '{"id": "x", "simpleFields": 5}', "é",
)  # fmt: skip
LOCKS = (
    "hardened", "hudi", "dynamodb", "dynamodb-lock-0.6.1", "dynamodb-python-danger", "helix", "helix-lock",
    "helix-recipe", "znode-lease",
)  # fmt: skip
WORKLOADS: tuple[dict[str, Any], ...] = (
    *({"kind": kind} for kind in ("list", "counter", "register", "log")),
    *({"kind": "delta_log", "protocol": protocol}
      for protocol in ("put", "rename", "rename_identity", "create", "create_identity", "helping")),
    *({"kind": "register", "life": life}
      for life in ("relock", "two_threads", "reentrant", "forks", "closes", "unlocked", "careless_thread")),
    {"kind": "register", "life": "members", "locks": 2},
    *({"kind": "register", "asks": asks} for asks in ("token", "both", "nothing")),
)  # fmt: skip
SAMPLES: dict[Quantity, Any] = {
    Quantity.DURATION: "1s", Quantity.SHIFT: "1s", Quantity.RATE: "200ppm", Quantity.COUNT: 1,
    Quantity.PROBABILITY: 0.5, Quantity.NODE: "n1", Quantity.SERVICE: "store",
    Quantity.MEMBERS: [["n1"], ["store", "resource"]],
    Quantity.BYTES: "x",
}  # fmt: skip
BESIDE: dict[str, dict[str, Any]] = {
    "crash": {"restart_after": "1s"}, "error": {"status": 503}, "throttle": {"writes": 1}, "ghost_write": {"by": "3s"},
}  # fmt: skip
"""What a kind needs beside that, or needs another value of."""


def needed(kind: str) -> dict[str, Any]:
    """What a fault of this kind cannot do without, so that most of what is drawn runs: a value for each field."""
    declared = FAULT_TYPES[kind].model_fields
    quantities = {name: quantity_of(field) for name, field in declared.items() if field.is_required()}
    found = {written_name(name): SAMPLES[holds] for name, holds in quantities.items() if holds is not None}
    return found | BESIDE.get(kind, {})


def fault(kind: str, chance: random.Random) -> dict[str, Any]:
    """A fault of this kind that uses its keys in ways that need not go together."""
    drawn: dict[str, Any] = {**needed(kind), "kind": kind}
    known = FAULT_TYPES[kind].model_fields

    def may(share: float, **keys: object) -> None:
        if chance.random() < share:
            drawn.update(keys)

    way = chance.choice(("at", "at", "when", "neither"))
    if way == "at":
        drawn["at"] = chance.choice(("0s", "1500ms", "3s"))
    elif way == "when":
        drawn["when"] = {"client": "n1", "op": chance.choice(OPS), "nth": chance.choice((1, 2)),
                         "cut": chance.choice(("c0", "c1", "c2", "c3", "c4"))}  # fmt: skip
        if chance.random() < 0.4:
            drawn["when"]["service"] = chance.choice(SERVICES)
    if issubclass(FAULT_TYPES[kind], RequestFault):
        may(0.7 if way == "at" else 0.1, **{"for": "3s"})
        may(0.4, op=chance.choice(OPS))
        may(0.2, nth=chance.choice((1, 2)))
        may(0.2, times=chance.choice((1, 2)))
        may(0.3, probability=0.5)
        may(0.2, applied=True)
    if "service" in known:
        may(0.7, service=chance.choice(SERVICES))
    if "key" in known:
        may(0.7, key=chance.choice(KEYS))
    if "body" in known:
        drawn["body"] = chance.sample(BODIES, 3)
    if "attribute" in known:
        may(0.5, attribute=chance.choice(("key", "", "leaseDuration")))
    if kind == "error":
        drawn |= {"status": chance.choice((400, 403, 404, 409, 412, 429, 500, 503, "reset", "timeout"))}
        may(0.8, cut=chance.choice(("c1", "c2")))
    may(0.1, id=chance.choice(("mine", "f1", "drift-n1", f"{kind}-2")))
    return drawn


def drawn_scenario(number: int) -> tuple[dict[str, Any], str]:
    """A scenario with one or two faults, and the lock for it."""
    chance = random.Random(number)
    kind = FAULT_KINDS[number % len(FAULT_KINDS)]
    scenario: dict[str, Any] = {
        "version": 1, "name": "drawn", "clients": 2, "duration": "8s",
        "workload": {**chance.choice(WORKLOADS), "cycles": 2, "hold": "600ms", "writes": 2, "wait": "3s"},
        "services": {"rows": {"kind": "table"}, "zk": {"kind": "coordination"}},
        "faults": [fault(kind, chance) for _ in range(chance.choice((1, 1, 2)))],
    }  # fmt: skip
    if chance.random() < 0.2:
        scenario["clock"] = {"drift": {"n1": "100ppm"}}
    if chance.random() < 0.1:
        scenario["swarm"] = {}
    return scenario, chance.choice(LOCKS)


def tried(number: int) -> bool:
    """Read one drawn scenario, and run it if it is taken. True if it ran."""
    document, lock = drawn_scenario(number)
    try:
        scenario = parse_scenario(json.dumps(document, indent=1), file="drawn.yaml")
    except ConfigError as error:
        told = error.location
        assert told is not None, document
        assert told.line, document
        assert told.column, document
        return False
    run_simulated(scenario, load_provider(lock), 1)
    return True


def test_each_kind_is_taken_with_what_it_needs() -> None:
    """A kind that is refused in every scenario would be tried in none. A new one stands in no table here."""
    for kind in FAULT_KINDS:
        way = {} if issubclass(FAULT_TYPES[kind], RequestFault) else {"at": "1s"}
        document = {"version": 1, "name": "drawn", "faults": [{**needed(kind), **way, "kind": kind}]}
        assert [one.kind for one in parse_scenario(json.dumps(document)).faults] == [kind]


@pytest.mark.parametrize("part", range(3))
def test_a_scenario_runs_or_is_refused_with_its_place(part: int) -> None:
    """Each kind comes once in each part. Most run, or nothing would be shown."""
    count = len(FAULT_KINDS)
    assert sum(tried(number) for number in range(part * count, (part + 1) * count)) > count // 3


@pytest.mark.long
@pytest.mark.parametrize("part", range(3, 120))
def test_many_scenarios_run_or_are_refused_with_their_place(part: int) -> None:
    count = len(FAULT_KINDS)
    for number in range(part * count, (part + 1) * count):
        tried(number)


def test_a_controller_that_is_given_no_session_asks_again() -> None:
    """A service that is throttled for the whole run: its clients wait, and the run goes on to its end."""
    limited = "faults:\n  - {kind: throttle, service: store, writes: 1, at: 0s}\n"
    scenario = parse_scenario(f"version: 1\nname: x\nclients: 2\nduration: 8s\n{limited}")
    assert run_simulated(scenario, load_provider("helix"), 1).fault_counts["throttle-1"][1] > 0


HEAD = "version: 1\nname: x\nclock: {drift: {n1: 100ppm}}\n"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("{kind: throttle, at: 1s}", "5:5", "limits nothing; give 'reads', 'writes' or both"),
        ("{kind: delay, by: 1s, at: 1s, applied: true}", "5:5", "has 'applied', and strikes a request on its way"),
        (
            "{kind: lose_reply, when: {client: n1, op: renew, nth: 1, cut: c1}, nth: 2}",
            "5:5",
            "'at', 'for', 'nth' and 'times'",
        ),
        (
            "{kind: lose_reply, when: {client: n1, op: renew, nth: 1, cut: c1}, applied: true}",
            "5:5",
            "write 'applied' in it",
        ),
        ("{kind: step, client: n1, at: 1s, by: 1s, id: drift-n1}", "5:50", "is 'drift-n1' a second time"),
        ("{kind: duplicate, id: duplicate-2}\n  - {kind: duplicate}", "6:5", "is called 'duplicate-2' a second time"),
        ("{kind: duplicate, id: f3}\nswarm: {kinds: [pause]}", "5:27", "is 'f3', as faults are called that a swarm"),
    ],
)
def test_what_no_plan_can_hold_is_refused_when_it_is_read(text, place, words, tmp_path, capsys) -> None:
    """`validate` had said ✓, and the run ended with a complaint in the words of a plan and without a place."""
    file = tmp_path / "x.yaml"
    file.write_text(f"{HEAD}faults:\n  - {text}\n")
    assert run(["scenario", "validate", str(file)]) == 2
    told = capsys.readouterr().out
    assert f"x.yaml:{place}: " in told
    assert words in told


def test_a_controller_that_is_shown_the_time_before_its_cluster_asks_again() -> None:
    """A read lags by a second at the start: the run ended, and the lock was blamed for a cluster without HISTORY."""
    stale = "faults:\n  - {kind: stale_read, at: 0s, lag: 1s}\n"
    scenario = parse_scenario(f"version: 1\nname: x\nclients: 2\nduration: 8s\n{stale}")
    assert run_simulated(scenario, load_provider("helix"), 1).fault_counts["stale_read-1"][1] > 0
