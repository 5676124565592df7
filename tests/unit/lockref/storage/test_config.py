"""Settings by Hudi's names, and where the lock object lies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockref.errors import ConfigError
from lockref.provider import LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.config import (
    BASE_PATH,
    CLIENT_RETRIES,
    CLIENT_RETRY_WAIT,
    HEARTBEAT_POLL,
    RENEW_INTERVAL,
    VALIDITY,
    WAIT_TIME,
    StorageLockConfig,
    check_scheme,
    lock_file_location,
    locks_folder,
    split_lock_uri,
)
from lockref.storage.lock import StorageLock
from lockref.stores.memory import MemoryStore

BASE = {BASE_PATH: "s3://lake/table"}


def test_defaults_are_those_of_hudi():
    """Section 3: 300 s, 30 s, 60 s, 50 retries 5 s apart; 1 s poll and 500 ms buffer are fixed."""
    assert StorageLockConfig.from_properties(BASE) == StorageLockConfig(
        base_path="s3://lake/table",
        validity_ns=300 * NS_PER_S,
        renew_interval_ns=30 * NS_PER_S,
        wait_time_ns=60 * NS_PER_S,
        client_retries=50,
        client_retry_wait_ns=5 * NS_PER_S,
        poll_interval_ns=NS_PER_S,
        drift_bound_ns=500 * NS_PER_MS,
    )


@pytest.mark.parametrize("kind", [int, str])
def test_numbers_may_come_as_text(kind):
    """D15, H18: every Spark option is text, which Hudi's S3 client cannot digest."""
    config = StorageLockConfig.from_properties(
        {
            **BASE, VALIDITY: kind(20), RENEW_INTERVAL: kind(2), WAIT_TIME: kind(7), CLIENT_RETRIES: kind(3),
            CLIENT_RETRY_WAIT: kind(9),
        }
    )  # fmt: skip
    assert (config.validity_ns, config.renew_interval_ns) == (20 * NS_PER_S, 2 * NS_PER_S)
    assert (config.wait_time_ns, config.client_retries, config.client_retry_wait_ns) == (
        7 * NS_PER_MS,
        3,
        9 * NS_PER_MS,
    )


def test_the_old_name_of_the_renew_interval_still_works():
    """#13968: heartbeat.poll.secs is an alternative, and the new name goes first."""
    assert StorageLockConfig.from_properties({**BASE, HEARTBEAT_POLL: 3}).renew_interval_ns == 3 * NS_PER_S
    both = StorageLockConfig.from_properties({**BASE, HEARTBEAT_POLL: 3, RENEW_INTERVAL: 4})
    assert both.renew_interval_ns == 4 * NS_PER_S


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({VALIDITY: 1, RENEW_INTERVAL: 0}, f"{BASE_PATH} does not exist!"),
        ({**BASE, VALIDITY: 5, RENEW_INTERVAL: 1}, f"{VALIDITY} should be greater than or equal to 10x {RENEW_INTERVAL}"),  # noqa: E501
        ({**BASE, VALIDITY: 19, RENEW_INTERVAL: 2}, f"{VALIDITY} should be greater than or equal to 10x {RENEW_INTERVAL}"),  # noqa: E501
        ({**BASE, VALIDITY: 9, RENEW_INTERVAL: 0}, f"{VALIDITY} should be greater than or equal to 10 seconds."),
        ({**BASE, VALIDITY: 10, RENEW_INTERVAL: 0}, f"{RENEW_INTERVAL} should be greater than or equal to 1 second."),
    ],
)  # fmt: skip
def test_checks_come_in_hudi_s_order_and_words(properties, message):
    """TestStorageBasedLockConfig, section 3: the first broken rule is reported, in Hudi's words."""
    with pytest.raises(ConfigError) as caught:
        StorageLockConfig.from_properties(properties)
    assert str(caught.value) == message


