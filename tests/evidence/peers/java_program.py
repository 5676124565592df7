"""A small Java program of ours beside an original: the released jar from Maven, compiled with the JDK on first use.

The original's jar is used only if its SHA-256 is the pinned one. Its own dependencies are those that its POM names.
Jars and program are kept in the cache of the servers.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockref.errors import BackendUnavailable
from lockref.java import JavaHome, search_java
from lockref.user_cache import one_at_a_time
from scenarios.backends.environments import backend_cache

BUILD_TIMEOUT_S: Final = 600

_QUICK_START: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_TAIL: Final = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaProgram:
    """The Java program that drives an original.

    original: what to call it. source: a folder with `pom.xml`, which names the original, and Java files. main: the
    class to run. jar: the original's file. sha256: of that file, for what is compared must be what was examined.
    """

    original: str
    source: Path
    main: str
    jar: str
    sha256: str

    def command(self, options: Sequence[str] = ()) -> list[str]:
        """The command that runs it. options: of the JVM.

        Errors: BackendUnavailable without a JDK, without Maven, without the jars, or with another jar than examined.
        """
        search = search_java()
        if search.home is None:
            raise BackendUnavailable(search.reason)
        # The program is compiled for the Java that compiled it: another one builds its own.
        parts = [path.read_bytes() for path in (self.source / "pom.xml", *self._files)]
        told = b"".join([*parts, self.sha256.encode(), search.home.version.encode()])
        folder = backend_cache() / f"{self.original}-java-{hashlib.sha256(told).hexdigest()[:8]}"
        built = folder / "built"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with one_at_a_time(folder / "lock"):
                if not built.is_dir():
                    self._build(search.home, folder, built)
        except OSError as error:
            raise BackendUnavailable(f"cannot build the driver of {self.original} in {folder}: {error}") from error
        return [str(search.home.executable), *_QUICK_START, *options, "-cp", f"{built}:{built}/*", self.main]

    @property
    def _files(self) -> list[Path]:
        return sorted(self.source.rglob("*.java"))

    def _build(self, java: JavaHome, folder: Path, built: Path) -> None:
        """Fetch the jars, compare the digest, compile; the folder appears by renaming."""
        maven = shutil.which("mvn")
        if maven is None:
            raise BackendUnavailable(f"{self.original} comes with Maven, and mvn is not on PATH; install Maven")
        compiler = java.executable.with_name("javac")
        if not compiler.is_file():
            raise BackendUnavailable(f"{java} has no javac; install a full JDK")
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            work = Path(scratch) / "built"
            work.mkdir()
            pom = shutil.copy(self.source / "pom.xml", scratch)
            copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={work}"]
            _run([maven, "-q", "-B", "-f", str(pom), *copy], f"fetching {self.original}")
            jar = work / self.jar
            found = hashlib.sha256(jar.read_bytes()).hexdigest() if jar.is_file() else "none"
            if found != self.sha256:
                raise BackendUnavailable(f"{self.jar} has SHA-256 {found}, expected {self.sha256}")
            files = [str(path) for path in self._files]
            _run([str(compiler), "-cp", f"{work}/*", "-d", str(work), *files], "compiling its driver")
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
