"""The full probe on small servers that are right, wrong in one way, away, or dying; and its command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lockref.cli.main import run
from lockref.clouds.uri import open_store
from lockref.runtime import NS_PER_S
from lockref.stores.localfs import FileStore
from lockref.stores.probe.fingerprint import Fingerprint
from reports.formats.fingerprint import residue_lines
from scenarios.probe.fingerprint import fingerprint_of
from scenarios.probe.opening import addresses_of
from scenarios.probe.run import probe
from scenarios.probe.steps import most_requests
from tests.certificate import made_certificate
from tests.conditional_server import Asked, Bucket, Told, serving

LONG = "100s"
"""More than a probe of few rounds takes on a busy machine: rounds end it, not the time."""
FEW = ["--rounds", "4", "--for", LONG]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "probe-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "probe-secret")


def probed(uri: str, *only: str) -> dict[str, Any]:
    """The fingerprint of a store, of those clauses alone."""
    return fingerprint_of(probe(addresses_of(uri), for_ns=100 * NS_PER_S, rounds=4, only=only)).document()


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {clause: found["verdict"] for clause, found in document["clauses"].items()}


def test_a_store_in_memory_conforms(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0; every clause has a verdict, designs are judged, races are bounded and not proven."""
    assert run(["probe", "memory:", "--json", *FEW]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "conforming"
    assert {design["verdict"] for design in told["designs"].values()} == {"can carry"}
    assert told["clauses"]["C2"]["rate"]["faulty"] == 0
    assert (told["clauses"]["C2"]["rate"]["rounds"], told["clauses"]["C2"]["rate"]["high"]) == (4, 0.75)
    assert told["residue"]["left"] == []
    assert told["requests"] <= sum(most_requests(1).values()) + told["residue"]["requests"]


def test_a_folder_is_raced_by_processes_and_left_empty(tmp_path: Path) -> None:
    """C16: what several processes share is raced by several processes; nothing stays behind."""
    told = probed(f"file://{tmp_path}/store", "C1", "C16")
    assert told["clauses"]["C16"]["verdict"] == "conforming"
    assert told["clauses"]["C16"]["facts"]["processes"] == 2
    assert told["clauses"]["C16"]["rate"]["rounds"] > 0
    assert not list((tmp_path / "store").rglob("*=object"))


def test_what_a_killed_probe_left_in_a_folder_is_named_by_the_next_one_and_stays(tmp_path: Path) -> None:
    """A folder has no listing in the words of a store, so nothing of a killed probe was ever named there."""
    store = open_store(f"file://{tmp_path}/store", request_timeout_ns=NS_PER_S)
    killed = "lockref-probe-20260131T120000Z-0123456789ab"
    for key in (f"{killed}/a", f"{killed}/b", "state/table"):
        store.put(key, b"x")
    told = probed(f"file://{tmp_path}/store", "C1")
    (earlier,) = told["residue"]["earlier"]
    assert (earlier["prefix"], earlier["objects"], told["residue"]["left"]) == (killed, 2, [])
    assert isinstance(store, FileStore)
    assert store.keys("") == [f"{killed}/a", f"{killed}/b", "state/table"], "its own objects are gone, no others"


def test_a_right_server_and_its_witnesses() -> None:
    """Raw statuses and codes are told; of credentials and signatures, nothing is. Every object is gone."""
    bucket = Bucket()
    with serving(bucket) as uri:
        told = probed(uri)
    seen = verdicts(told)
    core = ("C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C16", "C18", "C19", "C20", "C21", "C23")
    # It does not know `If-Match: *` on a delete, which is a deviation.
    assert {clause: seen[clause] for clause in core} == dict.fromkeys(core, "conforming") | {"C8": "usable"}
    witness = told["clauses"]["C5"]["witness"][0]
    assert (witness["status"], witness["code"], witness["request"]) == (404, "NoSuchKey", "put")
    assert told["clauses"]["C7"]["facts"]["versions_repeat"] is True
    assert told["clauses"]["C18"]["facts"]["how"].startswith("the fault proxy")
    text = json.dumps(told)
    assert "probe-secret" not in text
    assert "probe-id" not in text
    assert "Signature" not in text
    assert bucket.objects == {}


@pytest.mark.parametrize(
    ("flaw", "only", "broken"),
    [
        ("stale create", "", {"C1", "C2", "C18"}),
        ("stale replacement", "", {"C3", "C4", "C19", "C20", "C23"}),
        ("ghost", "", {"C5", "C6"}),
        ("stale delete", "", {"C8"}),
        ("two creates", "race", {"C2"}),
        ("two replacements", "race", {"C3"}),
        ("delete against replacement", "race-mixed", {"C9"}),
        ("old reads", "read-", {"C21"}),
    ],
)
def test_a_server_with_one_flaw_is_found_out(flaw: str, only: str, broken: set[str]) -> None:
    """U13: each flaw breaks its own clauses, makes the store unsafe, and is shown by requests."""
    with serving(Bucket(flaw=flaw, only=only)) as uri:
        told = probed(uri, *broken)
    seen = verdicts(told)
    assert {clause for clause in broken if seen[clause] == "unsafe"} == broken, told["clauses"]
    assert told["verdict"] == "unsafe"
    assert all(told["clauses"][clause]["witness"] for clause in broken)


@pytest.mark.long
def test_an_honest_refusal_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    """501 to a conditional delete: unsupported, the store is usable, and locks that need it cannot be carried."""
    with serving(Bucket(flaw="no conditional delete")) as uri:
        assert run(["probe", uri, "--json", *FEW]) == 0
        told = json.loads(capsys.readouterr().out)
        assert run(["probe", uri, "--require", "delete", *FEW]) == 1
    assert (told["verdict"], told["clauses"]["C8"]["verdict"]) == ("usable", "unsupported")
    assert told["designs"]["delete"]["verdict"] == "cannot carry"
    assert told["designs"]["cas"]["verdict"] == "can carry"


def test_an_outage_is_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 5 with one line; 3 where something is required; the document calls nothing safe or unsafe."""
    uri = "s3://bucket/p?endpoint=http://127.0.0.1:9"
    assert run(["probe", uri, "--output", "store.json"]) == 5
    assert "no connection; nothing was sent" in capsys.readouterr().err
    assert not Path("store.json").exists()
    assert run(["probe", uri, "--json", "--require", "cas"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert set(verdicts(told).values()) == {"not_answered"}
    assert {design["verdict"] for design in told["designs"].values()} == {"not answered"}
    assert told["residue"]["left"] == []


def test_a_store_behind_tls_is_asked_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign certificate is refused before anything is sent. Behind a trusted one the client loses the reply."""
    path, context = made_certificate(tmp_path)
    bucket = Bucket()
    with serving(bucket, context=context) as uri:
        refused = probed(uri, "C1")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(path))
        told = probed(uri, "C1", "C2", "C3", "C18", "C19")
    assert "SSLCertVerificationError: no connection; nothing was sent" in refused["ended"]
    assert {told["clauses"][clause]["verdict"] for clause in ("C1", "C2", "C3", "C18", "C19")} == {"conforming"}
    assert told["clauses"]["C18"]["facts"]["how"].startswith("the client hung up")
    assert bucket.objects == {}