def test_the_smallest_accepted_settings():
    """Section 3: the rules are inclusive."""
    assert StorageLockConfig.from_properties({**BASE, VALIDITY: 10, RENEW_INTERVAL: 1}).validity_ns == 10 * NS_PER_S


@pytest.mark.parametrize("value", ["", "ten", "1.5", 1.5, True, "1_0", "99999999999999999999", 2**63, [10]])
def test_what_is_no_number_is_refused_by_name(value):
    """The message names the key, the value and the accepted form."""
    with pytest.raises(ConfigError, match=rf"{VALIDITY} is .*expected a whole number"):
        StorageLockConfig.from_properties({**BASE, VALIDITY: value})


@pytest.mark.parametrize(
    ("base_path", "bucket", "key"),
    [
        ("s3://lake/table", "lake", "table/.hoodie/.locks/table_lock.json"),
        ("s3a://lake//a///b//", "lake", "a/b/.hoodie/.locks/table_lock.json"),
        ("gs://under_score/x%20y", "under_score", "x y/.hoodie/.locks/table_lock.json"),
        ("s3://lake", "lake", ".hoodie/.locks/table_lock.json"),
    ],
)
def test_where_the_lock_object_lies(base_path, bucket, key):
    """Section 1, path: slashes collapse, authority is the bucket (#13747), the key is percent-decoded."""
    place = lock_file_location(base_path)
    assert (place.bucket, place.key) == (bucket, key)
    assert f"{place.folder}/table_lock.json" == key
    assert StorageLockConfig(base_path=base_path).location == place


def test_slashes_collapse_without_a_scheme_too():
    """Section 1, path: a plain path is normalised before it is refused."""
    assert locks_folder("/tmp//table//") == "/tmp/table/.hoodie/.locks"
    assert locks_folder("s3://lake//x://y/") == "s3://lake/x:/y/.hoodie/.locks"


def test_s3_and_s3a_name_the_same_object():
    """Section 1, path: only the scheme differs."""
    one, other = lock_file_location("s3://lake/t"), lock_file_location("s3a://lake/t")
    assert (one.bucket, one.key) == (other.bucket, other.key)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3:///key", r"URI does not contain a valid bucket name\."),
        ("/just/a/path", r"URI does not contain a valid bucket name\."),
        ("s3://lake", r"URI does not contain a valid path\."),
        ("s3://lake/", r"URI does not contain a valid path\."),
        ("s3://lake/a b", "no URI"),
        ("s3://lake/a%zz", "no URI"),
        ("s3://[::1/a", "no URI"),
        ("s3://lake/a?b=c", "query or a fragment"),
        ("s3://lake/a#b", "query or a fragment"),
    ],
)
def test_uris_without_an_object_are_refused(uri, message):
    """Section 1, path. A query is refused because Hudi would lock the table's own folder with it."""
    with pytest.raises(ConfigError, match=message):
        split_lock_uri(uri)


def test_schemes_with_a_lock_client():
    """Section 3: s3, s3a, gs and Azure's four; nothing else."""
    for scheme in ("s3", "s3a", "gs", "abfs", "abfss", "wasb", "wasbs"):
        check_scheme(scheme)
    with pytest.raises(ConfigError, match="No implementation of StorageLock supports this scheme: hdfs"):
        check_scheme("hdfs")


@pytest.mark.parametrize(
    ("timing", "told"),
    [
        ({"validity_ns": 10 * NS_PER_S, "renew_interval_ns": 4 * NS_PER_S}, "10x"),
        ({"drift_bound_ns": 0}, "drift bound is 0 ms"),
        ({"drift_bound_ns": 499 * NS_PER_MS}, "drift bound is 499 ms"),
        ({"margin_ns": 0}, "margin is 0 ms"),
    ],
)
def test_a_timing_that_the_rfc_forbids_is_refused_whoever_asks(timing, told):
    """RFC-91: a factor of ten, never below 500 ms. One place checks; the laboratory must say `unsafe`."""
    with pytest.raises(ConfigError, match=told):
        StorageLockConfig(base_path="s3://a/b", **timing)
    allowed = StorageLockConfig(base_path="s3://a/b", unsafe=True, **timing)
    assert told in allowed.timing_faults[0]
    settings = LockSettings(**{name: value for name, value in timing.items() if name != "margin_ns"})
    with pytest.raises(ConfigError, match=told):
        StorageLockConfig.from_settings(settings, margin_ns=timing.get("margin_ns"))
    StorageLockConfig.from_settings(replace(settings, unsafe=True), margin_ns=timing.get("margin_ns"))


