"""The originals on a real server: a few appends in `make test`, every finding in the long lane."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from lockref.clouds.uri import open_store, parse_store_uri
from lockref.errors import BackendUnavailable, ConfigError
from lockref.runtime import NS_PER_S
from scenarios.backends.environments import lock_file
from scenarios.injection.faultproxy import FaultProxy
from sim.faults.answers import Error
from sim.faults.network import Delay
from tests.evidence.delta.findings import Experiment, appends, committed, not_acquirable
from tests.evidence.delta.lake import Lake
from tests.evidence.delta.log_store import LOG_STORE_RELEASE, they_finish, turns
from tests.evidence.delta.originals import ORIGINALS, find_original
from tests.evidence.delta.study import ALL

pytestmark = [pytest.mark.realbackend, pytest.mark.xdist_group("ministack")]


@pytest.fixture(scope="session")
def lake(ministack, tmp_path_factory):
    """The server of the other tests, with Delta tables and a lock table."""
    with contextlib.closing(Lake(parse_store_uri(ministack.uri).endpoint, tmp_path_factory.mktemp("peers"))) as lake:
        yield lake


def have(*names: str) -> None:
    for name in names:
        try:
            find_original(name).python()
        except BackendUnavailable as error:
            pytest.skip(str(error).splitlines()[0])


@pytest.fixture
def run(lake):
    return Experiment(lake=lake, lease_s=3, writers=2, appends=2, say=print)


def test_two_processes_of_the_original_lose_nothing_under_its_lock(run):
    """The spine: dynamodb_lock as released, on our server; each append is in exactly one version."""
    have("0.13.0")
    assert appends(run, "0.13.0")


def test_the_original_honours_a_row_that_nobody_may_take(run):
    have("0.13.0")
    assert not_acquirable(run, "0.13.0")


def test_a_helping_log_store_as_released_and_ours_take_turns_on_one_table(run):
    """Their rows have the same attributes, and each goes on where the other has stopped."""
    have(LOG_STORE_RELEASE)
    assert turns(run)


def test_a_helping_log_store_as_released_finishes_what_ours_left(run):
    have(LOG_STORE_RELEASE)
    assert they_finish(run)


def test_a_dead_peer_is_told_of_with_its_name(run):
    """Whoever waits for an answer of a process that has ended hears so at once."""
    have("0.13.0")
    with run.locking("0.13.0", run.new_table("t"), run.lake.new_key(), "doomed") as peer:
        peer.kill()
        with pytest.raises(BackendUnavailable, match=r"doomed \(0\.13\.0\) has ended"):
            committed(peer, "never")


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_finding(run, name):
    """What docs/delta-originals.md tells is seen again."""
    have(*ORIGINALS)
    assert ALL[name](run)


def test_the_page_tells_of_every_experiment_and_of_no_other():
    page = (Path(__file__).parents[2] / "docs" / "delta-originals.md").read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    told = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    assert told - {"deltalake", "python-dynamodb-lock"} == {*ALL}


def test_an_unknown_original_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"'0\.13\.1' is not known; expected one of 0\.13\.0"):
        find_original("0.13.1")


@pytest.mark.parametrize("name", ORIGINALS)
def test_every_package_of_an_original_is_pinned_with_digests(name):
    original = ORIGINALS[name]
    pinned = lock_file(original, original.packages).read_text(encoding="utf-8")
    assert f"\n{original.name}=={original.packages.version} \\" in f"\n{pinned}"
    assert all("--hash=sha256:" in line for line in pinned.splitlines() if line.startswith(" "))


@pytest.fixture
def through(ministack):
    """A store behind a proxy, and the proxy."""
    host, _, port = parse_store_uri(ministack.uri).endpoint.removeprefix("http://").partition(":")
    with FaultProxy((host, int(port))) as proxy:
        bucket = ministack.uri.partition("?")[0]
        uri = f"{bucket}/originals?endpoint={proxy.endpoint}"
        with contextlib.closing(open_store(uri, request_timeout_ns=20 * NS_PER_S)) as store:
            yield store, proxy


def test_a_fault_for_one_kind_of_request_lets_the_others_pass(through):
    store, proxy = through
    reset = Error(id="create", status="reset", cut="c1")
    proxy.when(b"If-None-Match", reset)
    assert store.read("marked").body is None
    assert proxy.struck == []
    assert store.put_if_absent("marked", b"1").outcome.name == "AMBIGUOUS"
    assert proxy.struck == [reset]
    assert store.put_if_absent("marked", b"1").outcome.name == "APPLIED"


def test_an_answer_replaced_after_the_write_landed(through):
    store, proxy = through
    proxy.when(b"If-None-Match", Error(id="gateway", status=503, cut="c2"))
    reply = store.put_if_absent("replaced", b"1")
    assert (reply.outcome.name, reply.status) == ("AMBIGUOUS", 503)
    assert store.read("replaced").body == b"1"


def test_requests_of_one_kind_are_counted_and_faults_forgotten(through):
    store, proxy = through
    proxy.when(b"If-None-Match", Error(id="create", status="reset", cut="c1"))
    proxy.forget()
    proxy.count(b"If-None-Match")
    store.read("counted")
    assert store.put_if_absent("counted", b"1").outcome.name == "APPLIED"
    assert proxy.counted == {b"if-none-match": 1}


def test_what_a_delay_holds_back_can_be_let_go(through):
    """An hour's delay ends when the test says so; the store's own time-out is 20 s."""
    store, proxy = through
    proxy.when(b"If-None-Match", Delay(id="late", by_ns=3600 * NS_PER_S))
    proxy.let_go()
    assert store.put_if_absent("late", b"1").outcome.name == "APPLIED"
    assert [fault.id for fault in proxy.struck] == ["late"]
