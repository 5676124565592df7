"""Scenario files: what they accept, and where they say that something is wrong."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockref.errors import ConfigError
from lockref.lab.loading import BUILT_IN, load_provider
from lockref.located_yaml import BYTES_MAX
from lockref.quantities import duration_ns
from reports.checks.demands import demand_text, parse_demand
from scenarios.definition.draw import draw_scenario, profile_of, rate_error_ppm
from scenarios.definition.fault_plan import draw_plan, is_same_for_all_seeds
from scenarios.definition.load import catalogue, load_scenario, parse_scenario
from scenarios.definition.schema import scenario_schema
from scenarios.definition.units import rate_ppm

HEAD = "version: 1\nname: x\n"


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_scenario(text, file="f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (
            f"{HEAD}clients: 3\nfaults:\n  - {{at: 1s, kind: freez, client: n1, for: 2s}}\n",
            "f.yaml:5:20: faults.0.kind",
            ["'freez'", "Did you mean 'freeze'?"],
        ),
        (f"{HEAD}clients: -3\n", "f.yaml:3:10: clients", ["-3"]),
        (f"{HEAD}clients: 4..1\n", "f.yaml:3:10: clients", ["expected a whole number"]),
        (f"{HEAD}clints: 3\n", "f.yaml:3:1: clints", ["Did you mean 'clients'?"]),
        (f"{HEAD}lock: {{validty: 3s}}\n", "f.yaml:3:8: lock.validty", ["'validity'"]),
        (f"{HEAD}lock: {{validity: 300}}\n", "f.yaml:3:18: lock.validity", ["without a unit", "300s or 300ms"]),
        (f"{HEAD}lock: {{validity: 3 fortnights}}\n", "f.yaml:3:18: lock.validity", ["3 fortnights"]),
        (f"{HEAD}duration: 9s..2s\n", "f.yaml:3:11: duration", ["from the smaller to the larger"]),
        (f"{HEAD}clock: {{offset: {{n4: 1s}}}}\n", "f.yaml:3:22: clock.offset.n4", ["n1 to n3"]),
        (f"{HEAD}faults:\n  - {{at: 1s, kind: pause, client: n7, for: 1s}}\n", "f.yaml:4:35: faults.0.client", ["n7"]),
        (f"{HEAD}faults:\n  - {{at: 1s, kind: pause, client: n1}}\n", "f.yaml:4:5: faults.0.for", ["is missing"]),
        (f"{HEAD}faults:\n  - {{kind: pause, client: n1, for: 1s}}\n", "f.yaml:4:5: faults.0", ["needs 'at: 2s'"]),
        (
            f"{HEAD}faults:\n  - {{at: 1s, kind: slew, client: n1, by: 1s, rate: 0ppm..100ppm}}\n",
            "f.yaml:4:52: faults.0.rate",
            ["0ppm..100ppm", "at least 1ppm"],
        ),
        (
            f"{HEAD}faults:\n  - {{at: 1s, kind: slew, client: n1, by: 1s, rate: 50%}}\n",
            "f.yaml:4:52: faults.0.rate",
            ["50%", "at most 100000ppm"],
        ),
        (
            f"{HEAD}faults:\n  - {{kind: lose_reply, times: 0}}\n",
            "f.yaml:4:31: faults.0.times",
            ["at least 1"],
        ),
        (f"{HEAD}must_happen: [contentoin]\n", "f.yaml:3:15: must_happen.0", ["Did you mean 'contention'?"]),
        (f"{HEAD}must_happen: [{{grant: 0}}]\n", "f.yaml:3:23: must_happen.0.grant", ["is 0"]),
        (f"{HEAD}must_happen: [{{grnat: 3}}]\n", "f.yaml:3:23: must_happen.0.grnat", ["Did you mean 'grant'?"]),
        (f"{HEAD}must_happen: [{{grant: many}}]\n", "f.yaml:3:23: must_happen.0.grant", ["expected a whole number"]),
        (
            f"{HEAD}must_happen: [{{grant: {{per_client: 2, mots: 9}}}}]\n",
            "f.yaml:3:39: must_happen.0.grant.mots",
            ["Did you mean 'most'?"],
        ),
        (f"{HEAD}must_happen: [{{grant: {{most: 9}}}}]\n", "f.yaml:3:23: must_happen.0.grant", ["grows with nothing"]),
        (
            f"{HEAD}must_happen: [{{grant: {{per_client: 1, least: 9, most: 3}}}}]\n",
            "f.yaml:3:23: must_happen.0.grant",
            ["at least 9 and for at most 3"],
        ),
        (f"{HEAD}must_happen: [{{grant: 1, denied: 2}}]\n", "f.yaml:3:15: must_happen.0", ["fewer entries"]),
        (f"{HEAD}must_happen: [5]\n", "f.yaml:3:15: must_happen.0", ["expected text"]),
        (f"{HEAD}expect: {{hudi: {{S9: violated}}}}\n", "f.yaml:3:21: expect.hudi.S9", ["one of S1"]),
        (f"{HEAD}thresholds: ['handoff.p98 < 3s']\n", "f.yaml:3:14: thresholds.0", ["column 9", "p50, p90"]),
        (f"{HEAD}duration: 30s\nheal_at: 40s\n", "f.yaml:4:10: heal_at", ["after the end"]),
        ("version: 2\nname: x\n", "f.yaml:1:10: version", ["expected 1"]),
        ("name: x\n", "f.yaml:1:1: version", ["is missing"]),
        ("a: 1\na: 2\n", "f.yaml:2:1: a", ["second time"]),
        ("a: &b 1\nc: *b\n", "f.yaml:1:4", ["anchors and aliases"]),
        ("a: !!python/object:os.system x\n", "f.yaml:1:4", ["tags are not read"]),
        ("a: [1, 2\n", "f.yaml:2:1", ["not YAML"]),
        ("- 1\n", "f.yaml:1:1", ["a scenario is a mapping"]),
        ("", "f.yaml:1:1", ["is empty"]),
        ("# nothing\n", "f.yaml:1:1", ["is empty"]),
        ("a\0b", "f.yaml:1", ["not YAML"]),
        ("a: 1\n&b c: 2\n", "f.yaml:2:1", ["anchors and aliases"]),
        ("a: 1\n!b c: 2\n", "f.yaml:2:1", ["tags are not read"]),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1", ["second document"]),
        ("a: 1\nb: é\nc: \0\n", "f.yaml:3", ["not YAML"]),
        ("a: 1\nb: é\ud800\n", "f.yaml:2", ["not YAML"]),
        ("[" * 5000, "f.yaml:1:25", ["nested deeper"]),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, place: str, words: list[str]) -> None:
    """A bad scenario is one located line that names the value and the accepted form, never a traceback."""
    said = complaint(text)
    assert said.startswith(place)
    for word in words:
        assert word in said


def test_every_mistake_is_located_not_only_the_first() -> None:
    """Three mistakes in three lines give three lines, in the order of the file."""
    lines = complaint(f"{HEAD}clients: 0\nclint: 1\nduration: 5\n").splitlines()
    assert [line.split(": ")[0] for line in lines] == ["f.yaml:3:10", "f.yaml:4:1", "f.yaml:5:11"]


def test_yaml_is_1_2() -> None:
    """`no`, `on` and `1:30` are words, not booleans or a number of seconds."""
    scenario = parse_scenario(f"{HEAD}lock: {{options: {{a: no, b: on, c: 1:30}}}}\n")
    assert scenario.lock.options == {"a": "no", "b": "on", "c": "1:30"}


@pytest.mark.parametrize("said", ["hold", "{S9: held}", "{S3: hold}"])
def test_a_word_that_may_be_a_mapping_is_one_complaint(said: str) -> None:
    """`expect` takes a word or a mapping: what is wrong with the one that was written is said, and nothing else."""
    assert len(complaint(f"{HEAD}expect: {{hudi: {said}}}\n").splitlines()) == 1


@pytest.mark.parametrize("body", [b"\xff\xfe\x00garbage", b"version: 1\nname: \xe9\n", b"x" * (BYTES_MAX + 1)])
def test_a_file_that_is_no_text_is_refused_by_name(tmp_path: Path, body: bytes) -> None:
    """Binary and huge files end as a ConfigError (exit 2) that names the file."""
    path = tmp_path / "bin.yaml"
    path.write_bytes(body)
    with pytest.raises(ConfigError, match=r"bin\.yaml") as caught:
        load_scenario(path)
    assert caught.value.exit_code == 2


def test_a_missing_file_suggests_the_nearest_name(tmp_path: Path) -> None:
    """A typo in a path or in a catalogue name gets a suggestion."""
    (tmp_path / "pause.yaml").write_text(HEAD)
    with pytest.raises(ConfigError, match=r"Did you mean 'pause\.yaml'"):
        load_scenario(tmp_path / "puase.yaml")
    with pytest.raises(ConfigError, match="Did you mean 'contention'"):
        load_scenario("contentoin")


def test_a_clause_is_no_build() -> None:
    """`expect` names a build first; a clause in its place would be an expectation that nobody holds anything to."""
    with pytest.raises(ConfigError, match=r":3:14: expect\.S4: is a clause, expected a build first"):
        parse_scenario("version: 1\nname: x\nexpect: {S4: violated}\n")


def test_catalogue_names_are_found_by_id_and_whole() -> None:
    """`e08` and `e08-paused-holder` are the same scenario."""
    whole = load_scenario("e08-paused-holder")
    for name in ("e08", "E8", "E08", "e08-paused-holder.yaml"):
        assert load_scenario(name) == whole


def test_a_whole_catalogue_name_is_no_abbreviation() -> None:
    """`swarm` names one scenario although `swarm-overload` begins with it, as `--all` relies on."""
    for path in catalogue():
        assert load_scenario(path.stem).name == path.stem


@given(st.integers(-(10**12), 10**12), st.sampled_from(["ns", "us", "ms", "s"]))
def test_durations_are_exact(number: int, unit: str) -> None:
    """Units multiply exactly, whatever the size; nothing passes through floating point."""
    scale = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9}[unit]
    if abs(number * scale) < 366 * 24 * 3600 * 10**9:
        assert duration_ns(f"{number}{unit}") == number * scale


@pytest.mark.parametrize(
    ("text", "value"), [("-1.5s", -1_500_000_000), ("0.25ms", 250_000), ("2m", 120 * 10**9), ("0", 0)]
)
def test_durations_read_as_people_write_them(text: str, value: int) -> None:
    """Fractions, signs and zero without a unit."""
    assert duration_ns(text) == value


@pytest.mark.parametrize("text", [5, 1.5, "5", "s", "1e3s", "1 s s", "0.1ns", "400000h", None, "١s", "9" * 80 + "s"])
def test_bare_or_odd_durations_are_refused(text: object) -> None:
    """300 is neither seconds nor milliseconds (apache/hudi#13277)."""
    with pytest.raises(ValueError, match="is "):
        duration_ns(text)


def test_rates_carry_their_unit() -> None:
    """200ppm and 5% are rates, 200 is not."""
    assert (rate_ppm("200ppm"), rate_ppm("-5%")) == (200, -50_000)
    with pytest.raises(ValueError, match="without a unit"):
        rate_ppm(200)


def test_a_drawn_quantity_depends_on_seed_and_place_alone() -> None:
    """A new drawn key elsewhere moves no other draw."""
    lean = parse_scenario(f"{HEAD}duration: 20s..90s\n")
    more = parse_scenario(f"{HEAD}duration: 20s..90s\nlock: {{validity: 10s..20s}}\n")
    draws = [draw_scenario(lean, seed).duration_ns for seed in range(20)]
    assert draws == [draw_scenario(more, seed).duration_ns for seed in range(20)]
    assert len(set(draws)) > 10
    assert all(20 * 10**9 <= draw <= 90 * 10**9 for draw in draws)


def test_choices_are_all_drawn() -> None:
    """Each of a list of choices comes up, and nothing else does."""
    scenario = parse_scenario(f"{HEAD}duration: [10s, 20s, 30s]\n")
    assert {draw_scenario(scenario, seed).duration_ns for seed in range(50)} == {10 * 10**9, 20 * 10**9, 30 * 10**9}


@pytest.mark.parametrize("path", catalogue(), ids=lambda path: path.stem)
def test_each_catalogue_file_is_complete(path: Path) -> None:
    """A catalogue scenario is named as its file, says what it shows, and what it expects of its builds and of itself.

    Of RFC-91's two, of Delta's lease, of Helix or of a lock in one znode: the corrected one beside one as it was
    shipped, where a lock is to blame.
    """
    scenario = load_scenario(path)
    assert scenario.name == path.stem
    builds = set(scenario.expect)
    assert builds <= set(BUILT_IN)
    is_about_tables = "dynamodb" in builds and (len(builds) > 1 or "resumption" in scenario.must_happen)
    pairs = ({"hudi", "hardened"}, {"helix", "helix-recipe"}, {"znode-lease", "helix-lock"})
    # The build that was shipped gives no tokens: where a scenario asks for some, it has no verdict.
    asks_for_tokens = "token" in scenario.must_happen
    assert is_about_tables or asks_for_tokens or any(builds >= pair for pair in pairs)
    assert scenario.ids
    assert scenario.about
    assert scenario.must_happen


def test_the_catalogue_covers_its_ids() -> None:
    """E1 to E17 and U1 to U10 each have a scenario."""
    covered = {known for path in catalogue() for known in load_scenario(path).ids}
    wanted = {f"E{number}" for number in range(1, 18)} | {f"U{number}" for number in range(1, 11)}
    assert wanted <= covered


def test_a_scenario_survives_its_own_writing() -> None:
    """What a run stores as resolved scenario loads again as the same scenario."""
    for path in catalogue():
        scenario = load_scenario(path)
        written = json.dumps(scenario.model_dump(by_alias=True, exclude_none=True))
        assert parse_scenario(written) == scenario


def test_the_committed_schema_is_the_models() -> None:
    """Editors read scenarios/schema.json; it is what the model exports."""
    committed = Path(__file__).parents[4] / "scenarios" / "schema.json"
    assert json.loads(committed.read_text()) == scenario_schema()


def test_what_one_client_does_differently_is_its_own() -> None:
    """A client's own values go before the common ones, and the longest wait of any bounds the run's calls."""
    scenario = parse_scenario(
        "version: 1\nname: x\nworkload: {start: 1s, wait: 5s, clients: {n2: {start: 3s, wait: 9s}}}\n"
    )
    drawn = draw_scenario(scenario, 1)
    starts = [profile_of(scenario, drawn, client).start.least for client in ("n1", "n2")]
    assert starts == [10**9, 3 * 10**9]
    row = drawn.run_row(scenario, load_provider("hardened"), clients=3, lock="lock.json")
    assert row["wait_timeout_ns"] == 9 * 10**9


def test_the_rate_error_covers_faults_too() -> None:
    """ρ is the largest rate that any clock of the scenario may have, of either sign."""
    scenario = parse_scenario(
        "version: 1\nname: x\nenvelope: {drift: 10ppm}\nclock: {drift: {n1: 20ppm}}\n"
        "faults: [{kind: drift, client: n2, at: 1s, rate: -300ppm}]\n"
    )
    assert rate_error_ppm(scenario) == 300


def test_healing_belongs_to_the_plan() -> None:
    """Where it is drawn, no two seeds share a plan; a swarm's faults begin before it, within the envelope's offset."""
    drawn = parse_scenario("version: 1\nname: x\nheal_at: 1s..30s\n")
    assert not is_same_for_all_seeds(drawn)
    swarm = parse_scenario(
        "version: 1\nname: x\nduration: 60s\nheal_at: 5s\nlock: {drift_bound: 9s}\n"
        "envelope: {offset: 100ms}\nswarm: {kinds: [step, pause]}\n"
    )
    faults = [
        fault
        for seed in range(60)
        for fault in draw_plan(swarm, draw_scenario(swarm, seed), seed).faults
        if fault.at_ns
    ]
    assert len(faults) > 50
    assert max(fault.at_ns for fault in faults) < 5 * 10**9
    assert max(abs(fault.by_ns) for fault in faults if fault.kind == "step") <= 50 * 10**6


@pytest.mark.parametrize(
    ("text", "disturbs"),
    [("network: {duplication: 1%}", True), ("network: {loss: 1%}", True), ("network: {latency: 9ms}", False)],
)
def test_whatever_only_the_simulator_can_do_disturbs(text: str, disturbs: bool) -> None:
    """A real store is not asked to lose or double messages."""
    assert parse_scenario(f"version: 1\nname: x\n{text}\n").disturbs is disturbs


def test_healing_may_not_come_after_the_end() -> None:
    """Drawn or not: no seed may heal after a run that another draw makes shorter."""
    with pytest.raises(ConfigError, match="after the end of the run"):
        parse_scenario("version: 1\nname: x\nduration: 10s..60s\nheal_at: 5s..30s\n")
    assert parse_scenario("version: 1\nname: x\nduration: 10s..60s\nheal_at: 5s..10s\n").heal_at is not None


@pytest.mark.parametrize(
    ("clients", "seconds", "asked"),
    [(2, 10, 4), (64, 5, 25), (64, 60, 100), (512, 1, 5)],
)
def test_a_floor_grows_with_crowd_and_time(clients: int, seconds: int, asked: int) -> None:
    """Floors of evidence: the smaller of what is given per client and per second, within the bounds."""
    scenario = parse_scenario(f"{HEAD}must_happen: [denied, {{grant: {{per_client: 2, per_second: 5, most: 100}}}}]\n")
    demanded = scenario.demanded_of(load_provider("hardened"), clients=clients, duration_ns=seconds * 10**9)
    assert demanded == ["denied", f"grant >= {asked}"]


@pytest.mark.parametrize(
    ("lock", "asked"),
    [("hardened", ["grant", "renewal", "takeover_after_expiry"]), ("helix", ["grant", "takeover_after_expiry"])],
)
def test_a_lock_that_a_session_holds_is_not_asked_to_renew(lock: str, asked: list[str]) -> None:
    """A session's heartbeat is the client's and no write of the lock; a grant after its end can come about."""
    scenario = parse_scenario(f"{HEAD}must_happen: [grant, renewal, takeover_after_expiry]\n")
    assert scenario.demanded_of(load_provider(lock), clients=2, duration_ns=10**10) == asked


@pytest.mark.parametrize("clients", [8, 64, 256, 512])
@pytest.mark.parametrize("seconds", [1, 5, 10, 20])
def test_contention_asks_every_crowd_for_evidence(clients: int, seconds: int) -> None:
    """Three to six grants are no contention, whatever the crowd and the time; nor is more asked than can be."""
    scenario = load_scenario("contention")
    demanded = scenario.demanded_of(load_provider("hardened"), clients=clients, duration_ns=seconds * 10**9)
    least = dict(map(parse_demand, demanded))
    assert 20 <= least["grant"] <= 100
    assert 2 <= least["clients_served"] <= min(clients / 2, 32)
    assert 8 <= least["handoff"] <= least["grant"] / 2 + 1


def test_demands_read_as_they_were_written() -> None:
    """The runs table carries them as text, which older files, without counts, read as once each."""
    assert parse_demand(demand_text("grant", 100)) == ("grant", 100)
    assert parse_demand(demand_text("fault:pause", 1)) == ("fault:pause", 1)
    assert demand_text("contention", 1) == "contention"


def test_every_scenario_of_the_catalogue_crosses_to_worker_processes() -> None:
    """Campaigns hand scenarios to other processes by pickling; classes that are made in code must be found there."""
    for path in catalogue():
        scenario = load_scenario(path)
        assert pickle.loads(pickle.dumps(scenario)) == scenario


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("{asks: token, kind: list}", "only 'kind: register' compares tokens"),
        ("{asks: both, kind: log}", "only 'kind: register' compares tokens"),
        ("{asks: nothing, kind: delta_log}", "writers of a delta_log ask as their protocol says"),
        ("{asks: nothing, life: unlocked}", "clients that live `unlocked` ask as their protocol says"),
    ],
)
def test_what_cannot_be_asked_is_refused(workload: str, words: str) -> None:
    """`workload.asks`: a resource that compares no tokens refuses none, and some workloads ask in their own way."""
    with pytest.raises(ConfigError, match=words):
        parse_scenario(f"version: 1\nname: asked\nworkload: {workload}\n")


@pytest.mark.parametrize(("asks", "least"), [("guard", {}), ("token", {"token": 1}), ("both", {"token": 1})])
def test_whoever_asks_for_a_token_demands_one(asks: str, least: dict[str, int]) -> None:
    """A lock that gives no tokens proves nothing to clients that trust them."""
    scenario = parse_scenario(f"version: 1\nname: asked\nworkload: {{asks: {asks}}}\n")
    assert scenario.demanded(clients=3, duration_ns=10**9) == least


def test_effects_are_no_locks_to_keep_where_nobody_asks() -> None:
    """S4 is not demanded of `asks: nothing`: no lock can stop a write of somebody who never asks."""
    assert parse_scenario("version: 1\nname: asked\nworkload: {asks: nothing}\n").not_demanded() == {"S4"}
