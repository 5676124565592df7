"""Temporary folders: gone at the end, swept after a kill, and never another's."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockref import host_processes, temporary_folders
from lockref.cli.main import run
from lockref.temporary_folders import OWNER_FILE, UNSEEN_MIN_NS, owned_folder, sweep

KILLED = """
from pathlib import Path
from lockref.temporary_folders import owned_folder
with owned_folder("killed") as folder:
    (folder / "tls").mkdir()
    (folder / "tls" / "key.pem").write_text("secret")
    print(folder, flush=True)
    input()
"""

needs_marks = pytest.mark.skipif(not host_processes.own_mark(), reason="this platform does not name its processes")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for temporary files, for this process and for those that it starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def other(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process in the block of a folder of its own, and that folder."""
    process = subprocess.Popen([sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def left_by(owner: str, place: Path, name: str = "lockref-wire-abc") -> Path:
    folder = place / name
    folder.mkdir()
    (folder / OWNER_FILE).write_text(owner)
    (folder / "data").write_text("data")
    return folder


def ended() -> str:
    """The mark of a process that has certainly ended: ours, with another start time."""
    *rest, started = host_processes.own_mark().split(":")
    return ":".join((*rest, str(int(started) - 1)))


def test_a_folder_lives_as_long_as_its_block(place: Path) -> None:
    with owned_folder("wire") as folder:
        assert folder.parent == place
        assert folder.name.startswith("lockref-wire-")
        assert folder.stat().st_mode & 0o077 == 0
        (folder / "full").mkdir()
        (folder / "full" / "file").write_text("x")
    assert list(place.iterdir()) == []


def test_a_folder_has_its_name_once_its_owner_is_marked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the folder and the mark leaves a folder of another name, empty, which goes when it is old."""

    def killed(*_asked: object, **_options: object) -> int:
        assert not list(place.glob("lockref-*"))
        raise OSError("no space")

    monkeypatch.setattr(Path, "write_text", killed)
    with pytest.raises(OSError, match="no space"), owned_folder("wire"):
        pytest.fail("the folder has no mark")
    assert list(place.iterdir()) == []
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    left, marked, young, full = (place / f".lockref-new-{name}" for name in ("left", "marked", "young", "full"))
    for folder in (left, marked, young, full):
        folder.mkdir()
    (marked / OWNER_FILE).write_text("killed before the folder got its name")
    (full / "file").write_text("x")
    for folder in (left, marked, full):
        os.utime(folder, (1, 1))
    with monkeypatch.context() as another_user:
        another_user.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert list(sweep().lines()) == []
        assert sorted(place.iterdir()) == [full, left, marked, young]
    assert list(sweep().lines()) == []
    assert sorted(place.iterdir()) == [full, young]


def test_a_folder_goes_with_an_error(place: Path) -> None:
    with pytest.raises(KeyboardInterrupt), owned_folder():
        raise KeyboardInterrupt
    assert list(place.iterdir()) == []


@needs_marks
def test_what_a_killed_process_leaves_is_removed_by_the_next_command_and_told(
    other: tuple[subprocess.Popen[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    process, folder = other
    assert run(["providers", "--help"]) == 0
    assert (folder / "tls" / "key.pem").exists(), "its owner lives"
    assert capsys.readouterr().err == ""
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert folder.exists(), "a killed process removes nothing"
    assert run(["providers", "--help"]) == 0
    assert not folder.exists()
    assert capsys.readouterr().err == f"lockref: removed what a killed command had left: {folder}\n"
    assert run(["providers", "--help"]) == 0
    assert capsys.readouterr().err == ""


@needs_marks
def test_many_are_told_in_one_line(place: Path) -> None:
    for number in range(5):
        left_by(ended(), place, f"lockref-{number}")
    (line,) = sweep().lines()
    assert line.endswith("lockref-2 and 2 more")
    assert list(place.iterdir()) == []


@needs_marks
def test_what_is_not_certainly_ours_is_never_touched(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = ended()
    (place / "lockref-without-an-owner").mkdir()
    (place / "lockref-file").write_text(mark)
    left_by(mark, place, "mine-of-another-name")
    left_by(host_processes.own_mark(), place, "lockref-of-one-that-lives")
    left_by("", place, "lockref-of-a-system-without-marks")
    left_by("boot:pid:time:12:34", place, "lockref-of-another-machine")
    left_by("\N{SNOWMAN}" * 9, place, "lockref-damaged")
    (place / "lockref-link").symlink_to(left_by(mark, place, "elsewhere"))
    behind = place / "lockref-mark-behind-a-link"
    behind.mkdir()
    (behind / OWNER_FILE).symlink_to(place / "elsewhere" / OWNER_FILE)
    pipe = place / "lockref-pipe"
    pipe.mkdir()
    os.mkfifo(pipe / OWNER_FILE)
    folder = place / "lockref-folder"
    (folder / OWNER_FILE).mkdir(parents=True)
    before = sorted(place.rglob("*"))
    assert list(sweep().lines()) == []
    assert sorted(place.rglob("*")) == before

    another = left_by(mark, place, "lockref-of-another-user")
    monkeypatch.setattr(os, "geteuid", lambda: another.stat().st_uid + 1)
    assert sweep().removed == []
    monkeypatch.undo()
    assert sweep(place).removed == [another]


def test_an_old_folder_whose_owner_cannot_be_seen_is_named_and_stays(place: Path) -> None:
    old = left_by("boot:pid:time:12:34", place)
    assert list(sweep().lines()) == []
    about = (old / OWNER_FILE).stat()
    os.utime(old / OWNER_FILE, ns=(about.st_atime_ns, about.st_mtime_ns - UNSEEN_MIN_NS))
    (line,) = sweep().lines()
    assert str(old) in line
    assert old.exists()


@needs_marks
def test_an_old_folder_of_a_process_that_lives_is_nobody_elses(place: Path) -> None:
    """A run may last for days."""
    living = left_by(host_processes.own_mark(), place)
    os.utime(living / OWNER_FILE, (1, 1))
    assert list(sweep().lines()) == []


@needs_marks
def test_a_mark_that_another_user_wrote_is_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a user of a shared folder could have another one's files removed."""
    folder = left_by(ended(), place)
    as_it_is = os.fstat
    with monkeypatch.context() as foreign:
        foreign.setattr(os, "fstat", lambda file: _of_another_user(as_it_is(file)))
        assert sweep().removed == []
    assert sweep().removed == [folder]


def _of_another_user(about: os.stat_result) -> os.stat_result:
    fields = list(about)
    fields[stat.ST_UID] += 1
    return os.stat_result(fields)


@needs_marks
def test_a_removal_that_is_cut_off_is_finished_by_the_next_sweep(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = left_by(ended(), place)
    (folder / "full").mkdir()
    (folder / "full" / "file").write_text("x")
    with monkeypatch.context() as cut:
        cut.setattr(temporary_folders.shutil, "rmtree", lambda _path, **_how: None)
        found = sweep()
    assert (found.removed, found.stuck) == ([], [folder])
    assert [str(folder) in line for line in found.lines()] == [True]
    assert (folder / OWNER_FILE).exists()
    assert sweep().removed == [folder]


def test_no_folder_for_temporary_files_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert list(sweep().lines()) == []


ROOMS = ("lockref", "scenarios", "reports", "sim", "tests/evidence")
SCRATCH = {
    "lockref/temporary_folders.py",
    # No folder: what a lock says in a forked process, in a file without a name.
    "scenarios/campaigns/sheltered.py",
    # Beside the object, in the user's own store; the next write of the same process replaces nothing of it.
    "lockref/stores/localfs.py",
    # In the folder that a build or an installation goes to, under its lock.
    "tests/evidence/delta/crates.py",
    "tests/evidence/peers/java_program.py",
    "tests/evidence/tables/environment.py",
    "tests/evidence/wire/programs.py",
    # A stranger's program, which knows nothing of lockref.
    "tests/evidence/wire/files/bucket_locker_worker.py",
}


def test_nobody_makes_a_temporary_folder_in_another_way() -> None:
    root = Path(__file__).parents[3]
    sources = [path for room in ROOMS for path in (root / room).rglob("*.py")]
    found = {str(path.relative_to(root)) for path in sources if "tempfile" in path.read_text(encoding="utf-8")}
    assert found == SCRATCH
