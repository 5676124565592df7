"""Which resources this controller drives, by which rule, and the reason for each that it refuses."""

from __future__ import annotations

import pytest

from lockref.helix.lock import LOCK_UNLOCK
from lockref.helix.rebalancers import Question, load, sticky
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.served import NotServed, is_enabled, mode_of, rule_of
from lockref.helix.state_model import BUILT_IN, StateModel

ONLINE = BUILT_IN["OnlineOffline"]
MASTER = BUILT_IN["MasterSlave"]


def ideal(mode: str, **more: str) -> ZNRecord:
    """An ideal state of two locks, whose list and map name other instances first."""
    return ZNRecord(
        "g",
        {"REBALANCE_MODE": mode, **more},
        maps={"g_0": {"b": "ONLINE", "c": "OFFLINE"}, "g_1": {"a": "ONLINE"}},
        lists={"g_0": ["c", "a", "b"], "g_1": ["a", "b"]},
    )


def asked(record: ZNRecord, model: StateModel, live: tuple[str, ...], per_lock: int = 1) -> dict[str, tuple[str, ...]]:
    rule = rule_of(record, model, override="", load=load)
    return dict(rule(Question(("g_0", "g_1"), live, {}, per_lock)))


def test_a_rule_of_ours_is_driven():
    assert rule_of(ideal("USER_DEFINED", REBALANCER_CLASS_NAME="sticky"), MASTER, override="", load=load) is sticky


def test_semi_auto_follows_its_lists():
    """The first of a list that live; who is not live is passed over."""
    assert asked(ideal("SEMI_AUTO"), ONLINE, ("a", "b")) == {"g_0": ("a",), "g_1": ("a",)}
    assert asked(ideal("SEMI_AUTO"), ONLINE, ("b", "c"), per_lock=2) == {"g_0": ("c", "b"), "g_1": ("b",)}


def test_who_is_disabled_for_a_lock_is_passed_over_in_a_list_and_has_no_substitute_in_a_map():
    """As Helix' own rebalancers do in both modes."""
    disabled = {"g_0": ["b", "c"], "g_1": ["a"]}
    whole = Question(("g_0", "g_1"), ("a", "b", "c"), {}, 1, disabled=disabled)
    by_list = rule_of(ideal("SEMI_AUTO"), ONLINE, override="", load=load)
    assert by_list(whole) == {"g_0": ("a",), "g_1": ("b",)}
    by_map = rule_of(ideal("CUSTOMIZED"), ONLINE, override="", load=load)
    assert by_map(whole) == {"g_0": (), "g_1": ()}


def test_customized_follows_its_map():
    """Those that the map gives the top state, if they live; another state is no hold."""
    assert asked(ideal("CUSTOMIZED"), ONLINE, ("a", "b", "c")) == {"g_0": ("b",), "g_1": ("a",)}
    assert asked(ideal("CUSTOMIZED"), ONLINE, ("c",)) == {"g_0": (), "g_1": ()}


@pytest.mark.parametrize(
    ("record", "model", "words"),
    [
        (ideal("FULL_AUTO"), ONLINE, "its mode is FULL_AUTO: Helix's own rebalancer decides (DEFAULT)"),
        (
            ideal("FULL_AUTO", REBALANCER_CLASS_NAME="org.apache.helix.controller.rebalancer.waged.WagedRebalancer"),
            ONLINE,
            "decides (WagedRebalancer), which lockref does not have",
        ),
        (ideal("FULL_AUTO"), MASTER, "MasterSlave counts the instances in SLAVE, too"),
        (ideal("SEMI_AUTO"), MASTER, "would drop every SLAVE"),
        (ideal("CUSTOMIZED"), BUILT_IN["LeaderStandby"], "counts the instances in STANDBY"),
        (ideal("TASK"), ONLINE, "it has jobs, and no locks"),
        (ideal("full"), ONLINE, "its mode is 'full': which Helix does not have"),
    ],
)
def test_a_refusal_has_its_reason(record: ZNRecord, model: StateModel, words: str):
    with pytest.raises(NotServed) as refused:
        rule_of(record, model, override="", load=load)
    assert words in refused.value.message


def test_an_operator_may_name_a_rule_for_full_auto():
    """For a model that has owners and nobody else. That of others stays refused: their second state would go."""
    for model in (ONLINE, LOCK_UNLOCK):
        assert rule_of(ideal("FULL_AUTO"), model, override="sticky", load=load) is sticky
    with pytest.raises(NotServed, match="would drop every SLAVE"):
        rule_of(ideal("FULL_AUTO"), MASTER, override="sticky", load=load)


def test_old_clusters_name_their_mode_otherwise():
    for old, mode in (("AUTO", "SEMI_AUTO"), ("AUTO_REBALANCE", "FULL_AUTO"), ("CUSTOMIZED", "CUSTOMIZED")):
        assert mode_of(ZNRecord("g", {"IDEAL_STATE_MODE": old})) == mode
    assert mode_of(ZNRecord("g", {"IDEAL_STATE_MODE": "AUTO", "REBALANCE_MODE": "USER_DEFINED"})) == "USER_DEFINED"


def test_only_the_word_false_disables():
    for text, is_so in (("false", False), ("FALSE", False), ("true", True), ("no", True)):
        assert is_enabled(ZNRecord("g", {"HELIX_ENABLED": text})) is is_so
    assert is_enabled(ZNRecord("g"))
