"""The shipped locks of Delta against the originals: the same requests, the same answers, in every recorded situation.

The traces were recorded with the originals themselves (`python -m tests.evidence.delta.record`), so no original is
needed here. The long test records them anew.
"""

from __future__ import annotations

from functools import partial

import pytest

from lockref.dynamodb.shipped.crate import Crate, CrateWithFix, CrateWithTimeToLive
from lockref.dynamodb.shipped.java_client import JavaClient
from lockref.dynamodb.shipped.python_client import PythonClient
from lockref.errors import BackendUnavailable
from tests.conformance.delta_traces import in_our_words, play, with_heartbeats_as_puts, with_leases_as_text
from tests.evidence.delta.lake import started_lake
from tests.evidence.delta.recorder import RECORDED, record_all, traces_file
from tests.evidence.delta.situations import CRATE, JAVA, PORT
from tests.evidence.delta.traces import attributes_set, clauses_of, from_lines

BUILDS = {
    "dynamodb_lock-0.4.3": Crate,
    "dynamodb_lock-0.6.1": CrateWithTimeToLive,
    "dynamodb_lock-0.6.1-pr6": CrateWithFix,
}


def recorded(original):
    """The file's traces by situation."""
    return {trace["situation"]: trace for trace in from_lines(traces_file(original).read_text(encoding="utf-8"))}


@pytest.mark.parametrize("situation", CRATE, ids=lambda situation: situation.name)
@pytest.mark.parametrize("original", BUILDS)
def test_the_model_asks_and_answers_as_the_crate_did(original, situation):
    """Operations, conditions, attributes with their types, the time between requests, and what the caller hears."""
    expected = in_our_words(recorded(original)[situation.name])
    assert play(BUILDS[original], situation) == expected


@pytest.mark.parametrize("situation", PORT, ids=lambda situation: situation.name)
def test_the_model_asks_and_answers_as_the_python_port_did(situation):
    """The same between two heartbeats: what it takes, on which condition, and how it gives back."""
    expected = with_leases_as_text(recorded("python_dynamodb_lock-0.9.1")[situation.name])
    assert play(PythonClient, situation) == expected


@pytest.mark.parametrize("situation", JAVA, ids=lambda situation: situation.name)
def test_the_model_asks_and_answers_as_the_java_client_did(situation):
    """The same with heartbeats by hand; 503 to one of them is a renewal for the caller alone (B14)."""
    expected = with_heartbeats_as_puts(in_our_words(recorded("dynamodb-lock-client-1.2.0")[situation.name]))
    assert play(JavaClient, situation) == expected


@pytest.mark.parametrize("original", RECORDED)
def test_a_file_has_every_situation_once(original):
    situations, _ = RECORDED[original]
    lines = traces_file(original).read_text(encoding="utf-8").splitlines()
    assert [trace["situation"] for trace in from_lines("\n".join(lines))] == [each.name for each in situations]


def test_the_builds_differ_in_the_recorded_traces():
    """The situations tell the builds apart: a model of another build would be refused."""
    for original, build in BUILDS.items():
        for other in BUILDS.values():
            if other is not build:
                traces = recorded(original)
                differing = [each.name for each in CRATE if play(other, each) != in_our_words(traces[each.name])]
                assert "dead-number" in differing or "free" in differing
                assert len(differing) >= 3


def test_a_condition_of_an_unknown_form_is_not_passed_over():
    with pytest.raises(ValueError, match="begins_with"):
        clauses_of("attribute_exists(#k) AND begins_with(#k, :v)", {"#k": "key"}, {":v": {"S": "a"}})


def test_an_update_of_an_unknown_form_is_not_passed_over():
    with pytest.raises(ValueError, match="REMOVE"):
        attributes_set("SET #a = :a REMOVE #b", {"#a": "a", "#b": "b"}, {":a": {"S": "1"}})


@pytest.mark.long
@pytest.mark.realbackend
@pytest.mark.parametrize("original", RECORDED)
def test_the_original_does_so_still(original):
    """Recorded anew."""
    situations, record = RECORDED[original]
    try:
        with started_lake() as lake:
            found = record_all(situations, partial(record, lake))
    except BackendUnavailable as error:
        pytest.skip(str(error).splitlines()[0])
    expected = recorded(original)
    for trace in found:
        assert trace == expected[trace["situation"]]
