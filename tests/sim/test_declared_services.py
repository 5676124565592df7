"""Services and nodes that a scenario declares: who can open them, what faults may name, where they are refused."""

from __future__ import annotations

import pytest

from lockref.errors import CapabilityMissing, ConfigError
from lockref.history import to_table
from lockref.lab.loading import load_program, provider_from
from lockref.ports import PortKind, Request
from lockref.provider import LockContext, LockSettings
from lockref.runtime import ThreadRuntime
from lockref.stores.client import OBJECT_STORE, PUT
from lockref.stores.memory import MemoryStore
from scenarios.definition.load import parse_scenario
from scenarios.worlds.real import run_real
from scenarios.worlds.simulated import RunOutcome, run_simulated
from sim.services.kinds import make_service
from tests.sim.assigned_lock import AssignedLock

ASSIGNED = provider_from(AssignedLock, name="assigned")
DECLARED = """
version: 1
name: assigned
duration: 20s
workload: {kind: counter, cycles: 2}
services:
  assignments: {kind: object_store, dialect: gcs}
nodes:
  controller: {program: "tests.sim.assigned_lock:Controller", options: {look_ms: "20"}}
"""


def run(text: str, seed: int = 1) -> RunOutcome:
    return run_simulated(parse_scenario(text), ASSIGNED, seed)


def rows(outcome: RunOutcome, kind: str, **wanted: str) -> list[dict[str, object]]:
    table = to_table([outcome.recorder]).to_pylist()
    return [row for row in table if row["kind"] == kind and all(row[key] == value for key, value in wanted.items())]


def test_a_controller_writes_what_clients_read() -> None:
    """A declared node opens a declared service, and the clients of the other side get their lock from it."""
    outcome = run(DECLARED)
    assigned = rows(outcome, "applied", node="controller", lock="assigned")
    granted = [row for row in rows(outcome, "return", op="acquire") if row["outcome"] == "applied"]
    assert len(granted) == 6
    assert len(assigned) >= len(granted)
    assert {row["node"] for row in granted} == {"n1", "n2", "n3"}
    assert outcome.run_row["lock_protocols"] == {granted[0]["lock"]: "calls"}
    assert outcome.digest == run(DECLARED).digest


def test_a_declared_service_answers_as_s3_unless_another_is_named() -> None:
    """The dialect of an object store is S3's where none is said."""
    said = [make_service("object_store", dialect=dialect).capabilities.dialect for dialect in ("", "gcs")]
    assert said == ["s3", "gcs"]


def test_a_controller_starts_anew_after_a_crash() -> None:
    """A declared node is a process like any other: faults end it, and a restart makes its program again."""
    crash = "faults: [{kind: crash, client: controller, at: 2s, restart_after: 3s}]"
    outcome = run(DECLARED + crash)
    gone = [row["at_ns"] for row in rows(outcome, "sent", node="controller")]
    assert not [at_ns for at_ns in gone if 2_000_000_000 < at_ns < 5_000_000_000]  # type: ignore[operator]
    assert [at_ns for at_ns in gone if at_ns >= 5_000_000_000]  # type: ignore[operator]


def test_a_fault_strikes_a_declared_service() -> None:
    """`service:` and partitions name what the scenario declares; what it does not is refused where it stands."""
    lost = "faults: [{kind: lose_request, service: assignments, for: 1s, client: n1, id: lost}]"
    assert run(DECLARED + lost).fault_counts["lost"][1] > 0
    cut = "faults: [{kind: partition, groups: [[controller], [assignments]], at: 1s, for: 2s, id: cut}]"
    assert run(DECLARED + cut).fault_counts["cut"][2] > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("services:\n  leases: {kind: tabel}", r"^<text>:6:18: services.leases.kind: is 'tabel'; expected one of"),
        ("services:\n  leases: {kind: object_store, dialect: s4}", "<text>:6:11: services.leases: .*'s4'"),
        ("services:\n  leases: {kind: object_store, options: {x: '1'}}", "has the option 'x'"),
        ("services:\n  leases: {kind: table, options: {x: '1'}}", "has the option 'x'; table knows none"),
        ("services:\n  n1: {kind: object_store}", "services.n1: is called 'n1'"),
        ("services:\n  resource: {kind: object_store}", "services.resource: is the protected resource"),
        ("store: {dialect: gcs}\nservices:\n  store: {kind: object_store}", "services.store: is said a second time"),
        ("nodes:\n  store: {program: 'a:B'}", "nodes.store: is called 'store'"),
        ("nodes:\n  n7: {program: 'a:B'}", "nodes.n7: is called 'n7'"),
        ("nodes:\n  boss: {porgram: 'a:B'}", r"boss.porgram: is no key here. Did you mean 'program'"),
        (
            "services:\n  leases: {kind: object_store}\nfaults: [{kind: delay, by: 1s, service: lease, client: n1}]",
            "<text>:7:41: faults.0.service: is 'lease'; expected .*Did you mean 'leases'",
        ),
        (
            "nodes:\n  boss: {program: 'tests.sim.assigned_lock:Controler'}",
            r"<text>:6:19: nodes.boss.program: program .* has no 'Controler'. Did you mean 'Controller'",
        ),
        (
            "nodes:\n  boss: {program: 'tests.sim.asigned_lock:Controller'}",
            r"<text>:6:19: nodes.boss.program: .* no module .* Did you mean 'tests.sim.assigned_lock'",
        ),
        (
            "nodes:\n  boss: {program: 'tests/sim/asigned_lock.py:Controller'}",
            r"<text>:6:19: nodes.boss.program: .* there is no file .*Did you mean 'assigned_lock.py'",
        ),
        ("providers: {n2: hardend}", "<text>:5:17: providers.n2: .* is not known.*Did you mean 'hardened'"),
        (
            "nodes:\n  boss: {program: 'a:B'}\nfaults: [{kind: crash, at: 1s, client: bos}]",
            "<text>:7:40: faults.0.client: is 'bos'; .*Did you mean 'boss'",
        ),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_refused_where_it_stands(text: str, words: str) -> None:
    """File, line and column, and the nearest name."""
    with pytest.raises(ConfigError, match=words):
        parse_scenario(f"version: 1\nname: x\n\n\n{text}\n")


