"""A page that is a session: its files are written and its commands run, in order, in one folder.

`make docs` plays the pages that have pictures, and puts the pictures that come about beside them.

    <!-- NAME -->            the block below is this file; a block in the language `diff` changes the file of that name
    ```console               lines that begin with `$ ` are commands, a `\\` at the end continues one; the other lines
                             are what the command before prints

What a page shows is compared with what the command prints, line by line. Four things may differ, and nothing else:

- `…` alone on a line stands for any number of lines that the page leaves out;
- the ids of stored failures (`LK-…`): they are made from the path of a lock. One id of the page is one id of the run,
  from its first use to the end of the page;
- the time in the name of a run folder;
- durations that pytest prints, and the progress on standard error, which no page shows.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.docs import ROOT

FOLDERS: Final = ("tutorial", "how-to", "explanation")
PAGES: Final = sorted(page for folder in FOLDERS for page in (ROOT / "docs" / folder).rglob("*.md"))
LEFT_OUT: Final = "…"
_PART: Final = re.compile(
    r"(?:^<!-- (?P<name>[\w./-]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_ID: Final = re.compile(r"LK-[A-Z2-7]{6}")
_VARIES: Final = ((re.compile(r"\d{8}T\d{6}"), "<time>"), (re.compile(r"\bin \d+\.\d+s\b"), "in <duration>"))

Runner = Callable[[list[str]], str]
"""Runs one command in the session's folder and answers with what it printed on standard output."""


@dataclass(frozen=True, slots=True)
class Part:
    """One fenced block. name: the file that it is; empty if it has none."""

    name: str
    language: str
    text: str


@dataclass(slots=True)
class Session:
    """One page at work. folder: where its files are written. ids: an id on the page, and the one of this run."""

    folder: Path
    run: Runner
    ids: dict[str, str] = field(default_factory=dict)

    def play(self, page: Path) -> int:
        """Do all that the page shows; the number of commands. AssertionError where it shows something else."""
        commands = 0
        for part in parts(page):
            if part.language == "console":
                for command, shown in steps(part.text):
                    commands += 1
                    for shown_id, own in self.ids.items():
                        command = command.replace(shown_id, own)
                    self._compare(command, shown, self.run(shlex.split(command)).splitlines())
            elif part.name:
                self._write(part)
        return commands

    def _write(self, part: Part) -> None:
        path = self.folder / part.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(patched(path.read_text("utf-8"), part.text) if part.language == "diff" else part.text, "utf-8")

    def _compare(self, command: str, shown: list[str], printed: list[str]) -> None:
        at = 0
        is_open = False
        for line in shown:
            if line.strip() == LEFT_OUT:
                is_open = True
                continue
            place = next((n for n in range(at, len(printed)) if self._is_same(line, printed[n])), None)
            fits = place is not None and (is_open or place == at)
            assert fits, f"`{command}` does not print {line!r} here; it prints\n" + "\n".join(printed[at:])
            assert place is not None
            self._learn(line, printed[place])
            at, is_open = place + 1, False
        assert is_open or at == len(printed), f"`{command}` prints more:\n" + "\n".join(printed[at:])

    def _is_same(self, shown: str, printed: str) -> bool:
        known = [self.ids.get(found, found) for found in _ID.findall(shown)]
        own = _ID.findall(printed)
        same_ids = len(known) == len(own) and all(
            a == b for a, b in zip(known, own, strict=True) if a in self.ids.values()
        )
        return same_ids and _without_what_varies(shown) == _without_what_varies(printed)

    def _learn(self, shown: str, printed: str) -> None:
        for on_page, own in zip(_ID.findall(shown), _ID.findall(printed), strict=True):
            self.ids.setdefault(on_page, own)


def pictures_of(page: Path) -> list[Path]:
    """The files in the folder that has the name of the page: its session makes each of them."""
    return sorted(page.with_suffix("").glob("*.*")) if any(part.language == "console" for part in parts(page)) else []


def parts(page: Path) -> list[Part]:
    """The fenced blocks of a page, in order."""
    return [
        Part(found["name"] or "", found["language"], found["text"]) for found in _PART.finditer(page.read_text("utf-8"))
    ]


def steps(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that are shown below it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            assert found, f"a console block begins with a command, and not with {line!r}"
            found[-1][1].append(line)
    return found


def patched(before: str, diff: str) -> str:
    """A file after a change that is written as a diff: `-` and `+` begin what goes and comes, `@@` parts two places."""
    after = before
    for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        assert not old or after.count(old) == 1, f"the file has this {after.count(old)} times:\n{old}"
        after = after.replace(old, new) if old else after
    return after


def _without_what_varies(line: str) -> str:
    for pattern, word in ((_ID, "LK-…"), *_VARIES):
        line = pattern.sub(word, line)
    return line.rstrip()


def main() -> None:
    """Make the pictures of all sessions anew.

    AssertionError where a command prints something else than its page shows.
    """
    for page in (page for page in PAGES if page.with_suffix("").is_dir()):
        with tempfile.TemporaryDirectory(prefix="lockref-session-") as name:
            folder, status = Path(name), [0]
            shutil.copy(ROOT / "docs" / "examples" / "lease_lock.py", folder)

            def execute(command: list[str], folder: Path = folder, status: list[int] = status) -> str:
                if command == ["echo", "$?"]:
                    return str(status[0])
                program = shutil.which(command[0], path=str(Path(sys.executable).parent)) or command[0]
                done = subprocess.run([program, *command[1:]], cwd=folder, stdout=subprocess.PIPE, text=True)
                status[0] = done.returncode
                return done.stdout

            if any(part.language == "console" for part in parts(page)):
                Session(folder, execute).play(page)
            for picture in pictures_of(page):
                shutil.copy(folder / picture.name, picture)


if __name__ == "__main__":
    main()
