"""A cloud and a dialect that are entered in `CLOUDS` are taken by every reader, and nothing else is told of them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockref.clouds.answers import Question
from lockref.clouds.calls import Place
from lockref.clouds.cloud import Cloud
from lockref.clouds.uri import CLOUDS, create_container, open_store, parse_store_uri
from lockref.errors import CapabilityMissing, ConfigError
from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_S
from lockref.words import Op, Outcome
from reports.checks import judge
from scenarios.definition.load import parse_scenario
from scenarios.probe.fingerprint import fingerprint_of
from scenarios.probe.opening import addresses_of
from scenarios.probe.run import probe
from scenarios.run import simulate_many
from scenarios.wire.reading.conversation import Conversation
from scenarios.wire.reading.dialect import dialect_of
from scenarios.wire.upstream import upstream
from tests.clouds.answer_table import Row
from tests.clouds.made_up.acme.cloud import ACME
from tests.clouds.made_up.rows import acme, strict
from tests.clouds.made_up.servers import StrictBucket, acme_server
from tests.clouds.made_up.strict import STRICT
from tests.clouds.readers import Readers, assert_simulated, canned_server, meaning_of, untried
from tests.clouds.round_trips import (
    BODIES,
    CONDITIONS,
    KEYS,
    QUESTIONS,
    REPLIES,
    Trip,
    refuses_as_simulated,
    takes_any_reply,
)
from tests.conditional_server import serving

MADE_UP: Final = {"acme": ACME, "s3+strict": STRICT}
ROWS: Final = [*acme(), *strict()]
TRIPS: Final = {
    "acme": Trip(
        "acme", Place(origin="http://127.0.0.1:9", container="vault", prefix="p/"), "41", "41",
        beginnings=("/v2/vault/k", "/v2/vault", "/v2/"), headers=("X-Acme-Like: nothing", "X-Acme-Like: 7"),
    ),
    "s3+strict": Trip("s3+strict", Place(origin="http://127.0.0.1:9", container="bucket"), '"5eb63bbb"', "5eb63bbb"),
}  # fmt: skip


@contextlib.contextmanager
def entered() -> Iterator[None]:
    """Both stand in the table, as two lines of `lockref/clouds/uri.py` would have it."""
    with pytest.MonkeyPatch.context() as patch:
        for scheme, cloud in MADE_UP.items():
            patch.setitem(cast("dict[str, Cloud]", CLOUDS), scheme, cloud)
        patch.setenv("ACME_KEY", "secret")
        patch.setenv("AWS_ACCESS_KEY_ID", "reader-id")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "reader-secret")
        yield


@pytest.fixture(scope="module", autouse=True)
def _entered() -> Iterator[None]:
    with entered():
        yield


@pytest.fixture(scope="module")
def readers() -> Iterator[Readers]:
    with canned_server() as server:
        found = Readers(server)
        yield found
        found.close()


@pytest.fixture(params=MADE_UP)
def uri(request: pytest.FixtureRequest) -> Iterator[str]:
    """A store of each on a server of its own."""
    if request.param == "acme":
        with acme_server() as told:
            yield told
    else:
        with serving(StrictBucket()) as told:
            yield told.replace("s3://", "s3+strict://")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_reader_reads_the_same(row: Row, readers: Readers) -> None:
    told = readers.told(row)
    assert set(told) >= {"store", "probe", "wire"}
    assert told == dict.fromkeys(told, meaning_of(row))


def test_every_row_of_the_clouds_table_decides_over_an_answer() -> None:
    assert untried([row for row in ROWS if row.scheme == "acme"]) == {"acme": []}


@pytest.mark.parametrize("scheme", MADE_UP)
def test_a_simulated_server_answers_as_the_table_says(scheme: str) -> None:
    assert_simulated(scheme, ROWS)


@pytest.mark.parametrize("scheme", MADE_UP)
@settings(max_examples=30)
@given(key=KEYS, body=BODIES, condition=CONDITIONS, status=st.sampled_from((200, 400, 462)), reply=REPLIES)
def test_what_is_written_is_read_back(
    scheme: str, key: str, body: bytes, condition: str, status: int, reply: bytes
) -> None:
    trip = TRIPS[scheme]
    trip.keeps_a_write(key, body, condition)
    trip.keeps_a_read_and_a_delete(key, condition)
    takes_any_reply(scheme, trip.place, status, reply)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.kind.name)
@pytest.mark.parametrize("scheme", MADE_UP)
def test_every_answer_survives_writing_and_reading(scheme: str, question: Question) -> None:
    TRIPS[scheme].keeps_each_answer(question)


@pytest.mark.parametrize("scheme", MADE_UP)
def test_foreign_requests_and_refusals(scheme: str) -> None:
    TRIPS[scheme].takes_any_request(1000)
    refuses_as_simulated(scheme, "injected <by> {a} fault")


@pytest.mark.parametrize(
    ("condition", "why"), [("X-Acme-Unlike: 7", "any other version"), ("X-Acme-Like: seven", "no version")]
)
def test_a_condition_without_a_word_is_unreadable(condition: str, why: str) -> None:
    talk = Conversation()
    talk.from_client(f"PUT /v2/vault/k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n{condition}\r\n\r\n".encode(), 1)
    assert talk.current is not None, talk.unreadable
    found = dialect_of("acme", "vault").request(talk.current)
    assert (found.op, found.unfollowed, why in found.unreadable) == (Op.NONE, ("vault/k",), True)


def test_a_store_is_used(uri: str) -> None:
    """By its client: create, replace, remove, each with a condition that holds and one that does not."""
    if uri.startswith("acme"):
        create_container(parse_store_uri(uri), request_timeout_ns=5 * NS_PER_S)
    with contextlib.closing(open_store(uri, request_timeout_ns=5 * NS_PER_S)) as store:
        made = store.put_if_absent("k", b"1")
        assert (made.outcome, bool(made.version)) == (Outcome.APPLIED, True)
        assert made.version is not None
        assert store.put_if_absent("k", b"2").outcome is Outcome.PRECONDITION_FAILED
        assert store.put_if_version("k", b"2", made.version).outcome is Outcome.APPLIED
        assert store.put_if_version("k", b"3", made.version).outcome is Outcome.PRECONDITION_FAILED
        assert store.read("k").body == b"2"
        refused = store.delete("k", made.version).outcome
        can_delete = store.capabilities.conditional_delete
        assert refused is (Outcome.PRECONDITION_FAILED if can_delete else Outcome.REJECTED)
        assert store.delete("k").outcome is Outcome.APPLIED
        assert store.read("k").is_absent


def test_a_store_is_probed(uri: str) -> None:
    """The probe expects the statuses of this cloud's own server, so that a right one conforms."""
    only = ("C1", "C2", "C4", "C5", "C7", "C8", "C10", "C13", "C18", "C25")
    asked = probe(addresses_of(uri), for_ns=60 * NS_PER_S, rounds=4, only=only)
    found: dict[str, Any] = fingerprint_of(asked).document()
    said = {clause: told["verdict"] for clause, told in found["clauses"].items() if clause in only}
    assert {said[clause] for clause in ("C1", "C2", "C4", "C5", "C7", "C18")} == {"conforming"}, found["clauses"]
    assert said["C8"] == ("conforming" if uri.startswith("acme") else "unsupported")
    assert found["residue"]["left"] == []