def test_two_endpoints_of_two_stores_are_found_out() -> None:
    """C16, C21, M18: what one endpoint confirmed, the other one does not know, so both let a create win."""
    one, other = Bucket(), Bucket()
    with serving(one) as first, serving(other) as second:
        endpoint = second.partition("endpoint=")[2]
        done = probe(addresses_of(first, [endpoint]), for_ns=100 * NS_PER_S, rounds=4, only=("C1", "C16", "C21"))
    told = fingerprint_of(done).document()
    assert told["clauses"]["C1"]["verdict"] == "conforming"
    assert told["clauses"]["C16"]["verdict"] == "unsafe"
    assert told["clauses"]["C21"]["verdict"] == "unsafe"


class Dying(Bucket):
    """A server that answers nothing more after so many writes."""

    writes_left = 60

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        self.writes_left -= 1
        if self.writes_left < 0:
            raise ConnectionError("the server has died")
        return super().put(key, body, if_match=if_match, if_none_match=if_none_match)


def test_a_server_that_dies_leaves_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 5; clauses that were answered keep their verdicts, the others say that they were not seen."""
    with serving(Dying()) as uri:
        assert run(["probe", uri, "--json", *FEW, "--output", "store.json"]) == 5
    told = json.loads(capsys.readouterr().out)
    seen = verdicts(told)
    assert (seen["C1"], seen["C4"]) == ("conforming", "conforming")
    assert "not_answered" in (seen["C2"], seen["C16"])
    assert told["verdict"] == "not_answered"
    assert "any more" in told["ended"]
    assert json.loads(Path("store.json").read_text())["clauses"]["C1"]["verdict"] == "conforming"


@pytest.mark.skipif(os.name != "posix", reason="SIGINT is sent as POSIX has it")
def test_ctrl_c_keeps_the_answers_and_removes_the_objects() -> None:
    """Exit 130, one document with what was measured, and an empty bucket."""
    bucket = Bucket()
    with serving(bucket) as uri:
        command = [sys.executable, "-m", "lockref", "probe", uri, "--json", "--for", LONG]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while not any("race-" in path for _, path, _ in list(bucket.requests)):
                assert process.poll() is None, process.communicate()
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    told = json.loads(out)
    assert told["ended"] == "interrupted"
    assert told["clauses"]["C1"]["verdict"] == "conforming"
    assert told["clauses"]["C22"]["verdict"] == "not_answered"
    assert bucket.objects == {}


class Listing(Bucket):
    """It lists its objects. It serves a few requests, and then none until it is set free."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 6
        self.is_full = threading.Event()
        self.is_free = threading.Event()

    def intercept(self, asked: Asked) -> Told | None:
        self.left -= 1
        if self.left <= 0:
            self.is_full.set()
            self.is_free.wait(60)
        if "list-type" not in asked.query:
            return None
        keys = [path.removeprefix("/bucket/") for path in self.objects]
        entries = [f"<Contents><Key>{key}</Key><ETag>e</ETag></Contents>" for key in keys]
        start = asked.query["prefix"]
        found = "".join(entry for key, entry in zip(keys, entries, strict=True) if key.startswith(start))
        return Told(200, body=f"<ListBucketResult>{found}</ListBucketResult>".encode())


