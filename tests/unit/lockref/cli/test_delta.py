"""`lockref delta plan`: its document, its advice, and what it says to bad input. `delta figures` says how far it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockref.cli.main import run
from scenarios.delta.measured import hold_times_ns
from scenarios.delta.orders import coalesced, read_order
from scenarios.delta.planning import nearest_rank


def planned(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    """The document of `lockref delta plan`."""
    assert run(["delta", "plan", *options, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_post_s_fair_queue_wants_three_writers(capsys: pytest.CaptureFixture[str]) -> None:
    """Three tables, twenty numbers of writers: three end first and wait for nothing; the text says so as well."""
    plan = planned(capsys, "--writers", "1..20")
    assert plan["best_writers"] == 3
    assert [(row["makespan_s"], row["waiting_s"]) for row in plan["rows"][:4]] == [
        (300, 0),
        (150, 0),
        (100, 0),
        (100, 99),
    ]
    assert {row["versions"] for row in plan["rows"]} == {300}
    assert plan["advice"][0].startswith("Use 3 writers: 300 versions in 100.00 s")
    assert run(["delta", "plan", "--writers", "2..3"]) == 0
    assert "3 writers end 50.00 s earlier" in capsys.readouterr().out


def test_an_unfair_queue_and_the_deadline(capsys: pytest.CaptureFixture[str]) -> None:
    """Eleven writers of one table are one too many for ten seconds, and the first late version is named."""
    plan = planned(capsys, "--order", "unfair", "--writers", "10..11")
    assert [row["missed_deadline"] for row in plan["rows"]] == [0, 250]
    assert plan["best_writers"] == 10
    assert plan["rows"][1]["late"][0] == "writer 11, table1 version 11: 11 s after it was taken from the queue"
    assert any("takes the tables in turn needs 100.00 s with 3 writers" in line for line in plan["advice"])


def test_a_queue_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The post's drawing as a file: W8's figures. A file needs no numbers, may have comments, and any line ends."""
    drawing = tmp_path / "drawing"
    drawing.write_bytes(b"1n 2n 3n 4n 5n 6n # nginx\r\n\r\n1a 2a 3a\r\n1c 2c\r\n")
    row = planned(capsys, "--order", str(drawing), "--writers", "3")["rows"][0]
    assert (row["makespan_s"], row["waiting_s"], row["versions"]) == (8, 11, 11)
    plain = tmp_path / "plain"
    plain.write_text("logs.nginx s3://b/logs/alb", encoding="utf-8")
    assert read_order(plain) == ["logs.nginx", "s3://b/logs/alb"]


def test_options_of_queues_are_judged_where_queues_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """The default of one says nothing about a plan of locks; a share that is no number is bad input."""
    assert planned(capsys, "--get", "30s", "--writers", "1", "--versions", "1", "--deadline", "1h")["rows"]
    assert run(["delta", "plan", "--get", "30s", "--workers", "1"]) == 2
    assert "--visibility must be longer than --get" in capsys.readouterr().err
    assert run(["delta", "plan", "--workers", "1", "--crash-share", "nan"]) == 2
    assert "'nan' is not a number" in capsys.readouterr().err


def test_coalescing_keeps_the_order_and_the_rest() -> None:
    """N versions of a table become one at the place of their first; the last takes what is left."""
    assert "".join(coalesced("nanananc", 2)) == "nanac"
    assert coalesced("nn", 1) == ["n", "n"]


def test_other_protocols(capsys: pytest.CaptureFixture[str]) -> None:
    """One key for all tables: 300 s. Optimistic: attempts are counted, and what is given up is no version."""
    assert planned(capsys, "--protocol", "shared-key", "--writers", "7")["rows"][0]["makespan_s"] == 300
    options = ["--protocol", "optimistic", "--tables", "1", "--versions", "40", "--writers", "40"]
    row = planned(capsys, *options)["rows"][0]
    assert (row["versions"], row["failed"]) == (16, 24)
    row = planned(capsys, *options, "--attempts", "0")["rows"][0]
    assert (row["versions"], row["attempts"], row["failed"]) == (40, 820, 0)


