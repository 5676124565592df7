"""A file is seen whole or not at all; what is no file is never replaced by one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lockref.atomic_files import write_atomically


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    """The folder is made where there is none."""
    path = tmp_path / "new" / "page.html"
    assert write_atomically(path, "one").read_text() == "one"
    assert write_atomically(path, b"two").read_text() == "two"
    assert [each.name for each in path.parent.iterdir()] == ["page.html"]


def test_a_pipe_takes_what_is_written_and_stays_a_pipe(tmp_path: Path) -> None:
    """`--junit /dev/stdout` prints. A rename would put a file in the place of the device, for every program."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(path, "text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_folder_is_no_place_for_a_file(tmp_path: Path) -> None:
    """It stays, and the error is that of the system."""
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path, "text")
