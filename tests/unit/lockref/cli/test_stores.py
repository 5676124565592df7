"""What the command line tells of a store: measured before a run, refused if it ignores conditions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockref.cli.main import run
from lockref.stores.probe import selftest
from tests.conditional_server import Bucket, serving


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(selftest, "ROUNDS_THOROUGH", 3)


def test_doctor_measures_a_store(capsys: pytest.CaptureFixture[str]) -> None:
    """H23: every condition with what became of it, for people and as JSON."""
    with serving(Bucket()) as uri:
        assert run(["doctor", "--store", uri]) == 0
        told = capsys.readouterr().out
        assert run(["doctor", "--store", uri, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
    for clause in ("C1", "C2", "C3", "C4", "C5", "C8", "C9", "C21"):
        assert f"✓ {clause} " in told
    measured = document["store"]["measured"]
    assert document["store"]["is_fit"] is True
    assert (measured["create_race"]["status"], measured["create_race"]["racers"]) == ("kept", 16)
    assert measured["conditional_delete"] == "supported"
    assert measured["request_p50_ns"] > 0


def test_doctor_warns_of_a_store_that_ignores_a_condition(capsys: pytest.CaptureFixture[str]) -> None:
    """U13: exit 5, the clause, what was seen, and what a lock would do there."""
    with serving(Bucket(flaw="two creates", only="-race-")) as uri:
        assert run(["doctor", "--store", uri]) == 5
        told = capsys.readouterr().out
        assert run(["doctor", "--store", uri, "--json"]) == 5
        document = json.loads(capsys.readouterr().out)
    assert "✗ C2 " in told
    assert "let 2 of 16 simultaneous creates of one object succeed" in told
    assert "do not use this store for locks" in told
    assert (document["ok"], document["store"]["is_fit"]) == (False, False)
    assert document["store"]["measured"]["create_race"]["status"] == "ignored"


@pytest.mark.parametrize(
    ("flaw", "only", "clause"), [("two creates", "-race-", "C2"), ("stale delete", "", "C8"), ("ghost", "", "C5")]
)
def test_no_run_begins_on_a_store_that_ignores_a_condition(
    capsys: pytest.CaptureFixture[str], flaw: str, only: str, clause: str
) -> None:
    """H23: `bench` asks before the first lock, in races too."""
    bucket = Bucket(flaw=flaw, only=only)
    with serving(bucket) as uri:
        assert run(["bench", "contention", "--backend", uri, "--for", "1s", "--contenders", "2"]) == 5
    told = capsys.readouterr().err
    assert f"({clause})" in told
    assert "No lock is safe on it" in told
    assert not [path for _, path, _ in bucket.requests if "table_lock" in path]


def test_a_run_tells_what_was_measured_of_its_store(capsys: pytest.CaptureFixture[str]) -> None:
    """`capabilities` in results.json are what the store did, not what its dialect promises."""
    with serving(Bucket(flaw="no conditional delete")) as uri:
        arguments = ["bench", "contention", "--backend", uri, "--for", "1s", "--contenders", "2"]
        assert run([*arguments, "--allow-exit", "3,4"]) == 0
    (results,) = Path(".lockref/runs").glob("2*/results.json")
    capabilities = json.loads(results.read_text())["capabilities"]
    assert capabilities["dialect"] == "s3"
    assert capabilities["measured"]["replace_race"]["status"] == "kept"
    assert capabilities["measured"]["conditional_delete"] == "refused"
    assert "promised_by_dialect" not in capabilities


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--backend", "ministack", "--backend", "s3://a_b..c"], "two dots"),
        (["--backend", "ministack", "--backend", "s3://192.168.0.1"], "IP address"),
        (["--backend", "ministack", "--backend", "ministak"], "ministack"),
        (["--backend", "ministack", "--contenders", "3", "--processes", "4"], "4 processes for 3 clients"),
        (["--backend", "ministack", "--contenders", "0"], "0"),
        (["--backend", "ministack", "--contenders", "9999"], "9999"),
    ],
)
def test_the_impossible_is_refused_before_a_server_is_started(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 with what is wrong, and nothing was started for it."""

    def start(*_: object, **__: object) -> None:
        raise AssertionError("a server was started")

    monkeypatch.setattr("scenarios.backends.hosts.start_backend", start)
    assert run(["bench", "contention", "--for", "1s", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_dummy_credentials_are_told_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`doctor` and the notices of a run say that nothing was configured."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with serving(Bucket()) as uri:
        assert run(["doctor", "--store", uri]) == 0
        assert capsys.readouterr().out.count("dummy ones are sent") == 1
        run(["bench", "contention", "--backend", uri, "--for", "1s", "--contenders", "2"])
        assert capsys.readouterr().out.count("dummy ones are sent") == 1