@pytest.mark.parametrize(
    "asked",
    ["validity_ns", "renew_interval_ns", "poll_interval_ns", "drift_bound_ns", "margin_ns", "unsafe"],
)
def test_the_laboratorys_timing_is_that_of_each_question(asked):
    """What is remembered of one question never answers another one."""
    margin_ns = 700 * NS_PER_MS
    settings = LockSettings(validity_ns=40 * NS_PER_S, renew_interval_ns=2 * NS_PER_S, unsafe=True)
    before = StorageLockConfig.from_settings(settings, margin_ns=margin_ns)
    value = getattr(before, asked)
    other = not value if asked == "unsafe" else value + NS_PER_MS
    if asked == "margin_ns":
        after = StorageLockConfig.from_settings(settings, margin_ns=other)
    else:
        after = StorageLockConfig.from_settings(replace(settings, **{asked: other}), margin_ns=margin_ns)
    assert after == replace(before, **{asked: other})
    assert StorageLockConfig.from_settings(settings, margin_ns=margin_ns) == before


def test_the_terms_are_those_of_each_question():
    """Each duration of a lease is its own, also of one that differs from the last by that alone."""
    config = StorageLockConfig(base_path="", margin_ns=700 * NS_PER_MS)
    terms = config.terms()
    assert config.terms(NS_PER_S) == replace(terms, request_timeout_ns=NS_PER_S)
    for given, told in [
        ("validity_ns", "validity_ns"), ("drift_bound_ns", "buffer_ns"), ("margin_ns", "margin_ns"),
    ]:  # fmt: skip
        value = getattr(config, given) + NS_PER_MS
        assert replace(config, **{given: value}).terms() == replace(terms, **{told: value})
    slower = replace(config, renew_interval_ns=6 * NS_PER_S).terms()
    assert (slower.renew_interval_ns, slower.request_timeout_ns) == (6 * NS_PER_S, 2 * NS_PER_S)
    assert config.terms() == terms


def test_the_locks_own_margin_is_held_to_the_same():
    """The margin that a constructor is given passes the same place."""
    config = StorageLockConfig(base_path="s3://a/b")
    with pytest.raises(ConfigError, match="margin is 0 ms"):
        StorageLock(MemoryStore(), config=config, margin_ns=0)
    assert StorageLock(MemoryStore(), config=replace(config, unsafe=True), margin_ns=0).terms.margin_ns == 0


def test_a_misspelt_property_is_refused():
    """A typo would silently give Hudi's default; Hudi itself, and so the baseline, takes no notice."""
    misspelt = {**BASE, "hoodie.write.lock.storage.validty.timeout.secs": "60"}
    with pytest.raises(ConfigError, match=f"Did you mean '{VALIDITY}'"):
        StorageLockConfig.from_properties(misspelt)
    assert StorageLockConfig.from_properties(misspelt, ignores_unknown=True).validity_ns == 300 * NS_PER_S
    elsewhere = {**BASE, "hoodie.write.lock.provider": "x", "hoodie.table.name": "t"}
    assert StorageLockConfig.from_properties(elsewhere) == StorageLockConfig.from_properties(BASE)
    with pytest.raises(ConfigError, match=r"does not exist! There is 'hoodie[.]basepath': is it misspelt[?]"):
        StorageLockConfig.from_properties({"hoodie.basepath": "s3://lake/table"})
