"""Which store a run may begin on: a fingerprint vouches for it, or it is measured; an unsafe one is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockref.cli.main import run
from lockref.clouds.admission import Admission
from lockref.errors import CapabilityMissing, ConfigError
from tests.conditional_server import Bucket, serving
from tests.unit.scenarios.probe.test_findings import all_kept, document, found

STORE = "s3://bucket/elsewhere?endpoint=http://127.0.0.1:9000"
"""The store of `document`; nothing listens there."""


def kept(folder: Path, **broken: dict[str, Any]) -> Path:
    """A fingerprint in a file."""
    seen = all_kept() | {clause: found(clause, **kinds) for clause, kinds in broken.items()}
    path = folder / "store.json"
    path.write_text(json.dumps(document(seen)))
    return path


def test_a_fingerprint_stands_in_for_the_measurement(tmp_path: Path) -> None:
    """Nothing is sent to the store, and its date is told."""
    measured, notices = Admission.by(kept(tmp_path)).measure(STORE)
    assert measured is None
    assert "says that it can carry a lock by compare-and-swap" in notices[0]
    assert "1970-01-01T00:00:00Z" in notices[0]


@pytest.mark.parametrize("broken", [{"C3": {"unsafe": ["two winners"]}}, {"C3": {}}])
def test_a_store_that_cannot_carry_the_lock_is_refused_unless_told(tmp_path: Path, broken: dict[str, Any]) -> None:
    """Unsafe, or never answered: refused with the next step; `--unsafe-store` uses it and says so."""
    path = kept(tmp_path, **broken)
    with pytest.raises(CapabilityMissing, match="--unsafe-store"):
        Admission.by(path).measure(STORE)
    _, notices = Admission.by(path, allows_unsafe=True).measure(STORE)
    assert "is used although" in notices[0]


def test_the_fingerprint_of_another_store_vouches_for_nobody(tmp_path: Path) -> None:
    """Another endpoint is another store."""
    with pytest.raises(ConfigError, match="probe that store"):
        Admission.by(kept(tmp_path)).measure("s3://bucket?endpoint=http://127.0.0.1:9001")


def test_an_unsafe_store_is_used_when_told(tmp_path: Path) -> None:
    """Measured, found unsafe, and let in: what it ignores is among what was measured."""
    with serving(Bucket(flaw="stale delete")) as uri:
        with pytest.raises(CapabilityMissing, match="No lock is safe on it"):
            Admission.by(None).measure(uri)
        measured, _ = Admission.by(None, allows_unsafe=True).measure(uri)
    assert measured is not None
    assert [finding.condition.clause for finding in measured.ignored] == ["C8"]


def test_bench_takes_one_fingerprint_for_one_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two stores, or a file that is none: exit 2 before anything starts."""
    path = str(kept(tmp_path))
    assert run(["bench", "--backend", "memory:", "--backend", "memory:x", "--fingerprint", path]) == 2
    assert "one store" in capsys.readouterr().err
    (tmp_path / "other.json").write_text("{}")
    assert run(["bench", "--backend", "memory:", "--fingerprint", str(tmp_path / "other.json")]) == 2
    assert "is no fingerprint" in capsys.readouterr().err
