"""Our commit protocols on a real server, judged as in virtual time: each acknowledged commit in exactly one version."""

from __future__ import annotations

import contextlib

import pytest

from lockref.clouds.uri import open_store
from lockref.errors import CapabilityMissing
from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_S
from reports.checks import judge
from reports.checks.facts.case import open_case
from reports.checks.measures.commits import commit_figures
from reports.checks.spec import HELD
from scenarios.backends import table_uri
from scenarios.definition.load import parse_scenario
from scenarios.injection.session import Injection
from scenarios.run import run_real
from scenarios.workloads.delta.log_files import Log
from scenarios.workloads.delta.places import LogPlaces
from scenarios.workloads.resource import ByService
from scenarios.worlds.contention import strike_notices
from scenarios.worlds.log_server import log_places

WRITERS, COMMITS = 3, 4
LEDGER = ("DL1", "DL2", "DL3", "DL4", "DL5")


def scenario_of(protocol: str, life: str):
    return parse_scenario(
        f"version: 1\nname: commits\nclients: {WRITERS}\nduration: 600s\n"
        "lock: {validity: 60s, renew_every: 6s, poll_every: 1s}\n"
        "services: {rows: {kind: table}}\n"
        f"workload: {{kind: delta_log, life: {life}, protocol: {protocol}, cycles: {COMMITS}, think: 0s, hold: 0s,"
        " writes: 1, wait: 600s}\n"
    )


def held(outcome) -> None:
    """The ledger is exact, and it is not empty."""
    case = open_case(outcome.events, outcome.runs)
    figures = commit_figures(case.events, case.commits)
    verdicts = {row["clause"]: row["verdict"] for row in judge(outcome.events, outcome.runs).verdicts.to_pylist()}
    assert {verdicts[clause] for clause in LEDGER} == {HELD}
    assert (figures.lost, figures.twice, figures.landed) == (0, 0, 0)
    assert figures.acknowledged + figures.refused + figures.unknown == WRITERS * COMMITS
    assert figures.acknowledged == len(figures.lasted_ns) > 0


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
@pytest.mark.parametrize(
    ("protocol", "life"), [("put", "loop"), ("helping", "unlocked"), ("create_identity", "unlocked")]
)
def test_each_acknowledged_commit_is_in_one_version_of_a_log_on_a_real_server(protocol, life, ministack):
    """DL1 to DL5 hold of our lock with load and put under it, of the helping log store, and of creates with identity.

    The log that is read back has as many versions as commits were acknowledged.
    """
    places = log_places(ministack, has_rows=protocol == "helping")
    outcome = run_real(scenario_of(protocol, life), load_provider("dynamodb"), table_uri(ministack), places=places)
    held(outcome)
    told = [row for row in outcome.events.to_pylist() if (row["kind"], row["op"]) == ("return", "commit")]
    with contextlib.closing(open_store(places.objects, request_timeout_ns=20 * NS_PER_S)) as store:
        versions = Log(store, told[0]["lock"]).load().version + 1
    assert versions == sum(row["outcome"] == "applied" for row in told)


@pytest.mark.parametrize("protocol", ["helping", "create", "create_identity"])
def test_every_protocol_commits_to_a_log_in_memory(protocol):
    held(run_real(scenario_of(protocol, "unlocked"), load_provider("hardened"), "memory:"))


def test_worker_processes_commit_to_one_log(tmp_path):
    """Each process writes down what it put into its place; together that is the log."""
    scenario = scenario_of("create_identity", "unlocked")
    held(run_real(scenario, load_provider("hardened"), tmp_path.as_uri(), processes=WRITERS))


def test_faults_strike_the_requests_to_a_log_and_to_its_rows(monkeypatch):
    """Under a plan they pass the process that injects, as those to any protected resource do.

    The log is closed after the injection has ended: what that has on its way needs it.
    """
    ended: list[str] = []
    leave, close = Injection.__exit__, ByService.close

    def left(self, *error):
        leave(self, *error)
        ended.append("injection")

    def closed(self):
        ended.append("log")
        close(self)

    monkeypatch.setattr(Injection, "__exit__", left)
    monkeypatch.setattr(ByService, "close", closed)
    scenario = parse_scenario(
        "version: 1\nname: commits\nclients: 1\nduration: 60s\nservices: {rows: {kind: table}}\n"
        "workload: {kind: delta_log, life: unlocked, protocol: helping, cycles: 4, think: 0s, hold: 0s, writes: 1}\n"
        "faults:\n"
        "  - {kind: error, service: rows, op: write, status: 403, nth: 1, times: 1}\n"
        "  - {kind: error, service: resource, op: write, status: 503, cut: c2, nth: 2, times: 1}\n"
        "  - {kind: error, service: rows, op: delete, status: 503, nth: 1, times: 1}\n"
    )
    outcome = run_real(scenario, load_provider("hardened"), "memory:")
    assert ended == ["injection", "log"]
    fired = [fired for _, fired, _ in outcome.fault_counts.values()]
    assert fired == [1, 1, 0]
    told = strike_notices(outcome.plan, outcome.fault_counts)
    assert told[1].endswith("no request of this run matched it (service rows, op delete, nth 1)")
    case = open_case(outcome.events, outcome.runs)
    figures = commit_figures(case.events, case.commits)
    assert (figures.lost, figures.twice) == (0, 0)
    effects = [row for row in outcome.events.to_pylist() if row["kind"] == "effect"]
    assert {row["detail"] for row in effects} == {"n1"}, "written where the request was sent, so nothing is read back"


def test_a_table_alone_has_no_place_for_a_log():
    with pytest.raises(CapabilityMissing, match="a Delta log needs an object store beside it"):
        run_real(scenario_of("put", "loop"), load_provider("dynamodb"), "dynamodb://locks?endpoint=http://127.0.0.1:9")


def test_a_helping_log_store_without_a_table_is_refused(tmp_path):
    with pytest.raises(CapabilityMissing, match="'helping' needs a table"):
        run_real(
            scenario_of("helping", "unlocked"), load_provider("hardened"), tmp_path.as_uri(),
            places=LogPlaces(objects=tmp_path.as_uri()),
        )  # fmt: skip
