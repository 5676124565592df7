"""Servers that lie in one way each: the probe names the clause, and its exit code says what that means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lockref.runtime import NS_PER_S
from scenarios.probe import gate
from scenarios.probe.fingerprint import fingerprint_of
from scenarios.probe.opening import addresses_of
from scenarios.probe.run import ProbeResult, probe
from tests.conditional_server import Bucket, serving
from tests.lying_servers import (
    Deduplicates,
    IgnoresIfMatch,
    IgnoresIfNoneMatch,
    LeakyNowAndThen,
    Multipart,
    NoConditions,
    NoPlainDeletes,
    NoPlainWrites,
    Spelled,
    SuccessWithAnError,
    Versioned,
)


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "probe-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "probe-secret")


def probed(
    uri: str, *only: str, rounds: int = 4, endpoints: tuple[str, ...] = ()
) -> tuple[dict[str, Any], ProbeResult]:
    """The fingerprint, of those clauses alone; rounds end it, not the time."""
    done = probe(addresses_of(uri, endpoints), for_ns=200 * NS_PER_S, rounds=rounds, only=only)
    return fingerprint_of(done).document(), done


def endpoint_of(uri: str) -> str:
    return uri.partition("endpoint=")[2]


@pytest.mark.parametrize(
    ("server", "broken", "kept"),
    [
        (IgnoresIfMatch, {"C3", "C4", "C5", "C6", "C19", "C20", "C23"}, {"C1", "C2"}),
        (IgnoresIfNoneMatch, {"C1", "C2", "C18"}, {"C3", "C4"}),
        (SuccessWithAnError, {"C1", "C4", "C5", "C6", "C18", "C23"}, set()),
        (Deduplicates, {"C18"}, {"C1", "C4", "C5"}),
    ],
)
def test_a_lie_breaks_its_clauses_and_no_others(server: type[Bucket], broken: set[str], kept: set[str]) -> None:
    """M16, A2: exit 1; what the server keeps is not spoilt by what it does not."""
    with serving(server()) as uri:
        told, done = probed(uri, *broken, *kept)
    seen = {clause: told["clauses"][clause]["verdict"] for clause in (*broken, *kept)}
    assert seen == dict.fromkeys(broken, "unsafe") | dict.fromkeys(kept, "conforming"), told["clauses"]
    assert gate.exit_code(fingerprint_of(done)) == 1


@pytest.mark.parametrize(
    ("ignores", "verdict"), [("", "conforming"), ("If-None-Match", "unsafe"), ("If-Match", "unsafe")]
)
def test_a_completion_that_ignores_a_header_is_told_of_and_spoils_no_lock(ignores: str, verdict: str) -> None:
    """C13: an upload's last request answers for itself; `--require C13` is exit 1, a lock by plain writes is not."""
    with serving(Multipart(ignores=ignores)) as uri:
        told, done = probed(uri, "C1", "C13")
    assert told["clauses"]["C13"]["verdict"] == verdict
    assert told["clauses"]["C1"]["verdict"] == "conforming"
    assert told["verdict"] == "not_answered", "no clause of a lock is refuted"
    assert gate.exit_code(fingerprint_of(done), ["C13"]) == (1 if ignores else 0)


@pytest.mark.parametrize(("put_as", "get_as"), [("{}", "{}"), ('W/"{}"', 'W/"{}"'), ('"{}"', 'W/"{}"'), ("{}", '"{}"')])
def test_how_a_version_is_spelled_is_no_fault(put_as: str, get_as: str) -> None:
    """Weak, bare, or one way in writes and another in reads: the conditions are kept, and two spellings are told."""
    asked = ("C1", "C4", "C5", "C6", "C8", "C11", "C21", "C23")
    with serving(Spelled(put_as=put_as, get_as=get_as)) as uri:
        told, _ = probed(uri, *asked)
    seen = {clause: told["clauses"][clause]["verdict"] for clause in asked}
    assert not {"unsafe", "not_answered"} & set(seen.values()), told["clauses"]
    two_ways = [text for text in told["clauses"]["C21"]["deviations"] if "two ways" in text]
    assert bool(two_ways) is (put_as != get_as)


def test_old_reads_by_one_of_two_endpoints_are_found() -> None:
    """C21, A8: the second endpoint of a good store shows what was there before; it is named."""
    good = Bucket()
    old = Bucket(flaw="old reads", only="/read-", objects=good.objects, before=good.before, mutex=good.mutex)
    with serving(good) as first, serving(old) as second:
        told, done = probed(first, "C1", "C21", endpoints=(endpoint_of(second),))
    assert told["clauses"]["C21"]["verdict"] == "unsafe"
    assert told["clauses"]["C21"]["unsafe"][0].startswith("endpoint 2 shows what was there before")
    assert gate.exit_code(fingerprint_of(done)) == 1