SCENARIO: Final = """version: 1
name: made-up
about: A lock on a server that is made up, whose refusals a fault may send.
clients: 3
duration: 45s
store: {{dialect: {dialect}}}
workload: {{cycles: 3, think: 0s..2s, hold: [200ms, 1s, 4s], writes: 1..3, wait: 15s}}
faults:
  - {{kind: error, status: 409, service: store, probability: 10%, at: 0s, for: 40s}}
  - {{kind: error, status: 429, service: store, probability: 10%, at: 0s, for: 40s}}
  - {{kind: error, status: 503, service: store, probability: 10%, at: 0s, for: 40s}}
expect: {{hardened: held}}
"""


@pytest.mark.parametrize("scheme", MADE_UP)
def test_a_scenario_simulates_it(scheme: str) -> None:
    """Faults send their refusals, and a correct lock holds on it."""
    scenario = parse_scenario(SCENARIO.format(dialect=MADE_UP[scheme].name))
    batch = simulate_many(scenario, load_provider("hardened"), range(1, 4))
    told = " ".join(row["detail"] or "" for row in batch.events.to_pylist())
    statuses = {int(status) for status in re.findall(r"status (\d+)", told)}
    assert statuses >= {409, 429, 503}
    assert {row["backend"] for row in batch.runs.to_pylist()} == {MADE_UP[scheme].name}
    found = judge(batch.events, batch.runs).verdicts.to_pylist()
    assert {row["verdict"] for row in found if row["clause"] in ("S1", "S2", "S3")} == {"held"}


def test_a_name_that_no_store_has_is_refused_by_what_there_is() -> None:
    expected = r"expected one of memory, s3, gcs, azure, acme, strict\. Did you mean 'acme'"
    with pytest.raises(ConfigError, match=expected):
        parse_scenario(SCENARIO.format(dialect="acmee"))
    with pytest.raises(ConfigError, match=r"acme://VAULT.*s3\+strict://BUCKET"):
        parse_store_uri("nobody://bucket")
    with pytest.raises(CapabilityMissing, match=r"acme: and s3\+strict:"):
        upstream(parse_store_uri("memory:"))
