"""The baseline against what Hudi's own classes once answered; needs no Java.

`python -m tests.conformance.hudi_traces record` makes the data anew.
"""

from __future__ import annotations

import gzip
import json

import pytest

from lockref.storage.lockfile import parse, parse_strictly_as_hudi
from tests.conformance import hudi_heartbeats
from tests.conformance.hudi_traces import (
    FACTS_FILE,
    HEARTBEATS_FILE,
    PARSING_FILE,
    PARSING_TABLE,
    TRACES_FILE,
    first_difference,
    our_facts,
    reading,
    run_baseline,
)

RECORDED = json.loads(gzip.decompress(TRACES_FILE.read_bytes()))
READINGS = json.loads(PARSING_FILE.read_text())
FACTS = json.loads(FACTS_FILE.read_text())


def test_the_baseline_replays_every_recorded_trace_of_the_original():
    """Sections 4 to 6: what Hudi 1.2.0 answered, wrote and believed, step by step."""
    assert len(RECORDED) >= 400
    differences = [
        found
        for entry in RECORDED
        if (found := first_difference(entry["trace"], entry["notes"], run_baseline(entry["trace"])))
    ]
    assert differences == []


def test_the_heartbeat_replays_every_recorded_trace_of_the_original():
    """Section 5, heartbeat manager: starts, stops and ticks, also from inside one another, as Hudi answered them."""
    recorded = json.loads(gzip.decompress(HEARTBEATS_FILE.read_bytes()))
    assert len(recorded) >= 400
    differences = [trace for trace, told in recorded if hudi_heartbeats.run(trace, hudi_heartbeats.Baseline) != told]
    assert differences == []


def test_the_recorded_traces_reach_every_kind_of_answer():
    """A trace set that never throttles, steals or interrupts proves nothing."""
    notes = [note for entry in RECORDED for note in entry["notes"]]
    answers = {tuple(map(str, note["outcome"])) for note in notes}
    events = {event[0] for note in notes for event in note["log"]}
    assert {
        ("raised", "HoodieLockException", "FAILED_TO_ACQUIRE"),
        ("raised", "HoodieLockException", "FAILED_TO_RELEASE"),
        ("raised", "HoodieLockException", "Lock provider alread"),
        ("raised", "HoodieLockException", "Owners do not match."),
        ("raised", "CorruptRecord", "unreadable"),
        ("raised", "CorruptRecord", "Data must not be null."),
        ("answered", "True"),
        ("answered", "False"),
    } <= answers
    assert {"read", "write", "start", "stop", "sleep", "renewed", "switch", "audit", "close"} <= events


@pytest.mark.parametrize(
    ("body", "expected"), READINGS, ids=[bytes.fromhex(row[0]).decode("latin-1") for row in READINGS]
)
def test_strict_reader_answers_as_recorded(body, expected):
    """Section 1, parsing table, row by row."""
    assert reading(parse_strictly_as_hudi, bytes.fromhex(body)) == expected


def test_lenient_reader_accepts_all_that_hudi_accepts():
    """Whatever Hudi reads, `parse` reads alike, unless our own fields or the owner's text are unsound."""
    recorded = {row[0]: row[1] for row in READINGS}
    accepted = [body for body in PARSING_TABLE if recorded[body.hex()][0] == "record"]
    assert len(accepted) > 40
    assert [reading(parse, body) for body in accepted] == [recorded[body.hex()] for body in accepted]


@pytest.mark.parametrize("topic", sorted(FACTS))
def test_paths_settings_and_bytes_are_as_recorded(topic):
    """Sections 1 and 3: bucket and key, refusals in Hudi's words and order, bytes written."""
    assert json.loads(json.dumps(our_facts()[topic])) == FACTS[topic]
