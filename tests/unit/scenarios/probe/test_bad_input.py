"""What a store answers that cannot be probed: one line, the exit code, nothing of a secret, nothing called safe."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lockref.cli.main import run
from tests.conditional_server import Asked, Bucket, Told, serving
from tests.lying_servers import NoReads, ObjectLock, Refusing

HTML = Told(200, headers={"Content-Type": "text/html"}, body=b"<html>welcome</html>")
SHORT = ["--for", "1s", "--rounds", "4"]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "probe-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "probe-secret")


@pytest.mark.parametrize(
    ("server", "line"),
    [
        (lambda: Refusing(told=Told(403, error="InvalidAccessKeyId")), "403 InvalidAccessKeyId"),
        (lambda: Refusing(told=Told(403, error="SignatureDoesNotMatch")), "403 SignatureDoesNotMatch"),
        (lambda: Refusing(told=Told(400, error="ExpiredToken")), "400 ExpiredToken"),
        (lambda: Refusing(told=Told(404, error="NoSuchBucket")), "404 NoSuchBucket"),
        (lambda: Refusing(told=Told(403, error="AccessDenied")), "403 AccessDenied"),
        (lambda: Refusing(told=Told(403, error="RequestTimeTooSkewed")), "403 RequestTimeTooSkewed"),
        (lambda: Refusing(told=Told(301, error="PermanentRedirect")), "301 PermanentRedirect"),
        (lambda: Refusing(told=HTML), "does S3 answer there?"),
        (lambda: Refusing(told=Told(200, headers={"ETag": '"x"'})), "and a read shows"),
        pytest.param(
            lambda: Refusing(told=Told(500, body=b"x" * 100, drip_s=0.1)),
            "TimeoutError: no answer",
            marks=pytest.mark.long,
        ),
        (NoReads, "a first read was answered 403 AccessDenied"),
    ],
    ids=[
        "wrong key", "wrong secret", "expired", "no bucket", "no rights or requester pays", "clock too far off",
        "another region", "a web page", "says yes to all", "drips", "reads forbidden",
    ],
)  # fmt: skip
def test_a_store_that_cannot_be_used_is_told_in_one_line(
    server: Callable[[], Bucket], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 5 with the status and the store's word for it; with a requirement 3, and no clause has a verdict."""
    with serving(server()) as uri:
        assert run(["probe", uri, *SHORT]) == 5
        err = capsys.readouterr().err
        assert run(["probe", uri, *SHORT, "--require", "cas", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert line in err
    assert "probe-secret" not in err
    assert len([each for each in err.splitlines() if "cannot be used" in each]) == 1
    assert {clause["verdict"] for clause in document["clauses"].values()} == {"not_answered"}


@pytest.fixture
def mute() -> Iterator[str]:
    """A port that takes connections, and answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        yield f"s3://bucket/p?endpoint=http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.long
def test_a_mute_endpoint_is_told_in_one_line(mute: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 5 after the time of one request, not after that of them all."""
    assert run(["probe", mute, *SHORT]) == 5
    assert "no answer; the request may have taken effect" in capsys.readouterr().err


@pytest.mark.long
def test_object_lock_leaves_objects_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Bodies come with their sum, as such a bucket demands. What is locked stays, and is told with its prefix."""
    bucket = ObjectLock()
    with serving(bucket) as uri:
        assert run(["probe", uri, "--for", "100s", "--rounds", "4", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["clauses"]["C1"]["verdict"] == "conforming"
    assert document["clauses"]["C8"]["verdict"] == "unsupported"
    assert "unsafe" not in {clause["verdict"] for clause in document["clauses"].values()}
    assert document["residue"]["left"]
    assert document["residue"]["reason"].startswith("delete: 403 AccessDenied")


class DyingTheFirstTime(Bucket):
    """The reads fail after so many requests: credentials that run out in the middle of a probe."""

    left = 120

    def intercept(self, asked: Asked) -> Told | None:
        self.left -= 1
        return None if self.left > 0 else Told(400, error="ExpiredToken")


def test_credentials_that_run_out_keep_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """What was answered before stays; the rest is not answered, never unsafe; what could not be removed is told."""
    with serving(DyingTheFirstTime()) as uri:
        assert run(["probe", uri, "--for", "100s", "--rounds", "4", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    seen = {clause: found["verdict"] for clause, found in document["clauses"].items()}
    assert seen["C1"] == "conforming"
    assert "not_answered" in seen.values()
    assert "unsafe" not in seen.values(), {name: found["unsafe"] for name, found in document["clauses"].items()}
    assert "ExpiredToken" in document["residue"]["reason"]


def test_a_port_without_a_server_is_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """No server answered anything, and what to look at is said."""
    assert run(["probe", "s3://bucket?endpoint=http://127.0.0.1:1", *SHORT]) == 5
    err = capsys.readouterr().err
    assert "got no answer (ConnectionRefusedError" in err
    assert "is the server running, and is its address right?" in err
