"""The Spark and the jars that write a Hudi table, in pinned versions, built and fetched on first use.

Hudi's bundle for the project's own Spark cannot be had, the one for Spark 3.5 can. So the writers have an environment
of their own. Hudi's S3 client cannot be had either: `files/S3StorageLockClient.java` stands under the name that Hudi
loads for s3, and is compiled here. Hudi's provider, heartbeat and table code are as released.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockref.errors import BackendUnavailable, CapabilityMissing
from lockref.java import JavaHome, search_java
from lockref.originals.hudi_classes import BUNDLE
from lockref.originals.jars import Jar, fetch
from lockref.user_cache import one_at_a_time
from scenarios.backends.environments import backend_cache
from scenarios.backends.pins import Packages
from tests.evidence.delta.originals import PACKAGE_LISTS, Original

FILES: Final = Path(__file__).with_name("files")
CLIENT: Final = FILES / "S3StorageLockClient.java"
JAVAC_TIMEOUT_S: Final = 300
_TAIL: Final = 1200

PYSPARK: Final = Original(
    name="pyspark",
    role="writes Hudi tables",
    packages=Packages(
        version="3.5.9",
        requirements=("pyspark==3.5.9",),
        python_min=(3, 11),
        # From 3.12 on there is no distutils, which Spark 3.5 imports.
        python_max=(3, 11),
        listed_in=PACKAGE_LISTS,
    ),
)


def _aws(artifact: str, sha256: str) -> Jar:
    return Jar(group="com.amazonaws", artifact=artifact, version="1.12.262", sha256=sha256)


JARS: Final = (
    BUNDLE,
    Jar(
        group="org.apache.hadoop",
        artifact="hadoop-aws",
        version="3.3.4",
        sha256="53f9ae03c681a30a50aa17524bd9790ab596b28481858e54efd989a826ed3a4a",
    ),
    _aws("aws-java-sdk-core", "06fed99f929c389e168278c1b111aaf1afb270d07202fbbce92e73d1e4279678"),
    _aws("aws-java-sdk-dynamodb", "7af4ba06d0d9b3c2ab435089caecd0567810d203aa285f7aa72861f1964d442e"),
    _aws("aws-java-sdk-kms", "c00f5ae7b334255f661d85512e7203af9523a04fb65d0c431c2eea2003ed8ae2"),
    _aws("aws-java-sdk-s3", "a0cb7580178bc0d4d3558295a5bb890008478da8a6b3241989c71238b0ed3be5"),
    _aws("aws-java-sdk-sts", "659f48d8ebc02025c5042cc4b925f62610e81f334498f1b9e7a271ce20ecbcae"),
    _aws("jmespath-java", "9001ea993a45d82a2d3086edcbda8a40b4e012d049a70fbf071fd329c0fbd777"),
    Jar(
        group="software.amazon.ion",
        artifact="ion-java",
        version="1.0.2",
        sha256="0d127b205a1fce0abc2a3757a041748651bc66c15cf4c059bac5833b27d471a5",
    ),
    Jar(
        group="com.fasterxml.jackson.dataformat",
        artifact="jackson-dataformat-cbor",
        version="2.12.6",
        sha256="cfa008d15f052e69221e8c3193056ff95c3c594271321ccac8d72dc1a770619c",
    ),
)
"""Hudi, S3A and the SDK below it. All else is among Spark's own jars; a second version of one of those breaks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEnvironment:
    """What starts a writer. python: of the environment with Spark 3.5. jars: beside Spark's own."""

    python: Path
    java: JavaHome
    jars: tuple[Path, ...]

    @property
    def variables(self) -> dict[str, str]:
        """What a writer's environment adds to ours. Its Spark must be the one of its own packages."""
        return {
            "JAVA_HOME": str(self.java.path),
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(_spark_home(self.python)),
        }


def table_environment() -> TableEnvironment:
    """Build and fetch what is not there yet.

    Errors: BackendUnavailable without Java or javac, without Python 3.11, or without the packages or jars.
    """
    search = search_java()
    if search.home is None:
        raise BackendUnavailable(f"Spark needs Java: {search.reason}")
    python = PYSPARK.python()
    require_version(python)
    try:
        jars = [fetch(jar, java=search.home) for jar in JARS]
    except CapabilityMissing as error:
        raise BackendUnavailable(str(error)) from error
    bundled = sorted((_spark_home(python) / "jars").glob("*.jar"))
    client = compiled_client(search.home, [*jars, *bundled])
    return TableEnvironment(python=python, java=search.home, jars=(*jars, client))


def _spark_home(python: Path) -> Path:
    found = sorted(python.parent.parent.glob("lib/python*/site-packages/pyspark"))
    if not found:
        raise BackendUnavailable(f"the environment of {python} has no pyspark; remove it, and it is built anew")
    return found[-1]


def require_version(python: Path) -> None:
    """Errors: BackendUnavailable if another Spark was put into the environment: Hudi's bundle is for one line of it."""
    expected = PYSPARK.packages.version
    found = sorted(each.name for each in _spark_home(python).parent.glob("pyspark-*.dist-info"))
    if found != [f"pyspark-{expected}.dist-info"]:
        told = ", ".join(name.removesuffix(".dist-info") for name in found) or "no pyspark"
        raise BackendUnavailable(
            f"{python} has {told}, and {BUNDLE.file_name} needs pyspark {expected}; remove that environment"
        )


def compiled_client(java: JavaHome, class_path: Iterable[Path]) -> Path:
    """The folder with the class that Hudi loads for s3. Errors: BackendUnavailable without javac, or if it fails."""
    compiler = java.executable.with_name("javac")
    if not compiler.is_file():
        raise BackendUnavailable(f"{java} has no javac; install a full JDK")
    told = hashlib.sha256(CLIENT.read_bytes() + java.version.encode()).hexdigest()[:8]
    folder = backend_cache() / f"hudi-s3-lock-client-{told}"
    built = folder / "lock-client.jar"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(folder / "lock"):
            if not built.is_file():
                with tempfile.TemporaryDirectory(dir=folder) as scratch:
                    work = Path(scratch)
                    paths = os.pathsep.join(map(str, class_path))
                    _run([str(compiler), "-nowarn", "-cp", paths, "-d", str(work / "classes"), str(CLIENT)])
                    made = shutil.make_archive(str(work / "client"), "zip", work / "classes")
                    Path(made).replace(built)
    except OSError as error:
        raise BackendUnavailable(f"cannot build {built}: {error}; set LOCKREF_CACHE") from error
    return built


def _run(step: list[str]) -> None:
    try:
        done = subprocess.run(
            step, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=JAVAC_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BackendUnavailable(f"compiling {CLIENT.name} took more than {JAVAC_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise BackendUnavailable(f"compiling {CLIENT.name} failed:\n{(done.stdout + done.stderr)[-_TAIL:]}")
