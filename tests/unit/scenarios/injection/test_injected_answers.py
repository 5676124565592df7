"""An injected status means the same to a simulated client and to the real client of each cloud: one table."""

from __future__ import annotations

import json
import re

import pytest

from lockref.clouds.azure import facts as azure
from lockref.clouds.dynamodb import facts as dynamodb
from lockref.clouds.gcs import facts as gcs
from lockref.clouds.gcs.answers import error_word
from lockref.clouds.s3 import facts as s3
from lockref.clouds.statuses import classify, error_code, outcome_of
from lockref.ports import Reply, Request
from lockref.words import Op, Outcome
from scenarios.injection.answers import refusal, reply_of
from scenarios.injection.http_messages import Answer
from sim.faults.answers import AMBIGUOUS_STATUSES, UNAPPLIED_STATUSES, Error
from sim.services.resource import ResourceService
from sim.services.service import refused

TABLES = {
    "s3": (s3.OUTCOMES, lambda _status, body: error_code(body)),
    "az": (azure.OUTCOMES, lambda _status, body: error_code(body)),
    "gs": (gcs.OUTCOMES, lambda status, body: error_word(status, body, on_object=False)),
    "dynamodb": (dynamodb.OUTCOMES, lambda _status, body: json.loads(body)["__type"].partition("#")[2]),
}
STATUSES = (403, 408, 409, 412, 429, 500, 501, 502, 503, 504, 599)
WRITE = Request("n1", "store", "put", "k", op=Op.WRITE)


def heard(scheme: str, status: int) -> Outcome:
    """What the client of this cloud makes of the refusal that we send in its words."""
    head, _, body = refusal(scheme, status, "injected").partition(b"\r\n\r\n")
    found = re.match(rb"HTTP/1\.1 (\d+) ", head)
    assert found is not None
    rows, code = TABLES[scheme]
    told = int(found[1])
    return classify(rows, told, code(told, body)).outcome


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("scheme", TABLES)
def test_each_clouds_client_hears_what_a_simulated_one_hears(scheme, status):
    """A 503 was "it did not land" for S3 and Azure, and "nobody knows" in a simulation."""
    assert heard(scheme, status) is outcome_of(status)


def test_only_the_clouds_own_word_makes_a_503_a_throttling():
    """S3's SlowDown and Azure's ServerBusy say that nothing was written; a bare 503 says nothing."""
    for rows, word in ((s3.OUTCOMES, "SlowDown"), (azure.OUTCOMES, "ServerBusy")):
        assert classify(rows, 503, word).outcome is Outcome.THROTTLED
    for rows, _ in TABLES.values():
        assert {classify(rows, 503, code).outcome for code in ("", "ServiceUnavailable")} == {Outcome.AMBIGUOUS}


def test_what_may_be_drawn_after_an_applied_write_leaves_it_open_everywhere():
    """No client may conclude that a write that landed did not."""
    drawn = [status for status in AMBIGUOUS_STATUSES if isinstance(status, int)]
    assert drawn == [500, 503]
    assert {heard(scheme, status) for scheme in TABLES for status in drawn} == {Outcome.AMBIGUOUS}
    certain = [status for status in UNAPPLIED_STATUSES if status not in AMBIGUOUS_STATUSES]
    assert {outcome_of(int(status)) for status in certain} == {Outcome.CONFLICT, Outcome.THROTTLED}


@pytest.mark.parametrize("status", [None, *STATUSES])
def test_a_protected_resource_is_refused_like_any_service(status):
    """A 502 or 504 of the resource was "it did not land"; a 409 another outcome than on a real server."""
    told = ResourceService(lambda _request: Reply(Outcome.APPLIED, version="0")).refuse(WRITE, (status, "injected"))
    assert (told.outcome, told) == (outcome_of(status), refused(WRITE, (status, "injected")))


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("scheme", TABLES)
def test_a_servers_own_answer_is_read_by_the_same_table(scheme, status):
    """What a real server says by itself; a 500 of its own was a definite refusal to faults."""
    raw = refusal(scheme, status, "injected")
    told = int(raw.split(b" ", 2)[1])
    found = reply_of(scheme, b"PUT", Answer(raw, told, keeps_connection=True))
    assert (found.outcome, found.status) == (outcome_of(status), told)


@pytest.mark.parametrize(
    ("scheme", "status", "body", "expected"),
    [
        ("az", 409, b"<Error><Code>BlobAlreadyExists</Code></Error>", Outcome.PRECONDITION_FAILED),
        ("s3", 404, b"<Error><Code>NoSuchBucket</Code></Error>", Outcome.REJECTED),
        ("s3", 503, b"<Error><Code>SlowDown</Code></Error>", Outcome.THROTTLED),
        ("dynamodb", 400, b'{"__type": "x#ThrottlingException"}', Outcome.THROTTLED),
        ("gs", 412, b"<html>", Outcome.PRECONDITION_FAILED),
    ],
)
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_servers_answer_is_read_by_the_table_of_its_cloud(scheme, status, body, expected, is_chunked):
    """A table of its own read the status alone: an object that was there already was a conflict on Azure."""
    ending = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % len(body)
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body
    raw = b"HTTP/1.1 %d Said\r\n%b\r\n\r\n" % (status, ending) + sent
    assert reply_of(scheme, b"PUT", Answer(raw, status, keeps_connection=True)).outcome is expected


def test_an_answer_that_cannot_be_read_leaves_it_open():
    """Its head is no HTTP, or its body ends early: what was applied is unknown."""
    for raw in (b"", b"HTTP/1.1 412 Said\r\nContent-Length: 9\r\n\r\n<Err"):
        assert reply_of("s3", b"PUT", Answer(raw, 412, keeps_connection=False)).outcome is Outcome.AMBIGUOUS


def test_the_field_says_what_a_status_leaves_open():
    """`make docs` prints it."""
    assert "503" in (Error.__doc__ or "")