@pytest.mark.long
def test_what_a_killed_probe_left_is_named_by_the_next_one_and_stays() -> None:
    """With its age, which its prefix tells. Nothing proves that it has ended, so nothing of it is removed."""
    bucket = Listing()
    with serving(bucket) as uri:
        command = [sys.executable, "-m", "lockref", "probe", uri, *FEW]
        killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert bucket.is_full.wait(60)
        finally:
            killed.kill()
            killed.wait()
            bucket.is_free.set()
        document = probed(uri, "C23")
    (earlier,) = document["residue"]["earlier"]
    left = {path for path in bucket.objects if f"/{earlier['prefix']}/" in path}
    assert left
    assert set(bucket.objects) == left, "its own objects are gone"
    assert 0 <= earlier["age_ns"] < 600 * NS_PER_S
    (line,) = residue_lines(Fingerprint.model_validate(document))
    assert earlier["prefix"] in line
    assert "ago" in line


class Undeletable(Bucket):
    """No right to delete."""

    def delete(self, key: str, *, if_match: str) -> int:
        return 403


def test_what_cannot_be_removed_is_told_with_its_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    """Without the right to delete: the prefix and the reason, and no verdict on deletes."""
    bucket = Undeletable()
    with serving(bucket) as uri:
        run(["probe", uri, "--json", *FEW])
    told = json.loads(capsys.readouterr().out)
    assert told["residue"]["left"]
    assert told["residue"]["reason"].startswith("delete: 403")
    assert told["clauses"]["C8"]["verdict"] == "unsupported"
    assert told["clauses"]["C5"]["verdict"] == "conforming", "what needs no delete is asked"
    assert told["clauses"]["C6"]["verdict"] == "not_answered"
    assert all(told["residue"]["prefix"] in path for path in bucket.objects)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ftp://bucket"], "scheme 'ftp' is not known"),
        (["s3://user:word@bucket"], "holds credentials"),
        (["nosuch"], "one of ministack, moto"),
        (["ministak"], "Did you mean 'ministack'?"),
        (["memory:", "--endpoint", "http://127.0.0.1:1"], "has no endpoints"),
        (["s3://bucket", "--endpoint", "127.0.0.1:1"], "is not of the form"),
        (["memory:", "--for", "0s"], "expected a duration"),
        (["memory:", "--require", "safety"], "neither a design of lock nor a clause"),
        (["memory:", "memory:x", "--output", "x.json"], "about one store"),
        (["memory:", "memory:x", "--stop-node", "true", "--start-node", "true"], "about one store"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 and one line, before anything is sent."""
    assert run(["probe", *arguments]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert "word" not in err


def test_a_dry_run_sends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """The number of requests is told beforehand, at an address where nothing listens."""
    assert run(["probe", "s3://bucket?endpoint=http://127.0.0.1:9", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told["requests_max"].values()) == [sum(most_requests(1).values())]


def test_all_forms_of_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """Terminal, Markdown, page and file say the same; the page asks for nothing outside."""
    files = ["--output", "store.json", "--markdown", "store.md", "--page", "store.html"]
    assert run(["probe", "memory:", *FEW, *files]) == 0
    printed = capsys.readouterr().out
    assert "✓ conforming" in printed
    assert "– unsupported, ? not answered" in printed, "each sign is told"
    assert "requests, too few for p" in printed
    assert json.loads(Path("store.json").read_text())["verdict"] == "conforming"
    assert "| C1 | a create of an object that exists | ✓ conforming |" in Path("store.md").read_text()
    page = Path("store.html").read_text()
    assert "can carry" in page
    assert "http://" not in page
    assert "<script" not in page
