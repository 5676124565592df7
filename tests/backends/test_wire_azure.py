"""A program that speaks to Azure, on the wire of Azurite."""

from __future__ import annotations

import json
import sys

import pyarrow.parquet as pq
import pytest

from lockref.cli.main import run as lockref

pytestmark = [pytest.mark.realbackend, pytest.mark.xdist_group("azurite")]

PROGRAM = """
import json, os, sys, time
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.blob import BlobServiceClient

service = BlobServiceClient.from_connection_string(os.environ["AZURE_STORAGE_CONNECTION_STRING"])
container = service.get_container_client(os.environ["LOCKREF_BUCKET"])
lock, me = container.get_blob_client("wire/lock.json"), os.environ["LOCKREF_CLIENT"]
for turn in range(3):
    while True:
        try:
            made = lock.upload_blob(json.dumps({"id": me, "until": time.time() + 60}).encode(), overwrite=False)["etag"]
            break
        except ResourceExistsError:
            time.sleep(0.02)
    container.upload_blob("state/x", f"{me} {turn}".encode(), overwrite=True)
    if sys.argv[1] == "late":
        lock.delete_blob()
        container.upload_blob("state/x", b"late", overwrite=True)
    else:
        lock.download_blob().readall()
        lock.delete_blob(etag=made, match_condition=MatchConditions.IfNotModified)
"""


@pytest.mark.parametrize(("how", "code", "broken"), [("rightly", 0, set()), ("late", 1, {"S4"})])
def test_a_lock_on_blobs_is_judged_from_the_wire(azurite, tmp_path, monkeypatch, capfd, how, code, broken):
    """The connection string leads the client to its endpoint; who writes after unlocking is accused (S4)."""
    monkeypatch.chdir(tmp_path)
    judged_as = ("--decoder", "json:owner=$.id,until_s=$.until", "--protects", "state/*")
    asked = ("--backend", azurite.bucket_uri, "--clients", "2", "--for", "60s", "--json", *judged_as)
    found = lockref(["-q", "wire", *asked, "--", sys.executable, "-c", PROGRAM, how])
    told = json.loads(capfd.readouterr().out)
    assert found == code, told["reasons"]
    rows = pq.read_table(".lockref/runs/latest/events.parquet").to_pylist()
    assert [(row["kind"], row["op"], row["outcome"]) for row in rows].count(("replied", "acquire", "applied")) == 6
    assert {name for name, clause in told["clauses"].items() if clause["verdict"] == "violated"} == broken
