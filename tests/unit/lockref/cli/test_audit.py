"""`lockref audit`: the files of Hudi's lock audit, from any of the folders that a user may name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockref.cli.main import run
from lockref.storage.audit import AuditRecord, AuditState

SECOND = 1000


def tenure(folder: Path, owner: str, *records: tuple[str, int]) -> str:
    """Write one file, with a lease of 10 s from each record on; its name."""
    began_ms = records[0][1]
    lines = [
        AuditRecord(
            began_ms=began_ms, is_held=True, state=AuditState(state), expires_ms=at + 10_000, owner=owner, at_ms=at
        ).to_line()
        for state, at in records
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{began_ms}_{owner}.jsonl").write_text("".join(lines))
    return f"{began_ms}_{owner}.jsonl"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    audit = tmp_path / "table" / ".hoodie" / ".locks" / "audit"
    tenure(audit, "a", ("START", 1 * SECOND), ("RENEW", 3 * SECOND), ("END", 5 * SECOND))
    tenure(audit, "b", ("START", 6 * SECOND), ("END", 8 * SECOND))
    return tmp_path / "table"


@pytest.mark.parametrize("below", ["", ".hoodie/.locks", ".hoodie/.locks/audit"])
def test_tenures_one_after_the_other_are_no_finding(table, below, capsys):
    assert run(["audit", str(table / below), "--json"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["result"], told["tenures"], told["owners"], told["unfinished"]) == ("PASSED", 2, 2, [])
    assert told["folder"] == str(table / ".hoodie/.locks/audit")
    assert "2 tenures of 2 owners, 0 without an end, 0 findings" in err


def test_an_overlap_breaks_and_an_unfinished_tenure_is_told(table, capsys):
    """Hudi's own validator is told beside ours."""
    taken = tenure(table / ".hoodie/.locks/audit", "c", ("START", 7 * SECOND))
    assert run(["audit", str(table), "--json"]) == 1
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["result"], told["unfinished"]) == ("FAILED", [taken])
    assert "began 1000 ms before the end, more than clocks explain" in told["findings"][0]
    assert told["hudi"]["result"] == "FAILED"
    assert "[ERROR] 6000_b.jsonl => 7000_c.jsonl" in err


def test_what_clocks_explain_is_a_warning(table, capsys):
    tenure(table / ".hoodie/.locks/audit", "c", ("START", 7 * SECOND), ("END", 9 * SECOND))
    assert run(["audit", str(table), "--drift", "2s"]) == 0
    assert "WARNING" in capsys.readouterr().out


def test_a_take_over_before_the_holder_had_to_stop_breaks(table, capsys):
    """b wrote no END; its lease was good until 16 s, and a holder that stops 8 s earlier had stopped."""
    audit = table / ".hoodie/.locks/audit"
    tenure(audit, "b", ("START", 6 * SECOND))
    tenure(audit, "c", ("START", 9 * SECOND), ("END", 12 * SECOND))
    assert run(["audit", str(table)]) == 1
    assert "took the lock 7000 ms before its holder had to stop" in capsys.readouterr().out
    assert run(["audit", str(table), "--margin", "8s"]) == 0


def test_a_file_that_is_no_audit_file_is_bad_input(table, capsys):
    """It breaks no lock; what the other files show of one counts more."""
    (table / ".hoodie/.locks/audit/9_x.jsonl").write_text("{}\n")
    assert run(["audit", str(table)]) == 2
    out = capsys.readouterr().out
    assert out.startswith("ERROR")
    assert "9_x.jsonl => is no audit file" in out
    tenure(table / ".hoodie/.locks/audit", "c", ("START", 7 * SECOND))
    assert run(["audit", str(table)]) == 1


def test_a_stray_file_in_the_table_does_not_hide_its_audit(table, capsys):
    """A table that is named is searched where its audit stands first; a file may have the name of a folder."""
    (table / "notes.jsonl").write_text("{}\n")
    (table / "audit").write_text("no folder")
    assert run(["audit", str(table), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["folder"] == str(table / ".hoodie/.locks/audit")
    assert run(["audit", str(table / "notes.jsonl")]) == 2
    assert "this is no folder" in capsys.readouterr().err


def test_without_a_file_nothing_is_judged(tmp_path, capsys):
    """An audit that nobody switched on is no proof."""
    assert run(["audit", str(tmp_path)]) == 3
    assert "audit_enabled.json" in capsys.readouterr().out
    assert run(["audit", str(tmp_path), "--allow-exit", "3"]) == 0
    assert run(["audit", str(tmp_path / "absent")]) == 2
    assert run(["audit", "gs://bucket/table"]) == 2
    assert "expected a folder, or s3a://bucket/prefix" in capsys.readouterr().err
