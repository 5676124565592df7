"""The full probe on real servers: the good ones conform where they should, the known bad ones are found out."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.config import Config

from lockref.clouds.uri import parse_store_uri
from lockref.runtime import NS_PER_S
from scenarios.probe.fingerprint import fingerprint_of
from scenarios.probe.opening import addresses_of
from scenarios.probe.run import probe
from tests.backends.conftest import on

LOCKS = ("C1", "C2", "C3", "C4", "C5", "C6", "C7", "C16", "C18", "C19", "C20", "C21", "C23")
"""What a lock by compare-and-swap stands on."""


def probed(uri: str, *only: str, rounds: int = 4) -> dict[str, Any]:
    """The fingerprint. Rounds end the probe, not its time."""
    return fingerprint_of(probe(addresses_of(uri), for_ns=200 * NS_PER_S, rounds=rounds, only=only)).document()


def verdicts(told: dict[str, Any], *clauses: str) -> set[str]:
    return {told["clauses"][clause]["verdict"] for clause in clauses}


@pytest.mark.parametrize("address", [on("ministack")], indirect=True)
def test_a_good_server_carries_every_design(address: str) -> None:
    """ministack keeps every condition of a lock; its copies overlook theirs, and that is told and spoils no lock."""
    told = probed(address)
    assert verdicts(told, *LOCKS, "C8", "C9", "C13") == {"conforming"}
    assert told["clauses"]["C14"]["verdict"] == "unsafe"
    assert {design["verdict"] for design in told["designs"].values()} == {"can carry"}
    assert told["verdict"] == "usable"
    assert told["residue"]["left"] == []


@pytest.mark.parametrize("address", [on("ministack")], indirect=True)
def test_a_versioned_bucket_is_asked_over_its_delete_markers(address: str) -> None:
    """C12; and no version of any object is left behind."""
    parsed = parse_store_uri(address)
    client = boto3.client(
        "s3", endpoint_url=parsed.endpoint, region_name="us-east-1", aws_access_key_id="test",
        aws_secret_access_key="test", config=Config(s3={"addressing_style": "path"}),
    )  # fmt: skip
    client.create_bucket(Bucket="versioned")
    client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    told = probed(f"s3://versioned?endpoint={parsed.endpoint}", "C1", "C12")
    assert told["clauses"]["C12"]["verdict"] in ("conforming", "usable")
    assert told["clauses"]["C12"]["facts"]["versioned"] is True
    probed(f"s3://versioned?endpoint={parsed.endpoint}", "C1")
    left = client.list_object_versions(Bucket="versioned")
    assert "Versions" not in left
    assert "DeleteMarkers" not in left


@pytest.mark.parametrize("address", [on("fake-gcs-server")], indirect=True)
def test_deletes_without_a_condition_exclude_one_design_alone(address: str) -> None:
    """K9: deletes overlook generations, so conditional delete cannot be carried; compare-and-swap can."""
    told = probed(address, *LOCKS, "C8", "C15")
    assert told["clauses"]["C8"]["verdict"] == "unsafe"
    assert told["clauses"]["C15"]["verdict"] == "unsafe"
    assert told["designs"]["delete"]["verdict"] == "cannot carry"
    assert told["designs"]["cas"]["verdict"] == "can carry"


@pytest.mark.parametrize("address", [on("ministack tables"), on("dynalite")], indirect=True)
def test_tables_keep_their_conditions(address: str) -> None:
    """A table's condition compares an attribute; the item carries a version made from its contents."""
    told = probed(address, *LOCKS, "C8")
    assert verdicts(told, *LOCKS, "C8") == {"conforming"}


@pytest.mark.long
@pytest.mark.parametrize("address", [on("moto")], indirect=True)
def test_a_server_that_checks_and_writes_in_two_steps_is_found_out(address: str) -> None:
    """K2, K3: moto's races open where it checks a sum; its multipart completions take any version."""
    told = probed(address, "C2", "C3", "C13", rounds=150)
    assert "unsafe" in verdicts(told, "C2", "C3")
    assert told["clauses"]["C13"]["verdict"] == "unsafe"
    assert told["verdict"] == "unsafe"