def test_a_program_is_loaded_like_a_lock() -> None:
    """Missing modules, classes and methods are one line that names the program."""
    for reference, words in (
        ("nowhere:Controller", "program 'nowhere:Controller': there is no module"),
        ("tests.sim.assigned_lock:Controler", "Did you mean 'Controller'"),
        ("tests.sim.assigned_lock:NoProgram", "has no run"),
        ("tests.sim.assigned_lock", "expected 'module:Class'"),
        ("tests.sim.assigned_lock:TIMEOUT_NS", "expected a class"),
    ):
        with pytest.raises(ConfigError, match=words):
            load_program(reference)


def test_what_a_program_raises_is_its_own_fault() -> None:
    """One line with the node, the exception, the scenario and the seed."""
    text = DECLARED.replace("Controller", "Raises")
    with pytest.raises(
        ConfigError, match=r"^node 'controller': its program raised KeyError: 'nobody' \(scenario assigned, seed 1"
    ):
        run(text)


def test_a_lock_that_opens_what_nobody_declares_is_told() -> None:
    """By a name or a kind that the scenario has not."""
    with pytest.raises(ConfigError, match="service 'assignments' was opened; scenario x has store"):
        run("version: 1\nname: x\n")


def test_a_real_run_has_no_declared_services_and_nodes() -> None:
    """They are refused before anything is started."""
    with pytest.raises(ConfigError, match="declares the services assignments; only the simulated world"):
        run_real(parse_scenario(DECLARED), ASSIGNED, "memory:")
    nodes_alone = DECLARED.replace("services:\n  assignments: {kind: object_store, dialect: gcs}\n", "")
    with pytest.raises(ConfigError, match="declares the nodes controller"):
        run_real(parse_scenario(nodes_alone), ASSIGNED, "memory:")


def test_a_context_made_by_hand_opens_its_one_store() -> None:
    """What worked with `open_store` alone still does; `open` of anything else says what is missing."""
    store = MemoryStore()
    context = LockContext(runtime=ThreadRuntime(), open_store=lambda _timeout_ns: store, settings=LockSettings())
    context.open(OBJECT_STORE, timeout_ns=1).put_if_absent("k", b"x")
    assert store.read("k").body == b"x"
    assert context.open(OBJECT_STORE, timeout_ns=1, service="store").read("k") == store.read("k")
    with pytest.raises(CapabilityMissing, match="no service 'leases'"):
        context.open(OBJECT_STORE, timeout_ns=1, service="leases")


def test_a_context_made_by_hand_makes_the_client_that_was_asked_for() -> None:
    """A lock may bring a client of its own for object stores; it gets that one, over the one store."""
    store = MemoryStore()
    context = LockContext(runtime=ThreadRuntime(), open_store=lambda _timeout_ns: store, settings=LockSettings())
    own = PortKind(OBJECT_STORE.name, lambda channel, timeout_ns: (channel, timeout_ns))
    channel, timeout_ns = context.open(own, timeout_ns=7)
    channel.send(Request("n1", "store", PUT, "k", body=b"x"), timeout_ns)
    assert (store.read("k").body, timeout_ns) == (b"x", 7)
