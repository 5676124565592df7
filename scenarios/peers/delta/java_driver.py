"""The Java client as a program: the released jar from Maven, and a driver compiled with the JDK on first use.

The jar is used only if its SHA-256 is the pinned one. Its own dependencies, the AWS SDK among them, are those that its
POM names. Jars and driver are kept in the cache of the servers.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from lockref.errors import BackendUnavailable
from lockref.java import JavaHome, search_java
from scenarios.backends.environments import backend_cache

BUILD_TIMEOUT_S: Final = 600
CLIENT: Final = "dynamodb-lock-client-1.2.0.jar"
CLIENT_DIGEST: Final = "d0732cf6f8cd6ebb050a69e63effcf5a365bb69ba194bcb5c32cc343b6f831ce"
"""SHA-256 of the published jar: the original that is compared must be the one that was examined."""

_SOURCE: Final = Path(__file__).with_name("java")
_DRIVER: Final = "Driver"
_QUICK_START: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_TAIL: Final = 1200


def java_driver() -> list[str]:
    """The command of the driver.

    Errors: BackendUnavailable without a JDK, without Maven, without the jars, or with another jar than examined.
    """
    search = search_java()
    if search.home is None:
        raise BackendUnavailable(search.reason)
    parts = [(_SOURCE / name).read_bytes() for name in ("pom.xml", f"{_DRIVER}.java")]
    # The driver is compiled for the Java that compiled it: another one builds its own.
    digest = hashlib.sha256(b"".join([*parts, CLIENT_DIGEST.encode(), search.home.version.encode()])).hexdigest()[:8]
    folder = backend_cache() / f"dynamodb-lock-java-{digest}"
    built = folder / "built"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            if not built.is_dir():
                _build(search.home, folder, built)
    except OSError as error:
        raise BackendUnavailable(f"cannot build the Java client's driver in {folder}: {error}") from error
    return [str(search.home.executable), *_QUICK_START, "-cp", f"{built}:{built}/*", _DRIVER]


def _build(java: JavaHome, folder: Path, built: Path) -> None:
    """Fetch the jars, compare the digest, compile; the folder appears by renaming."""
    maven = shutil.which("mvn")
    if maven is None:
        raise BackendUnavailable("dynamodb-lock-client comes with Maven, and mvn is not on PATH; install Maven")
    compiler = java.executable.with_name("javac")
    if not compiler.is_file():
        raise BackendUnavailable(f"{java} has no javac; install a full JDK")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        work = Path(scratch) / "built"
        work.mkdir()
        pom = shutil.copy(_SOURCE / "pom.xml", scratch)
        copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={work}"]
        _run([maven, "-q", "-B", "-f", str(pom), *copy], "fetching dynamodb-lock-client")
        jar = work / CLIENT
        found = hashlib.sha256(jar.read_bytes()).hexdigest() if jar.is_file() else "none"
        if found != CLIENT_DIGEST:
            raise BackendUnavailable(f"{CLIENT} has SHA-256 {found}, expected {CLIENT_DIGEST}")
        source = str(_SOURCE / f"{_DRIVER}.java")
        _run([str(compiler), "-cp", f"{work}/*", "-d", str(work), source], "compiling its driver")
        work.replace(built)


def _run(step: list[str], doing: str) -> None:
    try:
        done = subprocess.run(
            step, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BackendUnavailable(f"{doing} took more than {BUILD_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise BackendUnavailable(f"{doing} failed:\n{(done.stdout + done.stderr)[-_TAIL:]}")
