"""The progress of a long job: what is left of it is told while it keeps the command busy."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lockref.cli.jobs.shown import console as module
from lockref.cli.jobs.shown.console import Console, SeedProgress, rest_in_words
from reports.checks.summary import Summary
from scenarios.campaigns.result import CampaignResult

S = 1_000_000_000


@pytest.mark.parametrize(
    ("left_ns", "words"),
    [(12 * S, "about 12 s left"), (S // 2, "about 1 s left"), (0, "about to end"), (-S, "about to end")],
)
def test_the_rest_is_told_in_whole_seconds(left_ns: int, words: str) -> None:
    """Rounded up: what has not ended never has 0 s left."""
    assert rest_in_words(left_ns) == words


def test_the_time_left_counts_each_seed_of_several_rounds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate adds a second round to the result of the first; seeds of an earlier command take no time."""
    heard: list[str] = []
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Console, "progress", lambda _self, text: heard.append(text))
    progress = SeedProgress(Console())
    total = CampaignResult(scenario="e08", provider="hudi", summary=Summary(runs=10), seeds=10)
    progress.expect(10)
    now[0] = 1.0
    progress.show(total)
    progress.expect(30)
    total.seeds, total.summary.runs, now[0] = 40, 20, 2.0
    progress.show(total)
    total.resumed = 10
    progress.show(total)
    assert heard == [
        "e08: 10 of 10 seeds, 10/s, 0 distinct failures",
        "e08: 20 of 40 seeds, 10/s, 0 distinct failures, about 2 s left",
        "e08: 20 of 40 seeds, 5/s, 0 distinct failures, about 4 s left",
    ]


def test_the_rest_of_a_step_is_told_until_something_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test waits for the second line of the step, says something, and finds the thread gone."""
    heard: list[str] = []
    repeated = threading.Event()

    def progress(_self: Console, text: str, *, force: bool = False) -> None:
        heard.append(text)
        if len(heard) > 1:
            repeated.set()

    monkeypatch.setattr(module, "TICK_S", 0.001)
    monkeypatch.setattr(Console, "progress", progress)
    console = Console()
    console.step("contending", lasting_ns=3600 * S)
    assert repeated.wait(60)
    console.say("HELD")
    assert [thread for thread in threading.enumerate() if thread.name == "countdown"] == []
    assert heard[0] == "contending"
    assert heard[1].startswith("contending, about 3,")


@pytest.mark.parametrize(("options", "lasting_ns"), [({}, S), ({}, 0), ({"quiet": True}, 3600 * S)])
def test_short_steps_and_quiet_commands_have_no_countdown(options: dict[str, object], lasting_ns: int) -> None:
    """Nobody waits two seconds for them, or asked to hear nothing."""
    Console(options).step("probing", lasting_ns=lasting_ns)
    assert [thread for thread in threading.enumerate() if thread.name == "countdown"] == []


LOUD = """
import os
from lockref.storage.hudi.lock_manager import HudiLock

class Loud(HudiLock):
    def lock(self, timeout_s):
        os.write(1, b'{"from": "the lock"}\\n')
        print("and this")
        return super().lock(timeout_s)
"""


def test_what_a_lock_writes_to_standard_output_is_in_no_document(tmp_path: Path) -> None:
    """By the descriptor's number too, here and in worker processes: each command writes its document, whole."""
    (tmp_path / "loud.py").write_text(LOUD)
    asked = ["--provider", "./loud.py:Loud", "--shrink-for", "0s", "--json"]
    lines = [
        ["-q", "sim", "e08", "--seeds", "1..2", *asked],
        ["-q", "campaign", "e08", "--seeds", "1..2", "--jobs", "1", *asked],
        ["-q", "campaign", "e08", "--seeds", "5..1", *asked],
    ]
    text = f"from lockref.cli.main import run\nprint([run(line) for line in {lines}])"
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert '{"from": "the lock"}' in done.stderr
    decoder = json.JSONDecoder()
    first, end = decoder.raw_decode(done.stdout)
    second, then = decoder.raw_decode(done.stdout[end:].lstrip())
    assert first["digest"] == second["digest"]
    assert done.stdout[end:].lstrip()[then:].strip() == "[1, 1, 2]", "what follows has standard output back"
