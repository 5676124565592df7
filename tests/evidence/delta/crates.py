"""The crate dynamodb_lock as a program, built by cargo on first use and kept in the cache of the servers.

Three states of it: 0.4.3 (the lock of `deltalake` 0.13.0; 0.5 was never published), 0.6.1, and 0.6.1 with what PR #6
is about: `get_lock` reads the lease as a number. That pull request was never merged; its one effect on the protocol is
made here by changing one line of the released source.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from lockref.errors import BackendUnavailable
from lockref.user_cache import one_at_a_time
from scenarios.backends.environments import backend_cache

BUILD_TIMEOUT_S: Final = 1200  # The SDK below the crate takes a minute on two idle cores.
CRATE_DIGESTS: Final = {
    "0.4.3": "fff628406c318f098017c78e203b5b6466e0610fc48be865ebb9ae0eb229b4c8",
    "0.6.1": "9c4242838952a07117a4444cdf59fdcb47f181525f2dd6ae4ca6281954d09c77",
}
"""SHA-256 of each published crate: the original that is compared must be the one that was examined."""

_SOURCE: Final = Path(__file__).with_name("crate")
_PATCHED: Final = "dynamodb_lock-0.6.1-pr6"
_READ_AS_TEXT: Final = "item.get(LEASE_DURATION).and_then(|v| v.s.clone())"
_READ_AS_NUMBER: Final = "item.get(LEASE_DURATION).and_then(|v| v.n.clone())"
_PROGRAM: Final = "lockref-crate-driver"
_LOCKED: Final = re.compile(r'name = "dynamodb_lock"\nversion = "([^"]+)"\nsource = "[^"]+"\nchecksum = "([0-9a-f]+)"')
_TAIL: Final = 1200


def crate_driver() -> Path:
    """The program. Errors: BackendUnavailable without cargo, without the crates, or with other crates than examined."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise BackendUnavailable("dynamodb_lock is built with cargo, which is not on PATH; install Rust")
    parts = [part.read_bytes() for part in (*sorted(_SOURCE.rglob("*.rs")), _SOURCE / "Cargo.toml")]
    digest = hashlib.sha256(b"".join([*parts, _READ_AS_NUMBER.encode()])).hexdigest()[:8]
    folder = backend_cache() / f"dynamodb-lock-crates-{digest}"
    program = folder / _PROGRAM
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(folder / "lock"):
            if not program.is_file():
                _build(cargo, folder, program)
    except OSError as error:
        raise BackendUnavailable(f"cannot build dynamodb_lock in {folder}: {error}; set LOCKREF_CACHE") from error
    return program


def _build(cargo: str, folder: Path, program: Path) -> None:
    """Fetch the released source, make the patched copy beside it, build; the program appears by renaming."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        work = Path(scratch) / "crate"
        shutil.copytree(_SOURCE, work)
        shutil.copytree(_released(cargo, Path(scratch) / "released"), work / _PATCHED)
        library = work / _PATCHED / "src" / "lib.rs"
        source = library.read_text(encoding="utf-8")
        if source.count(_READ_AS_TEXT) != 1:
            raise BackendUnavailable("dynamodb_lock 0.6.1 is not the source in which the lease is read as text once")
        library.write_text(source.replace(_READ_AS_TEXT, _READ_AS_NUMBER), encoding="utf-8")
        _run([cargo, "build", "--quiet", "--target-dir", "target"], work)
        found = dict(_LOCKED.findall((work / "Cargo.lock").read_text(encoding="utf-8")))
        if found != CRATE_DIGESTS:
            raise BackendUnavailable(f"dynamodb_lock came as {found}, expected {CRATE_DIGESTS}")
        (work / "target" / "debug" / _PROGRAM).replace(program)


def _released(cargo: str, work: Path) -> Path:
    """The folder of the released source of 0.6.1, as cargo unpacked it."""
    (work / "src").mkdir(parents=True)
    (work / "src" / "lib.rs").write_text("", encoding="utf-8")
    (work / "Cargo.toml").write_text(
        '[package]\nname = "released"\nversion = "0.0.0"\nedition = "2021"\n\n'
        '[dependencies]\ndynamodb_lock = "=0.6.1"\n',
        encoding="utf-8",
    )
    told = json.loads(_run([cargo, "metadata", "--quiet", "--format-version", "1"], work))
    [manifest] = [each["manifest_path"] for each in told["packages"] if each["name"] == "dynamodb_lock"]
    return Path(manifest).parent


def _run(step: list[str], work: Path) -> str:
    try:
        done = subprocess.run(
            step,
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BackendUnavailable(f"building dynamodb_lock took more than {BUILD_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise BackendUnavailable(f"building dynamodb_lock failed ({' '.join(step)}):\n{done.stderr[-_TAIL:]}")
    return done.stdout
