"""The name of a server with the library that shall send the requests behind it."""

from __future__ import annotations

import pytest

from lockref.clouds.uri import client_library, parse_store_uri
from lockref.errors import CapabilityMissing, ConfigError
from scenarios.backends import RunningBackend, is_started_here, require_known, require_objects
from scenarios.backends.hosts import host_of
from scenarios.backends.start import table_uri, with_options


def test_a_server_is_known_by_its_name_whatever_client_is_asked_for():
    """Every command that takes a server's name takes the option behind it."""
    require_known("ministack?client=obstore")
    require_objects("moto?client=boto3")
    assert is_started_here("ministack?client=obstore")
    assert not is_started_here("s3://bucket?client=obstore")
    assert host_of("object_store").scheme("ministack?client=obstore") == "s3"
    assert with_options("s3://b?endpoint=http://127.0.0.1:1", "ministack?client=obstore") == (
        "s3://b?endpoint=http://127.0.0.1:1&client=obstore"
    )
    assert with_options("s3://b?endpoint=http://127.0.0.1:1", "ministack") == "s3://b?endpoint=http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("ministack?client=curl", "'curl' is not known; expected boto3 or obstore"),
        ("ministack?region=eu-west-1", "expected ministack?client=NAME"),
        ("ministack?client=obstore&client=boto3", "expected ministack?client=NAME"),
        ("ministack?", "expected ministack?client=NAME"),
        ("fake-gcs-server?client=obstore", "unknown option 'client'"),
        ("zookeeper?client=kazoo", "no server 'zookeeper"),
        ("ministak?client=obstore", "did you mean 'ministack'?"),
    ],
)
def test_another_option_is_refused_before_a_server_starts(named, told):
    """Where the server listens is not the user's to say."""
    with pytest.raises(ConfigError) as caught:
        require_known(named)
    assert told.lower() in str(caught.value).lower()


def test_a_table_is_not_reached_through_a_client_of_objects():
    """It would be reached through another library than the one that the results name."""
    running = RunningBackend(name="ministack", uri="s3://bucket?endpoint=http://127.0.0.1:1&client=obstore")
    with pytest.raises(CapabilityMissing, match="through obstore"):
        table_uri(running)


@pytest.mark.parametrize(
    ("uri", "library"),
    [
        ("s3://bucket", "boto3 "),
        ("s3://bucket?client=obstore", "obstore "),
        ("gs://bucket", "google-cloud-storage "),
        ("dynamodb://table", "boto3 "),
        ("zookeeper://127.0.0.1:1", "kazoo "),
        ("memory:", ""),
        ("file:///tmp/folder", ""),
    ],
)
def test_the_library_that_speaks_is_told_with_its_version(uri, library):
    """Results say which one spoke: one costs several times the processor time of another."""
    told = client_library(parse_store_uri(uri))
    assert told.startswith(library)
    assert bool(told.removeprefix(library)) is bool(library)
    assert ("through obstore" in str(parse_store_uri(uri))) is ("client=obstore" in uri)
