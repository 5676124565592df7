"""Jars on a machine without Maven.

pyspark carries Ivy, Java's other dependency resolver. A jar is fetched by its
coordinates, once per machine, into a cache folder, and used only if its
SHA-256 is the pinned one: the original that we compare with must be the one
that was examined. Processes that need it at the same time wait for one
download.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockref.errors import CapabilityMissing
from lockref.java import JavaHome
from lockref.user_cache import one_at_a_time, user_cache

DOWNLOAD_TIMEOUT_S: Final = 240
_LOG_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One artifact, named as in Maven, with the digest of the only file that counts as it."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def jar_cache() -> Path:
    """The folder of fetched jars: below LOCKREF_CACHE, or ~/.cache/lockref."""
    return user_cache() / "jars"


def pyspark_jars() -> Path:
    """The folder of jars inside pyspark. Raises CapabilityMissing where pyspark is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise CapabilityMissing("looking for pyspark's jars: pyspark is not installed")
    return Path(spec.origin).parent / "jars"


def bundled(pattern: str) -> Path:
    """The one jar of pyspark that matches `pattern`. Raises CapabilityMissing."""
    found = sorted(pyspark_jars().glob(pattern))
    if not found:
        raise CapabilityMissing(f"pyspark has no jar named {pattern}: install the pyspark of requirements.lock")
    return found[-1]


def fetch(jar: Jar, *, java: JavaHome) -> Path:
    """The jar's file, downloaded if need be. Raises CapabilityMissing with the reason."""
    folder = jar_cache()
    target = folder / jar.file_name
    if target.is_file() and _digest(target) == jar.sha256:
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(folder / f"{jar.file_name}.lock"):
            if not (target.is_file() and _digest(target) == jar.sha256):
                _download(jar, folder, java)
    except OSError as error:
        raise CapabilityMissing(f"keeping {jar.file_name} in {folder}: {error}; set LOCKREF_CACHE") from error
    found = _digest(target)
    if found != jar.sha256:
        target.unlink()
        raise CapabilityMissing(f"{jar.file_name} has SHA-256 {found}, expected {jar.sha256}: it was removed")
    return target


def _download(jar: Jar, folder: Path, java: JavaHome) -> None:
    command = [
        str(java.executable),
        f"-Divy.default.ivy.user.dir={folder / '.ivy'}",
        "-cp",
        str(bundled("ivy-2*.jar")),
        "org.apache.ivy.Main",
        "-dependency", jar.group, jar.artifact, jar.version,
        "-notransitive",
        "-confs", "default",
        "-retrieve", f"{folder}/[artifact]-[revision].[ext]",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise CapabilityMissing(f"fetching {jar.file_name} took more than {DOWNLOAD_TIMEOUT_S} s") from error
    if done.returncode != 0 or not (folder / jar.file_name).is_file():
        last = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-_LOG_LINES:]
        raise CapabilityMissing(f"fetching {jar.group}:{jar.artifact}:{jar.version} failed:\n  " + "\n  ".join(last))


def _digest(path: Path) -> str:
    if not path.is_file():
        return "none"
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
