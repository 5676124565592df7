"""The log of a controller, and the tables of a status: what is told once, what is counted, and names of strangers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lockref.cli.jobs.cluster.controller_log import LINES_MAX, ControllerLog
from lockref.cli.jobs.cluster.tables import LOCKS_MAX, say_status
from lockref.cli.jobs.shown.console import Console
from lockref.helix.controller.controller import Pass
from lockref.helix.controller.controller_event import ControllerEvent
from lockref.helix.lock import LOCK_UNLOCK
from lockref.helix.operations.status import (
    ClusterStatus,
    ControllerStatus,
    InstanceStatus,
    LastReport,
    LockStatus,
    ResourceStatus,
    WaitingMessage,
    silence_of,
)
from lockref.helix.pipeline import Alarm, AlarmKind, Decision, LockGroup, Replica, Snapshot
from lockref.runtime import NS_PER_S, ThreadRuntime
from tests.hostile_text import WORD, unshown


def passed(
    owners: dict[str, str], *, locks: int = 2, live: tuple[str, ...] = ("a", "b"), alarms: tuple[Alarm, ...] = ()
) -> Pass:
    """A pass that saw these owners, and has nothing to send."""
    names = tuple(f"g_{number}" for number in range(locks))
    snapshot = Snapshot(
        groups=(LockGroup(name="g", locks=names, replicas=1, model=LOCK_UNLOCK),),
        live=dict.fromkeys(live, "s"),
        replicas={lock: {owner: Replica("LOCKED")} for lock, owner in owners.items()},
    )
    return Pass(
        snapshot=snapshot, decision=Decision(messages=(), wanted={}, views={}, alarms=alarms), sent=0, took_ns=0
    )


def log_of(*, as_json: bool = False) -> ControllerLog:
    return ControllerLog(Console({}, as_json=as_json), ThreadRuntime(), "c1", lambda: "c0")


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines without their times."""
    return [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]


def test_a_log_tells_what_differs_from_the_pass_before(capsys: pytest.CaptureFixture[str]) -> None:
    """The first pass is a summary; then one line for each lock that changes hands, and nothing where nothing does."""
    log = log_of()
    log.heard(ControllerEvent.STANDS_BY)
    log.heard(ControllerEvent.LEADS)
    log.passed(passed({"g_0": "a", "g_1": "b"}))
    assert said(capsys) == [
        "c1 stands by: c0 leads",
        "c1: leads",
        "instances: a, b live",
        "finds 2 of 2 locks owned: a 1, b 1",
        "settled: 2 of 2 locks owned: a 1, b 1",
    ]
    log.passed(passed({"g_0": "a", "g_1": "b"}))
    assert said(capsys) == []
    log.passed(passed({"g_0": "b"}, live=("b",)))
    assert said(capsys) == ["instances: a gone", "g_0: b (was a)", "g_1: no owner (was b)"]


def test_an_alarm_that_is_over_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    log, alarm = log_of(), Alarm(AlarmKind.ZOMBIE, "a lives")
    log.alarm(alarm)
    log.passed(passed({}, alarms=(alarm,)))
    assert "ALARM zombie: a lives" in said(capsys)
    log.passed(passed({}))
    assert said(capsys) == ["over: zombie: a lives"]


def test_many_locks_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten thousand locks that move in one pass are one line."""
    log, many = log_of(), LINES_MAX + 1
    log.passed(passed({f"g_{number}": "a" for number in range(many)}, locks=many))
    log.passed(passed({f"g_{number}": "b" for number in range(many - 1)}, locks=many))
    assert said(capsys)[-1] == f"{many} locks have changed hands, 1 without an owner now: b {many - 1}"


def test_json_has_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    log = log_of(as_json=True)
    log.heard(ControllerEvent.LEADS)
    log.alarm(Alarm(AlarmKind.ZOMBIE, WORD))
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["event"], first["controller"]) == ("leads", "c1")
    assert (second["event"], second["alarm"]) == ("alarm", "zombie")


MESSAGE = WaitingMessage(
    id=WORD, kind="STATE_TRANSITION", resource="g", lock="g_0", source="R", target="L", state="new",
    age_ns=90 * NS_PER_S, created_zxid=5,
)  # fmt: skip


def status(locks: tuple[LockStatus, ...]) -> ClusterStatus:
    silence = silence_of([MESSAGE], reported=LastReport(), limit_ns=60 * NS_PER_S)
    return ClusterStatus(
        name="c",
        controller=ControllerStatus(name="c1", session="a1"),
        is_paused=True,
        is_in_maintenance=False,
        instances=(InstanceStatus(name="[/x]", session="s", messages=(MESSAGE,), silence=silence),),
        resources=(
            ResourceStatus(
                name="g", mode="FULL_AUTO", rule="", model="m", replicas="1", refusal="because", per_lock=1, locks=locks
            ),
        ),
        problems=(f"/c holds {WORD}",),
    )


def test_a_status_shows_what_is_wrong_and_no_escape(capsys: pytest.CaptureFixture[str]) -> None:
    crowd = LockStatus(name="g_1", states={"a": "L", "b": "L"}, view={"a": "L"}, owners=("a", "b"))
    say_status(Console({}), status((LockStatus(name="g_0"), crowd)), "h:1")
    told = capsys.readouterr().out
    assert unshown(told) == []
    for words in (
        "c1 leads (session a1); the cluster is paused", "[/x]: zombie: lives, and has answered no message for 90 s",
        "does not drive it: because", "TWO OWNERS: g_1 is owned by a, b", "NONE", "not readable: /c holds",
    ):  # fmt: skip
        assert words in told


def test_a_long_resource_lists_what_is_not_as_usual(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them with `-v`. A lock with a message under way is never left out."""
    usual = LockStatus(name="x", states={"a": "L"}, view={"a": "L"}, owners=("a",))
    locks = tuple(replace(usual, name=f"g_{number}") for number in range(LOCKS_MAX + 5))
    odd = (*locks, replace(usual, name="g_99", owners=()))
    say_status(Console({}), status(odd), "h:1")
    told = capsys.readouterr().out
    assert f"{LOCKS_MAX + 4} locks with one owner and nothing under way are left out (-v)" in told
    assert [name in told for name in ("g_99", "g_0 ", "g_7 ")] == [True, True, False]
    say_status(Console({"verbose": True}), status(odd), "h:1")
    assert "g_7 " in capsys.readouterr().out
