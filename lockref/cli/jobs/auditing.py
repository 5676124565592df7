"""The audit files of a table's lock: read, judged by both validators, told."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lockref.cli.jobs.shown.console import printable
from lockref.errors import ConfigError
from lockref.runtime import NS_PER_MS
from lockref.storage.audit import FILE_SUFFIX, FOLDER_NAME, SWITCH_NAME, validate, validate_as_hudi, windows_of
from lockref.storage.config import LOCKS_FOLDER
from lockref.words import counted
from reports.formats.exit_codes import HELD, INCONCLUSIVE, USAGE, VIOLATED
from scenarios.campaigns.places import FolderPlace, Place, place_of

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console

_BELOW: Final = (f"{LOCKS_FOLDER}/{FOLDER_NAME}", FOLDER_NAME, "")
"""The place of the files, seen from what a user may name: the table, the folder of the lock, their own folder.

In this order: a stray file in a table must not hide the table's audit.
"""


def audit(console: Console, text: str, *, drift_ns: int, margin_ns: int, allowed: Collection[int]) -> int:
    """Judge the audit files of a folder or URI, and tell what they say. Returns the exit code.

    drift_ns, margin_ns: see `validate`, in nanoseconds. allowed: codes that count as success.
    A broken lock is 1; a file that is no audit file is 2, unless the others show a broken lock.
    Errors: ConfigError for no folder; BackendUnavailable if the object store refuses.
    """
    place = place_of(text, "the folder of an audit")
    if isinstance(place, FolderPlace) and not place.path.is_dir():
        raise ConfigError(f"{place}: {'this is no folder' if place.path.exists() else 'there is no such folder'}")
    below, files = _files(place)
    if not files:
        reason = f"no audit file (*{FILE_SUFFIX}) in {place}; is the audit switched on ({SWITCH_NAME})?"
        console.say(f"INCONCLUSIVE {printable(text)}: {printable(reason, limit=400)}", style="bad")
        if console.as_json:
            console.document({"result": "INCONCLUSIVE", "folder": str(place), "reason": reason})
        return HELD if INCONCLUSIVE in allowed else INCONCLUSIVE
    windows = windows_of(files)
    report = validate(files, drift_ms=drift_ns // NS_PER_MS, margin_ms=margin_ns // NS_PER_MS)
    theirs = validate_as_hudi(files)
    owners = {window.owner for window in windows}
    unfinished = [window.name for window in windows if window.ended_ms is None]
    code = VIOLATED if report.result == "FAILED" else USAGE if report.unreadable else HELD
    console.say(
        f"{report.result:<12} {printable(text)}: {counted(len(windows), 'tenure')} of {counted(len(owners), 'owner')}, "
        f"{len(unfinished)} without an end, {counted(report.issues, 'finding')}",
        style="good" if code == HELD else "bad",
    )
    for line in report.lines:
        console.say(f"  {printable(line, limit=400)}")
    console.say(f"  Hudi's own validator: {theirs.result}, {counted(theirs.issues, 'finding')}", style="dim")
    if console.as_json:
        console.document(
            {
                "result": report.result,
                "folder": str(place.below(below) if below else place),
                "tenures": len(windows),
                "owners": len(owners),
                "unfinished": unfinished,
                "findings": list(report.lines),
                "hudi": {"result": theirs.result, "findings": list(theirs.lines)},
            }
        )
    return code


def _files(place: Place) -> tuple[str, dict[str, bytes]]:
    """The audit files by name, and the folder below the place that holds them; nothing where there are none."""
    for below in _BELOW:
        folder = place.below(below) if below else place
        names = [name for name in folder.names("") if Path(name).suffix == FILE_SUFFIX]
        if names:
            # A writer may remove or replace one meanwhile: what is gone is left out.
            return below, {name: body for name in names if (body := folder.read(name)) is not None}
    return "", {}
