"""A campaign whose chunks stand in a bucket: committed, resumed and told as in a folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from lockref.cli.jobs.campaign import claiming
from lockref.cli.main import run
from scenarios.backends import RunningBackend
from scenarios.campaigns.places import place_of

LINE = ["campaign", "e08", "--provider", "hudi", "--seeds", "1..60", "--jobs", "1", "--shrink-for", "0s", "--json"]


@pytest.fixture
def bucket(ministack: RunningBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a bucket of the server that the environment names, and a folder of its own."""
    monkeypatch.chdir(tmp_path)
    address = urlsplit(ministack.uri)
    for name, value in (
        ("AWS_ENDPOINT_URL", parse_qs(address.query)["endpoint"][0]),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ):
        monkeypatch.setenv(name, value)
    return address.netloc


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_a_bucket_is_a_place_like_a_folder(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Same digest and files; a chunk that is gone runs again; the account lies beside the chunks.

    Nothing is forked here, where the lease has a thread.
    """
    assert run([*LINE, "--out", "folder"]) == 1
    expected = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a fork of the process that holds the lease"))
    out = f"s3a://{bucket}/campaigns/one"
    assert run([*LINE, "--out", out]) == 1
    assert json.loads(capsys.readouterr().out)["digest"] == expected["digest"]
    place = place_of(out)
    assert place.names("chunks") == ["chunk-000000.json", "chunk-000001.json"]
    assert place.read("results.json") is not None
    for name in ("runs.parquet/chunk=000000/part.parquet", "chunks/chunk-000001.json"):
        here, there = (tmp_path / "folder" / name).read_bytes(), place.read(name)
        assert there is not None
        assert len(here) == pytest.approx(len(there), rel=0.01)
    place.remove("chunks/chunk-000000.json")
    assert run([*LINE, "--out", out]) == 2
    assert "add --resume" in capsys.readouterr().err
    assert run([*LINE, "--out", out, "--resume"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["digest"] == expected["digest"]
    assert any("resumed: 10 seeds" in notice for notice in told["notices"])


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_a_second_command_on_one_bucket_address_is_refused(
    bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While the first one renews its lease there. The lease of one that is dead ends by itself."""
    monkeypatch.setattr(claiming, "VALIDITY_S", 10)
    out = f"s3a://{bucket}/campaigns/two"
    with claiming.claimed(place_of(out), pytest.fail):
        assert run([*LINE, "--out", out]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{out}: another command has its lease" in said
    assert f"{out}: another command runs this campaign" in said
    assert place_of(out).names("chunks") == []
    assert run([*LINE, "--out", out]) == 1
