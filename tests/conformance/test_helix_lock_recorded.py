"""Our build of Helix' own lock against helix-lock 1.4.3: the same answers, errors, bytes and versions in every script.

The traces were recorded with the original itself (`python -m tests.evidence.helix.record_lock`), so no original is
needed here. The long test plays the scripts anew, with the original and with ours on one real ZooKeeper.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockref.coordination.session import COORDINATION
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.errors import BackendUnavailable, ConfigError
from lockref.helix.shipped.lock_info import LockInfo
from lockref.helix.shipped.nonblocking_lock import LockScope
from lockref.runtime import NS_PER_S, ThreadRuntime
from scenarios.backends.zookeeper import started_zookeeper
from tests.conformance.helix_lock_traces import played_in_virtual_time, recorded
from tests.evidence.helix.lock_class import HELIX_LOCK, LockClass
from tests.evidence.helix.lock_player import Place, played
from tests.evidence.helix.lock_scripts import NAMED
from tests.evidence.helix.record_lock import SCRIPTS, play

TRACES = {script["name"]: script for script in recorded()["scripts"]}


@pytest.mark.parametrize("name", TRACES)
def test_ours_does_what_the_original_did(name: str) -> None:
    """Answers, exceptions with their words, the znode's bytes, and how often it was written."""
    script = TRACES[name]
    assert played_in_virtual_time(script) == script["trace"]


def test_the_recording_has_every_script_once() -> None:
    assert [{name: script[name] for name in SCRIPTS[0]} for script in TRACES.values()] == list(SCRIPTS)


def test_the_recording_shows_what_the_scripts_are_about() -> None:
    """Each way in which a call of the original ends is in it, and most often more than once."""
    steps = [step for script in TRACES.values() for step in script["trace"]]
    answers: list[Any] = [step.get("answer") for step in steps]
    errors = {step["error"] for step in steps if "error" in step}
    assert all(sum(answer is each for answer in answers) > 20 for each in (True, False))
    assert answers.count("pending") > 10
    assert errors == {"HelixException", "IllegalStateException", "NullPointerException"}
    assert len({step["body"] for step in steps}) > 100


@pytest.mark.parametrize("place", range(len(recorded()["paths"])))
def test_ours_names_the_znodes_that_the_original_names(place: int) -> None:
    scope, names, told = recorded()["paths"][place]
    try:
        found = {"answer": LockScope[scope].path(names)}
    except ConfigError as error:
        found = {"error": "IllegalArgumentException", "text": str(error)}
    assert found == told


def test_a_free_lock_is_written_as_the_original_writes_it() -> None:
    """The bytes of the record, by themselves."""
    (free,) = {step["body"] for step in TRACES["nothing-to-unlock"]["trace"][:2]}
    assert LockInfo().record().to_json().decode() == free


@pytest.mark.long
@pytest.mark.java
@pytest.mark.realbackend
@pytest.mark.xdist_group("zookeeper")
def test_original_and_ours_side_by_side_on_a_real_server(tmp_path: Path) -> None:
    """Every script with a name, and some random ones: three plays that agree, the recorded one among them."""
    scripts = list(SCRIPTS[: len(NAMED) + 20])
    try:
        HELIX_LOCK.command()
    except BackendUnavailable as error:
        pytest.skip(str(error).splitlines()[0])
    with started_zookeeper() as server:
        with LockClass(server.hosts, tmp_path) as original:
            theirs = play(original, scripts)
        runtime = ThreadRuntime()

        def place(name: str) -> Place:
            channel = ZooKeeperChannel(server.hosts, client=name)
            return COORDINATION.over(channel, 10 * NS_PER_S), runtime

        session, _ = operator = place("operator")
        session.start(runtime, timeout_ns=30 * NS_PER_S)
        for number, (script, trace) in enumerate(zip(scripts, theirs, strict=True)):
            assert trace == TRACES[script["name"]]["trace"], script["name"]
            places = [place(f"n{each}") for each, _ in enumerate(script["locks"])]
            path = f"/ours/LOCK/RESOURCE/{number}"
            assert played(script, path, operator=operator, places=places) == trace, script["name"]
        session.close()
