"""The finished part of a campaign, kept on disk chunk by chunk, so that a killed one can go on.

A chunk is a few dozen seeds that were simulated and judged in one piece. Its
verdicts, its digests and the histories kept of it are written beside each other
into a folder that appears whole: it is filled under another name, then renamed.
Whoever dies in between leaves the chunks before, and none by half.

Chunks are worth nothing once the code, the lock, the scenario or the seeds have
changed: one verdict must not speak for two locks. So the folder of chunks begins
with a `Fingerprint` of all of them, and is read only by a campaign with the same.

Judgements are stored, not histories: what the judge said of a seed is a hundredth
of what the judge read.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather

import lockref
from lockref.atomic_files import write_atomically
from lockref.errors import ConfigError, Location
from lockref.lab.loading import ProviderSpec
from lockref.rooms import HOME
from lockref.strict_json import NotJson, is_whole, read_object, whole_number
from reports.checks import Judgement
from reports.history_files import CHUNKS, load_history, write_history
from scenarios.definition.schema import Scenario

# The number rises when the meaning of a file changes. A folder with another number is begun anew, not converted: the
# seeds run again in less time than a converter would take to be trusted.
FORMAT = "lockref.campaign/2"
FINGERPRINT = "campaign.json"
_FACTS = "chunk.json"
_SUMS = "sums.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Hashes of the code that a campaign runs: the lock's own, and lockref's."""

    provider: str
    code: str

    @classmethod
    def of(cls, spec: ProviderSpec) -> Sources:
        """Taken once, right after the lock was loaded: what it imports later, in the middle of a run, is not in it."""
        return cls(
            provider=_hash([spec.name.encode(), *_provider_sources(spec)]),
            code=_hash([platform.python_version().encode(), *_own_sources()]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The inputs of a campaign's result: two campaigns with equal fingerprints give equal results.

    scenario: a hash of the resolved file. provider, code: see `Sources`.
    seeds: the first and the one after the last. keep_runs, compare_every: as given to `run_campaign`.
    """

    scenario: str
    provider: str
    code: str
    seeds: tuple[int, int]
    keep_runs: int
    compare_every: int

    @classmethod
    def of(
        cls, scenario: Scenario, sources: Sources, seeds: Sequence[int], *, keep_runs: int, compare_every: int
    ) -> Fingerprint:
        """The fingerprint of the campaign that these arguments of `run_campaign` describe."""
        return cls(
            scenario=_hash([scenario.model_dump_json().encode()]),
            provider=sources.provider,
            code=sources.code,
            seeds=(seeds[0], seeds[-1] + 1),
            keep_runs=keep_runs,
            compare_every=compare_every,
        )

    def differences(self, other: Fingerprint) -> list[str]:
        """The differences, in words."""
        words = {
            "scenario": "the scenario",
            "provider": "the lock's source",
            "code": "lockref itself",
            "seeds": "the seeds",
            "keep_runs": "the number of histories to keep",
            "compare_every": "--check-determinism",
        }
        return [words[field.name] for field in fields(self) if getattr(self, field.name) != getattr(other, field.name)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A finished piece of a campaign.

    runs: their rows, digests among them. event_count: of all its histories.
    fault_kinds: seed to what disturbed it. compared: seeds that were run twice.
    kept: the histories worth keeping, events and runs; None if there are none.
    """

    judgement: Judgement
    runs: pa.Table
    event_count: int
    fault_kinds: Mapping[int, tuple[str, ...]]
    compared: int
    kept: tuple[pa.Table, pa.Table] | None


class Checkpoint:
    """The folder of a campaign's chunks. One process writes it."""

    def __init__(self, folder: Path, fingerprint: Fingerprint) -> None:
        self.folder = folder
        self.fingerprint = fingerprint
        self._written = 0

    def begin(self) -> None:
        """Make the folder anew, without chunks."""
        # Whatever stands there belongs to a format or campaign that is not ours. To keep a part of it would mix two
        # verdicts.
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        _write_json(self.folder / FINGERPRINT, {"format": FORMAT, **asdict(self.fingerprint)})

    def finished(self) -> Iterator[Chunk]:
        """The chunks that stand in the folder, in the order of their seeds.

        Errors: ConfigError if they are those of another campaign, or cannot be read.
        """
        known = read_fingerprint(self.folder)
        if known is None:
            self.begin()
            return
        if changed := self.fingerprint.differences(known):
            raise ConfigError(
                f"{self.folder}: changed since that run was begun: {', '.join(changed)}. Its finished seeds say "
                "nothing about what would run now; run again without --resume"
            )
        # What a killed writer left behind.
        # A chunk that was never renamed has no reader: its seeds count as not run, and run again with the same result.
        for remnant in self.folder.glob(".chunk-*"):
            shutil.rmtree(remnant)
        for chunk in _whole(self.folder):
            yield _read(chunk)
            self._written += 1

    def add(self, chunk: Chunk) -> None:
        """Write the next chunk."""
        target = self.folder / _name(self._written)
        beside = self.folder / f".{target.name}.{os.getpid()}"
        # Prior art: write beside, then rename(2), which is atomic within one file system. No fsync: after a power
        # failure a chunk may be torn, and `_SUMS` finds that. A sync for each chunk would cost more than it saves.
        beside.mkdir()
        _write(chunk, beside)
        beside.rename(target)
        self._written += 1


def read_fingerprint(folder: Path) -> Fingerprint | None:
    """The fingerprint of a folder of chunks; None if there is none, or one of another version."""
    path = folder / FINGERPRINT
    try:
        told = read_object(path.read_bytes(), unique_names=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error}); run again without --resume") from error
    except NotJson as error:
        location = Location(str(path), error.line, error.column)
        raise ConfigError(
            f"no record of a campaign ({error.what}); run again without --resume", location=location
        ) from error
    if told.pop("format", None) != FORMAT or set(told) != {field.name for field in fields(Fingerprint)}:
        return None
    texts = [told[name] for name in ("scenario", "provider", "code")]
    numbers = [told["keep_runs"], told["compare_every"]]
    seeds = told["seeds"]
    is_sound = isinstance(seeds, list) and len(seeds) == 2 and all(is_whole(each) for each in (*seeds, *numbers))
    if not is_sound or not all(isinstance(each, str) for each in texts):
        raise ConfigError(
            "no record of a campaign (a field has the wrong type); run again without --resume",
            location=Location(str(path)),
        )
    return Fingerprint(**{**told, "seeds": (seeds[0], seeds[1])})


def chunks_from(folder: Path, start: int) -> Iterator[Chunk]:
    """The whole chunks of a folder from the number `start` on, in the order of their seeds; another process may add to
    them.

    Errors: ConfigError for a chunk that cannot be read.
    """
    for number in itertools.count(start):
        chunk = folder / _name(number)
        if not chunk.is_dir():
            return
        yield _read(chunk)


def seeds_in(run: Path) -> int:
    """The number of seeds in the whole chunks of a run folder, its parts included."""
    return sum(_seeds_of(chunk) for folder in _chunk_folders(run) for chunk in _whole(folder))


def _seeds_of(chunk: Path) -> int:
    """The number of seeds in a chunk; 0 if the chunk cannot be read, since the number is for people only."""
    try:
        return whole_number(read_object((chunk / _FACTS).read_bytes()).get("runs"), least=0, most=2**63 - 1)
    except (OSError, ValueError):
        return 0


def remove_chunks(run: Path) -> None:
    """Remove all chunks in a run folder: the command is over, and its results stand elsewhere."""
    for folder in _chunk_folders(run):
        shutil.rmtree(folder)


def _chunk_folders(run: Path) -> list[Path]:
    return sorted([*run.glob(CHUNKS), *run.glob(f"*/{CHUNKS}")])


def _whole(folder: Path) -> list[Path]:
    """The whole chunks of a folder, up to the first that is missing."""
    # Up to the first gap, not all that there are: a result is the seeds from the first on, so a chunk behind a gap
    # cannot be used, and to count it would tell a number of finished seeds that does not hold.
    names = (folder / _name(number) for number in itertools.count())
    return list(itertools.takewhile(Path.is_dir, names))


def _name(number: int) -> str:
    return f"chunk-{number:06d}"


def _write(chunk: Chunk, folder: Path) -> None:
    told: dict[str, object] = {}
    for field in fields(chunk.judgement):
        value = getattr(chunk.judgement, field.name)
        if isinstance(value, pa.Table):
            feather.write_feather(value, str(folder / f"{field.name}.arrow"), compression="zstd")
        else:
            told[field.name] = value
    feather.write_feather(chunk.runs, str(folder / "all-runs.arrow"), compression="zstd")
    if chunk.kept is not None:
        write_history(folder, *chunk.kept)
    facts = {
        "runs": len(chunk.runs),
        "event_count": chunk.event_count,
        "compared": chunk.compared,
        "fault_kinds": [[run, list(kinds)] for run, kinds in sorted(chunk.fault_kinds.items())],
        "judgement": told,
    }
    _write_json(folder / _FACTS, facts)
    _write_json(folder / _SUMS, _sums(folder))


def _sums(folder: Path) -> dict[str, str]:
    """Each file of a chunk but the sums themselves, and the hash of its bytes."""
    return {path.name: _hash([path.read_bytes()]) for path in sorted(folder.iterdir()) if path.name != _SUMS}


def _read(folder: Path) -> Chunk:
    try:
        # Arrow's files have no checksum: one flipped bit would be another verdict.
        if read_object((folder / _SUMS).read_bytes(), unique_names=True) != _sums(folder):
            raise ValueError("a file was changed since it was written")
        facts = read_object((folder / _FACTS).read_bytes(), unique_names=True)
        parts: dict[str, Any] = {name: _frozen(value) for name, value in facts["judgement"].items()}
        for field in fields(Judgement):
            if field.name not in parts:
                parts[field.name] = feather.read_table(folder / f"{field.name}.arrow", memory_map=False)
        runs = feather.read_table(folder / "all-runs.arrow", memory_map=False)
        kinds = {int(run): tuple(kinds) for run, kinds in facts["fault_kinds"]}
        event_count, compared = int(facts["event_count"]), int(facts["compared"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{folder}: a finished chunk cannot be read ({error}); run again without --resume") from error
    kept = None
    if (folder / "events.parquet").exists():
        events, kept_runs, _ = load_history(folder)
        kept = (events, kept_runs)
    return Chunk(
        judgement=Judgement(**parts),
        runs=runs,
        event_count=event_count,
        fault_kinds=kinds,
        compared=compared,
        kept=kept,
    )


def _frozen(value: object) -> object:
    """JSON's lists as the tuples that they were."""
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    write_atomically(path, json.dumps(content, indent=1) + "\n")


def _hash(parts: Sequence[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        # The length goes first, so that ("ab", "c") and ("a", "bc") differ.
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _own_sources() -> list[bytes]:
    """Every source file that decides what a simulated run does and how it is judged."""
    # All sources, not those that the scenario reaches: imports in functions make the reach undecidable, and a hash that
    # misses a file lets an old verdict speak for new code. The price is a run from the first seed after any change.
    rooms = [Path(lockref.__file__).resolve().parent, HOME / "sim", HOME / "scenarios", HOME / "reports" / "checks"]
    files = {path for room in rooms for path in room.rglob("*.py")}
    return [path.read_bytes() for path in sorted(files)]


def _provider_sources(spec: ProviderSpec) -> list[bytes]:
    """The source of the lock: its module's file, and the files beside and below it that were imported.

    A lock that lockref ships adds nothing: `_own_sources` has its source already.
    """
    made = getattr(spec.factory, "made", spec.factory)
    file = getattr(sys.modules.get(getattr(made, "__module__", "")), "__file__", None)
    if file is None:
        return [repr(spec.reference).encode()]
    folder = Path(file).resolve().parent
    if folder.is_relative_to(Path(lockref.__file__).resolve().parent):
        return []
    # A doubt: what the lock imports later, or reads as data, is in no hash. `Sources.of` is called right after loading,
    # so that at least the set does not depend on how far the first run came.
    loaded = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    paths = {Path(name).resolve() for name in loaded if name is not None}
    return [path.read_bytes() for path in sorted(paths) if path.is_relative_to(folder) and path.suffix == ".py"]
