"""Store URIs: what they mean, and what a wrong one is told."""

from __future__ import annotations

import google.auth
import pytest
from google.auth.exceptions import DefaultCredentialsError

from lockref.clouds.azure.client import AzureStore
from lockref.clouds.gcs.client import GcsStore
from lockref.clouds.s3.client import S3Store
from lockref.clouds.uri import open_store, parse_store_uri
from lockref.errors import CapabilityMissing, ConfigError
from lockref.stores.address import StoreAddress
from lockref.stores.endpoints import is_loopback
from lockref.stores.localfs import FileStore


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("memory:", StoreAddress(scheme="memory", container="")),
        ("memory:name-1", StoreAddress(scheme="memory", container="name-1")),
        ("file:///a/b%20c/", StoreAddress(scheme="file", container="/a/b c")),
        ("s3://bucket", StoreAddress(scheme="s3", container="bucket")),
        ("s3://my.bucket-1", StoreAddress(scheme="s3", container="my.bucket-1")),
        ("s3://1.2.3.4.5", StoreAddress(scheme="s3", container="1.2.3.4.5")),
        ("gs://under_score", StoreAddress(scheme="gs", container="under_score")),
        ("gs://" + "a" * 60 + ".example.com", StoreAddress(scheme="gs", container="a" * 60 + ".example.com")),
        ("s3://bucket/a%20b", StoreAddress(scheme="s3", container="bucket", prefix="a b")),
        (
            "s3://bucket/a/b/?endpoint=http://127.0.0.1:9/&region=eu-west-1",
            StoreAddress(
                scheme="s3", container="bucket", prefix="a/b", endpoint="http://127.0.0.1:9", region="eu-west-1"
            ),
        ),
        (
            "gs://bucket/a?endpoint=http%3A%2F%2F127.0.0.1%3A9",
            StoreAddress(scheme="gs", container="bucket", prefix="a", endpoint="http://127.0.0.1:9"),
        ),
        ("az://tables", StoreAddress(scheme="az", container="tables")),
        (
            "az://tables/a/b?endpoint=http://127.0.0.1:9/devstoreaccount1/",
            StoreAddress(scheme="az", container="tables", prefix="a/b", endpoint="http://127.0.0.1:9/devstoreaccount1"),
        ),
        (
            "abfss://tables@lake.dfs.core.windows.net/a%20b",
            StoreAddress(scheme="abfss", container="tables", prefix="a b", account="lake.dfs.core.windows.net"),
        ),
        (
            "abfs://tables@lake.dfs.core.usgovcloudapi.net",
            StoreAddress(scheme="abfs", container="tables", account="lake.dfs.core.usgovcloudapi.net"),
        ),
        (
            "wasb://t-1@lake.z12.blob.storage.azure.net/a?endpoint=https://10.0.0.1",
            StoreAddress(
                scheme="wasb",
                container="t-1",
                prefix="a",
                endpoint="https://10.0.0.1",
                account="lake.z12.blob.storage.azure.net",
            ),
        ),
        (
            "wasbs://tables@lake.blob.core.windows.net",
            StoreAddress(scheme="wasbs", container="tables", account="lake.blob.core.windows.net"),
        ),
        ("zookeeper://127.0.0.1:2181", StoreAddress(scheme="zookeeper", container="127.0.0.1:2181")),
        (
            "zookeeper://zk-1:2181,[::1]:2182/a/b/",
            StoreAddress(scheme="zookeeper", container="zk-1:2181,[::1]:2182", prefix="a/b"),
        ),
    ],
)
def test_a_uri_is_taken_apart(uri, address):
    """The schemes, with prefix, endpoint and region."""
    assert parse_store_uri(uri) == address


