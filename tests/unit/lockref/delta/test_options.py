"""The settings of Delta's lease by their real names; what contradicts itself is refused (T11)."""

from __future__ import annotations

import pytest

from lockref.delta.options import LeaseOptions
from lockref.errors import ConfigError
from lockref.provider import LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S


def test_defaults_are_those_of_the_crate():
    """dynamodb_lock: table delta_rs_lock_table, 20 s, 1 s; but no constant key for all tables (D3)."""
    options = LeaseOptions.from_properties({})
    assert (options.table_name, options.lease_ns, options.poll_interval_ns) == (
        "delta_rs_lock_table", 20 * NS_PER_S, NS_PER_S,
    )  # fmt: skip
    assert options.key is None
    assert options.owner_name is None


def test_options_are_read_by_their_real_names():
    """Each of the six, as text, as delta-rs' storage options pass it; other programs' names are left alone."""
    options = LeaseOptions.from_properties(
        {
            "DYNAMO_LOCK_TABLE_NAME": "locks",
            "DYNAMO_LOCK_PARTITION_KEY_VALUE": "s3://b/t",
            "DYNAMO_LOCK_OWNER_NAME": "writer-bravo",
            "DYNAMO_LOCK_LEASE_DURATION": "40",
            "DYNAMO_LOCK_REFRESH_PERIOD_MILLIS": "250",
            "DYNAMO_LOCK_ADDITIONAL_TIME_TO_WAIT_MILLIS": "500",
            "AWS_REGION": "eu-west-1",
        }
    )
    assert (options.table_name, options.key, options.owner_name) == ("locks", "s3://b/t", "writer-bravo")
    assert (options.lease_ns, options.poll_interval_ns) == (40 * NS_PER_S, 250 * NS_PER_MS)
    assert options.additional_wait_ns == 500 * NS_PER_MS
    terms = options.terms()
    assert terms.validity_ns > terms.validity_ns - terms.margin_ns > 1.2 * terms.renew_interval_ns


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("DYNAMO_LOCK_LEASE_DURATION", "soon", "DYNAMO_LOCK_LEASE_DURATION is 'soon'"),
        ("DYNAMO_LOCK_LEASE_DURATION", "0", "from 1 to"),
        ("DYNAMO_LOCK_LEASE_DURATION", True, "is True"),
        ("DYNAMO_LOCK_LEASE_DURATION", "-3", "is '-3'"),
        ("DYNAMO_LOCK_LEASE_DURATION", str(365 * 86_400 + 1), "from 1 to 31536000"),
        ("DYNAMO_LOCK_REFRESH_PERIOD_MILLIS", "30000", "at most the lease"),
        ("DYNAMO_LOCK_OWNER_NAME", "", "DYNAMO_LOCK_OWNER_NAME is ''"),
        ("DYNAMO_LOCK_LEASE_DURATOIN", "20", "Did you mean 'DYNAMO_LOCK_LEASE_DURATION'"),
    ],
)
def test_a_wrong_option_is_named(name, value, words):
    """ConfigError names the option, what it is and what is expected."""
    with pytest.raises(ConfigError) as caught:
        LeaseOptions.from_properties({name: value})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (LockSettings(validity_ns=2 * NS_PER_S, renew_interval_ns=2 * NS_PER_S), "T11"),
        (LockSettings(options={"margin_ms": "10000"}), "T11"),
        (LockSettings(options={"rate_ratio_percent": "99"}), "rate_ratio_percent is '99'"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, words):
    """T11: lease > renew deadline > 1.2 × renewal; T5: ρ is at least 1."""
    with pytest.raises(ConfigError) as caught:
        LeaseOptions.from_settings(settings)
    assert words in str(caught.value)


def options(**given: int) -> LeaseOptions:
    """A lease of 10 s, renewed every 2 s, with a margin of 1 s."""
    timing = {"lease_ns": 10 * NS_PER_S, "renew_interval_ns": 2 * NS_PER_S, "margin_ns": NS_PER_S}
    return LeaseOptions(**{**timing, "request_timeout_ns": NS_PER_S, **given})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"margin_ns": 0}, "the first must be longer than the second"),
        ({"renew_interval_ns": 7_500_000_000}, "that more than 1.2 times the third"),
        ({"rate_ratio_ppm": 999_999}, "expected at least 1"),
        ({"poll_interval_ns": 10 * NS_PER_S + 1}, "at most the lease"),
        ({"poll_interval_ns": 0}, "more than 0"),
    ],
)
def test_each_bound_of_the_timing_is_kept_to_the_end(given: dict[str, int], words: str) -> None:
    """T11: the bound itself is refused, and what lies just within it is taken."""
    with pytest.raises(ConfigError, match=words):
        options(**given)
    assert options(margin_ns=1, renew_interval_ns=7_400_000_000, rate_ratio_ppm=10**6, poll_interval_ns=10 * NS_PER_S)
