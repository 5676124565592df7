"""The JVM inside this process, through JPype. One process can have one, and cannot start it again.

A Java thread that waits on the machine's clock keeps its process for ever (D12), so whoever starts one ends it.
"""

from __future__ import annotations

import threading  # noqa: TID251 - Java keeps something of each thread
from collections.abc import Sequence
from typing import Any, Final

from lockref.errors import CapabilityMissing
from lockref.extras import install
from lockref.java import search_java
from lockref.originals.jars import Jar, bundled, fetch
from lockref.runtime import ThreadRuntime

_STARTING: Final = ThreadRuntime().mutex()
"""Two threads that start the JVM at once bring the process down: whether it runs is asked under this."""


class _Attachment:
    """Lasts as long as the thread that made it, and lets go of what Java keeps of that thread."""

    def __init__(self) -> None:
        # Found while there is a JVM: the last threads end after it, and may still detach.
        self._detach = java().JClass("java.lang.Thread").detach

    def __del__(self) -> None:
        self._detach()


_of_thread: Final = threading.local()


def java() -> Any:
    """The bridge to Java. Whoever asks has called `start_jvm`."""
    import jpype

    return jpype


def leave_with_thread() -> None:
    """Before a call of Java: what Java keeps of the calling thread goes when it ends. A seed has a dozen threads."""
    if not hasattr(_of_thread, "attachment"):
        _of_thread.attachment = _Attachment()


def start_jvm(jars: Sequence[Jar], *, beside: Sequence[str]) -> None:
    """Start the JVM of this process with these jars, once, whichever thread comes first. Later calls add no jar.

    beside: names of jars that pyspark has, without `.jar`; `*` stands for a version.
    Raises CapabilityMissing: no JPype, no Java, no pyspark, no jar.
    """
    try:
        import jpype
    except ImportError as error:
        raise CapabilityMissing(f"Java's classes need jpype1, which is missing: {install('originals')}") from error
    with _STARTING:
        if not jpype.isJVMStarted():
            _start(jpype, jars, beside)


def _start(jpype: Any, jars: Sequence[Jar], beside: Sequence[str]) -> None:
    search = search_java()
    if search.home is None:
        raise CapabilityMissing(search.reason)
    libraries = sorted(search.home.path.rglob("libjvm.*"))
    if not libraries:
        raise CapabilityMissing(f"{search.home} has no libjvm: install a full runtime")
    class_path = [*(fetch(jar, java=search.home) for jar in jars), *(bundled(f"{name}.jar") for name in beside)]
    jpype.startJVM(
        "-Dslf4j.internal.verbosity=ERROR",
        # Signals are the command's own: Java would end its machine at the first Ctrl-C, in the middle of a run.
        "-Xrs",
        "-Xmx256m",
        # Few lines of Java run between two calls of Python: compiling them well takes longer than it saves.
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        jvmpath=str(libraries[-1]),
        classpath=[str(path) for path in class_path],
        convertStrings=False,
    )