@pytest.mark.parametrize(
    ("uri", "part"),
    [
        ("bucket", "'bucket'"),
        ("ftp://host/x", "'ftp'"),
        ("memory:a/b", "memory:NAME"),
        ("file://host/x", "absolute path"),
        ("file:relative", "absolute path"),
        ("file:///", "no folder"),
        ("s3:///prefix", "names no bucket"),
        ("gs://", "names no bucket"),
        ("s3://UPPER", "'UPPER'"),
        ("s3://ab", "'ab'"),
        ("s3://a_b..c", "two dots"),
        ("s3://a..b", "two dots"),
        ("gs://a_b..c", "two dots"),
        ("s3://192.168.0.1", "IP address"),
        ("gs://10.0.0.1", "IP address"),
        ("s3://under_score", "hyphens"),
        ("s3://-bucket", "both ends"),
        ("s3://bucket.", "both ends"),
        ("s3://" + "a" * 64, "63 characters"),
        ("gs://" + "a" * 64, "63 characters"),
        ("gs://" + ".".join(["a" * 60] * 4), "63 characters"),
        ("gs://goog-mine", "Google keeps"),
        ("gs://my-google-bucket", "Google keeps"),
        ("s3://[::1", "unreadable host"),
        ("s3://bucket?endpoint=http://[::1", "unreadable host"),
        ("s3://bucket/a//b", "prefix"),
        ("s3://bucket?endpoint=127.0.0.1:9", "endpoint"),
        ("s3://bucket?endpoint=http://h:99999", "port"),
        ("s3://bucket?endpoint=http://h:0", "port 0"),
        ("s3://bucket?endpoint=http://h/path", "more than a host"),
        ("s3://bucket?endpoint=http://h?a=1", "more than a host"),
        ("s3://bucket?endpoint=http://h%23part", "more than a host"),
        ("s3://bucket?endpoint=", "endpoint"),
        ("s3://bucket?end=1", "'end'"),
        ("s3://bucket?region=a&region=b", "twice"),
        ("s3://bucket?region=A B", "region"),
        ("gs://bucket?region=eu-west-1", "'region'"),
        ("az://", "names no container"),
        ("az:///prefix", "names no container"),
        ("abfss://@lake.dfs.core.windows.net", "names no container"),
        ("az://Tables", "lower-case"),
        ("az://t--1", "single hyphens"),
        ("az://ab", "3 to 63"),
        ("az://a.b", "hyphens"),
        ("abfss://tables", "names no account"),
        ("abfss://tables@", "'' is not of the form ACCOUNT"),
        ("abfss://tables@lake", "'lake' is not of the form ACCOUNT"),
        ("abfss://tables@lake.file.core.windows.net", "is not of the form ACCOUNT"),
        ("wasb://tables@l_ke.blob.core.windows.net", "is not of the form ACCOUNT"),
        ("abfss://tables@lake.dfs.core.windows.net:443", "is not of the form ACCOUNT"),
        ("az://tables?region=eu", "'region'"),
        ("az://tables?endpoint=http://h:1/a/b", "at most one account"),
        ("az://tables?endpoint=http://h:1/A", "at most one account"),
        ("s3://bucket?endpoint=http://h:1/account", "more than a host"),
        ("az://tables/a//b", "prefix"),
        ("zookeeper://", "names '' as a server"),
        ("zookeeper://127.0.0.1", "names '127.0.0.1' as a server"),
        ("zookeeper://a:2181,b", "names 'b' as a server"),
        ("zookeeper://a:99999", "names 'a:99999' as a server"),
        ("zookeeper://a:1?session=1", "options"),
    ],
)
def test_a_wrong_uri_gets_one_clear_line(uri, part):
    """A ConfigError of one line that names the part that is wrong."""
    with pytest.raises(ConfigError) as caught:
        parse_store_uri(uri)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://key:hunter2@bucket",
        "s3://hunter2@bucket",
        "s3://bucket?endpoint=http://key:hunter2@h:1",
        "https://key:hunter2@host/",
        "s3://key:hunter2@\u2100",
        "s3://bucket?endpoint=http://key:hunter2@\u2100",
        "zookeeper://key:hunter2@h:1",
        "az://hunter2@tables",
        "az://key:hunter2@tables",
        "abfss://tables:hunter2@lake.dfs.core.windows.net",
        "abfss://tables@lake.dfs.core.windows.net?sv=1&sig=hunter2",
        "az://tables?endpoint=https://lake.blob.core.windows.net%3Fsv=1%26sig=hunter2",
    ],
)
def test_a_message_never_repeats_credentials(uri):
    """Somebody's password in a URI stays out of logs."""
    with pytest.raises(ConfigError) as caught:
        parse_store_uri(uri)
    assert "hunter2" not in str(caught.value)


def test_each_scheme_opens_its_store_without_a_request(tmp_path):
    """Opening sends nothing: nobody listens on port 1."""
    for uri, kind in (
        (f"file://{tmp_path}/new", FileStore),
        ("s3://bucket?endpoint=http://127.0.0.1:1", S3Store),
        ("gs://bucket?endpoint=http://127.0.0.1:1", GcsStore),
        ("az://bucket?endpoint=http://127.0.0.1:1/devstoreaccount1", AzureStore),
    ):
        store = open_store(uri, request_timeout_ns=1_000_000)
        assert isinstance(store, kind)
        store.close()
        store.close()
    assert not (tmp_path / "new").exists()
    with pytest.raises(CapabilityMissing, match="holds no objects"):
        open_store("zookeeper://127.0.0.1:1", request_timeout_ns=1_000_000)


def test_an_unknown_aws_profile_is_a_configuration_error(monkeypatch):
    """The SDK's own complaint becomes one line that names the store."""
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    with pytest.raises(ConfigError, match="s3://bucket"):
        open_store("s3://bucket?endpoint=http://127.0.0.1:1", request_timeout_ns=1)


def test_missing_google_credentials_are_a_configuration_error(monkeypatch):
    """Without an endpoint and without credentials there is nothing to try."""

    def none_found(**_arguments):
        raise DefaultCredentialsError("none")

    monkeypatch.setattr(google.auth, "default", none_found)
    with pytest.raises(ConfigError, match="GOOGLE_APPLICATION_CREDENTIALS"):
        open_store("gs://bucket", request_timeout_ns=1)


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.8.8.8", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://10.0.0.1:1", False),
        ("http://127.0.0.1.example", False),
        ("", False),
    ],
)
def test_loopback_is_decided_by_the_address_alone(endpoint, expected):
    """A name that only looks like this machine must not get the dummy credentials' trust."""
    assert is_loopback(endpoint) is expected