def test_several_endpoints_of_one_good_store_conform() -> None:
    """C16, C21: reads and races go through each endpoint, from several processes too."""
    good = Bucket()
    same = Bucket(objects=good.objects, before=good.before, mutex=good.mutex)
    with serving(good) as first, serving(same) as second:
        told, _ = probed(first, "C16", "C21", endpoints=(endpoint_of(second),))
    assert {told["clauses"][clause]["verdict"] for clause in ("C16", "C21")} == {"conforming"}
    assert [race["name"] for race in told["clauses"]["C16"]["rate"]["races"]] == [
        "creates over 2 endpoints", "replacements over 2 endpoints", "creates from 2 processes",
        "replacements from 2 processes",
    ]  # fmt: skip
    assert {path.split("/")[4].rpartition("-")[0] for _, path, _ in same.requests} >= {"read", "race", "race-spread"}


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 10))])
def test_a_race_that_leaks_now_and_then_is_never_called_conforming(seed: int) -> None:
    """M17 at 5 %: ten servers, ten times unsafe; a race of theirs that was clean by luck is not told apart."""
    with serving(LeakyNowAndThen(seed=seed)) as uri:
        told, done = probed(uri, "C1", "C2", "C3", "C4", rounds=60)
    seen = [told["clauses"][clause]["verdict"] for clause in ("C2", "C3")]
    assert "unsafe" in seen
    assert "conforming" not in seen, told["clauses"]
    assert gate.exit_code(fingerprint_of(done)) == 1


def test_a_clock_that_is_off_is_told_in_seconds() -> None:
    """C24: a deviation and no fault."""
    with serving(Bucket(date_offset_s=3600)) as uri:
        told, _ = probed(uri, "C24")
    assert told["clauses"]["C24"]["verdict"] == "usable"
    assert "its clock is +3599 s off this machine's" in told["clauses"]["C24"]["deviations"] or (
        "its clock is +3600 s off this machine's" in told["clauses"]["C24"]["deviations"]
    )


@pytest.mark.parametrize(
    ("lies", "verdicts", "sentence"),
    [
        ("", ("conforming", "conforming"), ""),
        ("no create over a marker", ("usable", "usable"), "a create over a delete marker: answered 412"),
        ("markers are no absence", ("unsafe", "unsafe"), "accepted a replacement over a delete marker"),
    ],
)
def test_delete_markers_are_asked_over(lies: str, verdicts: tuple[str, str], sentence: str) -> None:
    """C6, C12: what a versioned bucket makes of deleted objects."""
    with serving(Versioned(lies=lies)) as uri:
        told, _ = probed(uri, "C6", "C12")
    assert (told["clauses"]["C6"]["verdict"], told["clauses"]["C12"]["verdict"]) == verdicts, told["clauses"]
    said = told["clauses"]["C12"]["unsafe"] + told["clauses"]["C12"]["deviations"]
    assert not sentence or any(text.startswith(sentence) for text in said)


@pytest.mark.parametrize("server", [NoPlainWrites, NoPlainDeletes])
def test_a_policy_that_demands_conditions_hinders_no_lock(server: Callable[[], Bucket]) -> None:
    """A bucket whose policy forbids writes or deletes without a condition: every clause of a lock is answered."""
    bucket = server()
    asked = ("C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C16", "C18", "C19", "C20", "C21", "C23")
    with serving(bucket) as uri:
        told, done = probed(uri, *asked)
    assert told["designs"]["cas"]["verdict"] == "can carry", told["designs"]
    assert told["designs"]["fencing"]["verdict"] == "can carry"
    assert gate.exit_code(fingerprint_of(done), ["cas", "create"]) == 0
    assert bucket.objects == {}
    assert told["residue"]["left"] == []


class Flaky(Bucket):
    """Every fifth write brings no answer."""

    writes = 0

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        self.writes += 1
        if self.writes % 5 == 0:
            raise ConnectionError("no answer")
        return super().put(key, body, if_match=if_match, if_none_match=if_none_match)


@pytest.mark.parametrize("clause", ["C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10", "C20", "C21", "C23"])
def test_a_dry_run_counts_second_tries(clause: str) -> None:
    """What was told beforehand is not exceeded where answers are lost and questions are put again."""
    from scenarios.probe.steps import most_requests

    with serving(Flaky()) as uri:
        told, done = probed(uri, clause)
    reached = 4
    assert told["requests"] - done.residue.requests - reached <= most_requests(1, rounds=4)[clause]


def test_a_store_that_refuses_conditions_honestly_is_unsupported() -> None:
    """Neither unsafe nor silent: it takes every write without a condition, and says that it knows none."""
    asked = ("C1", "C2", "C3", "C4", "C5", "C6", "C18", "C20", "C23")
    with serving(NoConditions()) as uri:
        told, done = probed(uri, *asked)
    assert {clause: told["clauses"][clause]["verdict"] for clause in asked} == dict.fromkeys(asked, "unsupported")
    assert told["verdict"] == "unsupported"
    assert gate.exit_code(fingerprint_of(done)) == 3
    assert gate.exit_code(fingerprint_of(done), ("cas",)) == 1
