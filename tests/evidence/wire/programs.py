"""The released programs: in which version, from where, and the environment of each, built once.

Three come from PyPI. Two are Go modules, which are built here from the released source: OpenTofu as it is (its module
cannot be installed by name, because it replaces dependencies), and Litestream's leaser as a library under a small
program, because Litestream's own command does not offer it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lockref.errors import BackendUnavailable
from lockref.user_cache import one_at_a_time
from scenarios.backends.environments import backend_cache
from scenarios.backends.pins import Packages
from tests.evidence.delta.originals import PACKAGE_LISTS, Original

FILES: Final = Path(__file__).with_name("files")
BUILD_TIMEOUT_S: Final = 3600
"""OpenTofu takes three minutes on two idle cores, and a quarter of an hour on busy ones."""

S3_LOCKS: Final = Original(
    name="s3-locks",
    role="a lease in one S3 object, of PyPI",
    packages=Packages(
        version="0.1.0",
        requirements=("s3-locks==0.1.0", "boto3==1.44.5"),
        python_min=(3, 11),
        listed_in=PACKAGE_LISTS,
    ),
)
GCSLOCK: Final = Original(
    name="gcslock",
    role="a lease in the metadata of one GCS object, of PyPI",
    packages=Packages(version="0.0.6", requirements=("gcslock==0.0.6",), python_min=(3, 11), listed_in=PACKAGE_LISTS),
)
BUCKET_LOCKER: Final = Original(
    name="bucket-locker",
    role="a lock that is one GCS object, without a lease, of PyPI",
    packages=Packages(
        version="1.0.8",
        requirements=("bucket-locker==1.0.8", "google-cloud-storage==3.17.1"),
        python_min=(3, 11),
        listed_in=PACKAGE_LISTS,
    ),
)
ON_THE_WIRE: Final = (S3_LOCKS, GCSLOCK, BUCKET_LOCKER)
"""The programs that have an environment of packages."""

OPENTOFU: Final = ("github.com/opentofu/opentofu", "v1.12.6", "h1:0VT4P8pMmGcCUnQ9JDrJ+Qg2d35Vzm4FFd/9+H7oF98=")
LITESTREAM: Final = ("github.com/benbjohnson/litestream", "v0.5.18", "h1:kelmbbFQvlgrm8dRrpt9bqvDrJ69OgWQca8hSflNF2U=")
"""Module, version and the digest of its source, as Go counts it: what is examined must be what was released."""

_TAIL: Final = 1200


def s3_locks() -> Path:
    """The Python in which s3-locks is installed. Errors: BackendUnavailable if it cannot be had."""
    return S3_LOCKS.python()


def gcslock() -> Path:
    """The command of gcslock. Errors: BackendUnavailable if it cannot be had."""
    if shutil.which("curl") is None:
        raise BackendUnavailable(
            "the object that gcslock guards is written with curl, which is not on PATH; install it"
        )
    return GCSLOCK.python().with_name("gcslock")


def bucket_locker() -> Path:
    """The Python in which bucket-locker is installed. Errors: BackendUnavailable if it cannot be had."""
    return BUCKET_LOCKER.python()


def opentofu() -> Path:
    """The program `tofu`, built on first use. Errors: BackendUnavailable without Go, or if it cannot be built."""
    module, version, digest = OPENTOFU

    def source(work: Path) -> Path:
        copy = work / "source"
        shutil.copytree(_released(module, version, digest, work), copy)
        # The module cache is read-only, and Go writes beside the source.
        for path in (copy, *copy.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)
        return copy

    return _built(f"opentofu-{version}", "tofu", "./cmd/tofu", source, digest)


def litestream_leaser() -> Path:
    """The program around Litestream's leaser, built on first use. Errors: as `opentofu`."""
    module, version, digest = LITESTREAM
    parts = [path.read_bytes() for path in sorted((FILES / "litestream").iterdir())]
    if f"{module} {version} {digest}".encode() not in b"".join(parts):
        raise BackendUnavailable(f"the list of modules does not name {module} {version} with the digest {digest}")

    def source(work: Path) -> Path:
        return Path(shutil.copytree(FILES / "litestream", work / "source"))

    name = hashlib.sha256(b"".join(parts)).hexdigest()[:8]
    return _built(f"litestream-leaser-{version}-{name}", "leaser", ".", source, digest)


def _built(name: str, program: str, package: str, source: Callable[[Path], Path], digest: str) -> Path:
    """A Go program in the cache; it appears by renaming, so that no half of one is ever run.

    source: copies the source into a folder and answers where it is.
    """
    if shutil.which("go") is None:
        raise BackendUnavailable(f"{program} is built with Go, which is not on PATH; install Go 1.26 or later")
    folder = backend_cache() / f"{name}-{hashlib.sha256(digest.encode()).hexdigest()[:8]}"
    made = folder / program
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(folder / "lock"):
            if not made.is_file():
                with tempfile.TemporaryDirectory(dir=folder) as scratch:
                    work = Path(scratch)
                    _go(["build", "-o", str(work / program), package], source(work))
                    (work / program).replace(made)
    except OSError as error:
        raise BackendUnavailable(f"cannot build {program} in {folder}: {error}; set LOCKREF_CACHE") from error
    return made


def _released(module: str, version: str, digest: str, work: Path) -> Path:
    """The folder of a released module, as Go unpacked it."""
    told = json.loads(_go(["mod", "download", "-json", f"{module}@{version}"], work))
    if told.get("Sum") != digest:
        raise BackendUnavailable(f"{module} {version} came as {told.get('Sum')}, expected {digest}")
    return Path(told["Dir"])


def _go(arguments: list[str], work: Path) -> str:
    try:
        done = subprocess.run(
            ["go", *arguments],
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
            # No other toolchain than the one that is there: fetching one is no part of a build.
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except subprocess.TimeoutExpired as error:
        raise BackendUnavailable(f"go {arguments[0]} took more than {BUILD_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise BackendUnavailable(f"go {' '.join(arguments[:2])} failed:\n{done.stderr[-_TAIL:]}")
    return done.stdout
