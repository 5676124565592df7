"""The chunks of `lockref sim` below its run folder: they stand there until the command is over, and no longer."""

from __future__ import annotations

import shutil
from pathlib import Path

from lockref.errors import ConfigError
from reports.history_files import CHUNKS
from scenarios.campaigns.account import NotAnAccount, read_account
from scenarios.campaigns.chunks import account_name, committed_chunks
from scenarios.campaigns.identity import FILE, read_identity
from scenarios.campaigns.places import FolderPlace


def place_in(part: Path) -> FolderPlace:
    """The place of one campaign's chunks, in the folder of its results."""
    return FolderPlace(part.resolve() / CHUNKS)


def seeds_in(run: Path) -> int:
    """The number of seeds in the committed chunks of a run folder, its parts included.

    Chunks that cannot be read count as none, since the number is for people only.
    """
    found = 0
    for folder in _chunk_folders(run):
        place = FolderPlace(folder)
        try:
            known = read_identity(place)
        except (ConfigError, OSError):
            continue
        for number in committed_chunks(place) if known is not None else ():
            found += _seeds_of(place, campaign=known.digest, chunk=number) if known is not None else 0
    return found


def _seeds_of(place: FolderPlace, *, campaign: str, chunk: int) -> int:
    try:
        return read_account(place.read(account_name(chunk)) or b"", campaign=campaign, chunk=chunk).runs
    except (NotAnAccount, ConfigError, OSError):
        return 0


def expect_own_version(run: Path) -> None:
    """Raise ConfigError for a run folder whose chunks an earlier version of lockref wrote: each was a folder then."""
    for folder in _chunk_folders(run):
        if any(folder.glob("chunk-*/")):
            raise ConfigError(f"{folder}: its chunks are of an earlier version of lockref; run again without --resume")


def remove_chunks(run: Path) -> None:
    """Remove all chunks in a run folder: the command is over, and its results stand elsewhere."""
    for folder in _chunk_folders(run):
        shutil.rmtree(folder)


def _chunk_folders(run: Path) -> list[Path]:
    """The folders of chunks; not those of `lockref campaign`, which stand beside their `campaign.json`."""
    return sorted(path for path in (*run.glob(CHUNKS), *run.glob(f"*/{CHUNKS}")) if not (path.parent / FILE).exists())