def test_a_closed_loop_ends_and_waiting_writers_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Every writer has always another version: who never got the lock has waited all the time."""
    row = planned(capsys, "--order", "closed-loop", "--tables", "1", "--writers", "4", "--poll", "1s")["rows"][0]
    assert (row["versions"], row["waiting_s"] >= 2 * row["makespan_s"]) == (100, True)


def test_writers_that_are_never_served_are_told_and_not_recommended(capsys: pytest.CaptureFixture[str]) -> None:
    """Who released asks again before anybody polls. So of one table one writer is served, whatever their number."""
    options = ["--order", "closed-loop", "--tables", "1", "--poll", "1s"]
    plan = planned(capsys, *options, "--writers", "1,2,10")
    assert plan["best_writers"] == 1
    assert [row["never_served"] for row in plan["rows"]] == [0, 1, 9]
    assert (
        [row["missed_deadline"] for row in plan["rows"]] == [row["writers_late"] for row in plan["rows"]] == [0, 1, 9]
    )
    assert [row["drought_s"] >= 100 for row in plan["rows"]] == [False, True, True]
    assert "a version was not committed at the end" in plan["rows"][2]["late"][0]
    assert plan["rows"][2]["advice"] == "9 writers are never served."
    assert any(line.startswith("With 2 writers, 1 is never served") for line in plan["advice"])
    plan = planned(capsys, *options, "--writers", "2..3")
    assert plan["best_writers"] is None
    assert plan["advice"][0].startswith("No number of writers among these serves every writer.")
    patient = planned(capsys, *options, "--writers", "2", "--deadline", "1h")["rows"][0]
    assert (patient["never_served"], patient["missed_deadline"]) == (1, 0)


def test_a_random_winner_is_an_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten writers, ten versions: some get none. With an ideal queue each of them gets one."""
    options = ["--tables", "1", "--versions", "10", "--writers", "10"]
    never = [
        planned(capsys, "--order", "random-winner", *options, "--seed", f"{seed}")["rows"][0]["never_served"]
        for seed in range(30)
    ]
    assert 3 < sum(never) / len(never) < 4
    row = planned(capsys, "--order", "closed-loop", *options)["rows"][0]
    assert (row["never_served"], row["drought_s"]) == (0, 9)
    assert run(["delta", "plan", "--order", "random-winner", "--poll", "1s"]) == 2
    assert "leave --poll out" in capsys.readouterr().err


def test_writers_as_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers and ranges, each number once."""
    rows = planned(capsys, "--versions", "2", "--writers", "10,2,1..3")["rows"]
    assert [row["writers"] for row in rows] == [1, 2, 3, 10]


def test_commit_times_from_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The times under the lock of a recorded run take the place of --commit; each commit draws one of them."""
    assert run(["sim", "contention", "--provider", "hardened", "--seeds", "1..1"]) == 0
    capsys.readouterr()
    row = planned(capsys, "--from-run", "latest", "--tables", "1", "--versions", "50", "--writers", "1")["rows"][0]
    held_ns = hold_times_ns("latest")
    assert 50 * held_ns[0] <= row["makespan_s"] * 1e9 <= 50 * held_ns[-1]
    assert row["makespan_s"] != 50
    assert run(["delta", "plan", "--from-run", "nowhere"]) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--writers", "0"], "writers are from 1"),
        (["--writers", "0..5"], "writers are from 1"),
        (["--writers", "5..1"], "empty"),
        (["--writers", "x"], "no range of writers"),
        (["--writers", "2,"], "no range of writers"),
        (["--writers", "1..900,1001..1900"], "at most 1,000"),
        (["--commit", "1"], "--commit"),
        (["--commit", "0s"], "--commit"),
        (["--deadline", "-1s"], "--deadline"),
        (["--order", "unfare"], "Did you mean 'unfair'?"),
        (["--tables", "0"], "--tables"),
        (["--tables", "1000", "--versions", "100000"], "at most 1,000,000"),
        (["--coalesce", "0"], "--coalesce"),
        (["--protocol", "hope"], "--protocol"),
        (["--commit", "1s", "--from-run", "x"], "leave --commit out"),
    ],
)
def test_bad_options_exit_2(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong is named, and nothing is simulated."""
    assert run(["delta", "plan", *options]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"1n 2n\n1a 1! 1c\n", ":2:4: '1!' names no table"),
        (b"# nothing\n\n", ":1: the order holds no version"),
        (b"", ":1: the order holds no version"),
        (b"1n\n1a \xff\n", ":2: the order is not UTF-8 text"),
        (b"12 1n\n", ":1:1: '12' names no table"),
    ],
)
def test_a_bad_file_is_named_with_its_line(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File, line and column."""
    path = tmp_path / "order"
    path.write_bytes(content)
    assert run(["delta", "plan", "--order", str(path)]) == 2
    assert f"{path}{said}" in capsys.readouterr().err


def test_a_folder_is_no_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be read is named with the reason."""
    assert run(["delta", "plan", "--order", str(tmp_path)]) == 2
    assert "the order cannot be read" in capsys.readouterr().err


def test_ranks_are_values_that_occurred() -> None:
    """The nearest rank of none, one and a hundred values."""
    assert [nearest_rank([], 50), nearest_rank([7], 99), nearest_rank(range(1, 101), 99), nearest_rank([1, 2], 50)] == [
        0,
        7,
        99,
        1,
    ]


def test_figures_tell_each_picture_that_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They take some seconds, so a reader sees how many are done and what is left."""
    monkeypatch.setattr("lockref.cli.jobs.shown.progress.COUNTED_NS", 0)
    monkeypatch.setattr("lockref.cli.jobs.shown.console.Console.progress", lambda _console, text: told.append(text))
    told: list[str] = []
    assert run(["delta", "figures", "--out", str(tmp_path)]) == 0
    assert [text.partition(",")[0] for text in told] == [f"pictures: {done} of 5" for done in range(1, 6)]
    assert told[-1].endswith("about to end")
