"""The one Spark session of a process: on loopback, bounded, and tidy.

Every setting is here with its reason. All that Spark writes goes into a
folder of its own under the caller's work folder, which is removed with the
JVM; all that it listens on is 127.0.0.1. Nothing happens at import; a session
costs 2 to 10 seconds, so `start_in_background` lets a caller begin it before it
is needed. A verdict on one run needs none of this.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil

import lockref
from lockref.errors import BackendUnavailable, CapabilityMissing
from lockref.host_processes import cores
from lockref.java import JavaHome, search_java
from lockref.temporary_folders import owned_folder
from reports.spark.home import write_spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAP_MB_MAX = 4096
HEAP_MB_MIN = 512
LOOPBACK = "127.0.0.1"
CONNECT_S = 5.0
_SHORT_OPTIONS = (
    # The JVM starts tasks and little else: its second compiler would cost more than it saves.
    "-XX:TieredStopAtLevel=1",
    # With one compiler the JVM reserves 48 MB for code; four small passes fill that, and it stops compiling.
    "-XX:ReservedCodeCacheSize=240m",
)
PROJECT_ROOT = Path(lockref.__file__).resolve().parent.parent

_starting = threading.Lock()
_session: SparkSession | None = None
_folders = contextlib.ExitStack()
"""The folder of the session, for as long as there is one."""
_SUBMITS = "org.apache.spark.deploy.SparkSubmit"
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def spark_session(
    work_dir: Path | str,
    *,
    master: str = "",
    further: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """The session of this process, started on the first call.

    work_dir: where Spark keeps its launcher, shuffle files and warehouse.
        Later calls return the running session, which stays in its first folder.
    master: of a cluster, as Spark writes it; "" for the cores of this machine.
    further: Spark settings beside ours, and in their place.
    Raises CapabilityMissing if there is no Java or Spark does not start, and BackendUnavailable if nothing answers as
        `master`.
    """
    global _session
    with _starting:
        if _session is None or _session.sparkContext._jsc is None:  # noqa: SLF001  (stopped by somebody)
            _session = _start(Path(work_dir), master=master, further=further)
        return _session


def start_in_background(work_dir: Path | str) -> Future[SparkSession]:
    """Begin to start the session; `result()` waits for it and raises what `spark_session` raises."""
    starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark-start")
    pending = starter.submit(spark_session, work_dir)
    starter.shutdown(wait=False)
    return pending


def stop() -> None:
    """End the session and its JVM, if there is one. Idempotent."""
    global _session
    with _starting:
        if _session is None:
            return
        from py4j.protocol import Py4JError
        from pyspark import SparkContext

        gateway = SparkContext._gateway  # noqa: SLF001  (the wheel offers no public way to end its JVM)
        try:
            _session.stop()
        except (Py4JError, OSError):
            # The JVM was killed. Asked once more, pyspark forgets its context without asking the JVM.
            with contextlib.suppress(Py4JError, OSError):
                _session.sparkContext.stop()
        _session = None
        if gateway is not None:
            with contextlib.suppress(Py4JError, OSError):
                gateway.shutdown()
            with contextlib.suppress(OSError):
                gateway.proc.stdin.close()
            gateway.proc.wait(timeout=30)
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        _folders.close()


def kill() -> None:
    """End the JVM of this process at once and unasked, also one that is still starting."""
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            words = child.cmdline()
            # The launcher is a shell script before it becomes the JVM.
            if _SUBMITS in words or any(word.endswith("/spark-submit") for word in words):
                child.kill()


def _say_nothing_of_its_end() -> None:
    """The command ends. Every thread that waits for the JVM would tell of that, some by the root logger."""
    logging.disable(logging.CRITICAL)
    _silence_servers()


def _silence_servers() -> None:
    """pyspark hears from the JVM's tasks by such a server, which prints a traceback when one of them is gone."""
    socketserver.BaseServer.handle_error = lambda *_request: None  # type: ignore[method-assign]


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """In this block Ctrl-C, SIGTERM and SIGHUP first kill the JVM, then do what they would have done.

    The stages of an analysis wait for their jobs on threads of their own, and a process does not end before its
    threads. pyspark's own answer to Ctrl-C asks the JVM to cancel its jobs, which takes as long as the JVM likes.
    Does nothing outside the main thread, which alone hears signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}
    is_heard = False

    def kill_first(number: int, frame: FrameType | None) -> None:
        nonlocal is_heard
        is_heard = True
        _say_nothing_of_its_end()
        kill()
        before[number](number, frame)

    for number in _SIGNALS:
        # A signal that is ignored stays so, and one that ends this process ends the JVM, too: its input closes.
        if callable(signal.getsignal(number)):
            before[number] = signal.signal(number, kill_first)
    try:
        yield
    except Exception as error:
        if is_heard:
            # A session that was starting cleans up after the signal, in a JVM that is gone.
            raise KeyboardInterrupt from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _at_exit() -> None:
    """The JVM of a session that nobody has stopped goes with its process, and its folder with it."""
    _silence_servers()
    kill()
    _folders.close()


def _start(work_dir: Path, *, master: str, further: Mapping[str, str]) -> SparkSession:
    expect_answer(master)
    found = search_java()
    if found.home is None:
        raise CapabilityMissing(f"Spark needs Java; {found.reason}")
    work_dir.mkdir(parents=True, exist_ok=True)
    _folders.close()
    folder = _folders.enter_context(owned_folder("spark", within=work_dir.resolve()))
    atexit.unregister(_at_exit)
    atexit.register(_at_exit)
    home = write_spark_home(folder / "home", java=found.home, heap_mb=heap_mb(), options=_SHORT_OPTIONS)
    is_here = is_loopback(master)
    with _environment(_launch_environment(home, found.home, is_here=is_here)), _own_handler():
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master or f"local[{cores()}]").appName("lockref")
        for name, value in {**settings(folder, is_here=is_here), **further}.items():
            builder = builder.config(name, value)
        try:
            session = builder.getOrCreate()
        except (Py4JError, ConnectionError) as error:
            # A JVM that ends on the way answers nothing, and then refuses.
            reason = str(getattr(error, "java_exception", error)).splitlines()[0][:300]
            raise BackendUnavailable(f"Spark did not start on {master or 'this machine'}: {reason}") from error
        except PySparkRuntimeError as error:
            raise CapabilityMissing(f"Spark did not start on {found.home}: {error}") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def is_loopback(master: str) -> bool:
    """True where all of Spark is on this machine: no cluster, or a master at a loopback address."""
    return master.startswith("local") or not master or urlsplit(master).hostname in ("localhost", LOOPBACK, "::1")


def expect_answer(master: str) -> None:
    """Raise BackendUnavailable where no address of a standalone master (`spark://host:port,host:port`) answers.

    Spark itself asks for a minute, and then tells it in a page of Java.
    """
    if not master.startswith("spark://"):
        return
    reasons = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S):
                return
        except (OSError, ValueError) as error:
            reasons.append(f"{address}: {error}")
    raise BackendUnavailable(f"no Spark master answers at {master} ({'; '.join(reasons)})")


def settings(folder: Path, *, is_here: bool = True) -> dict[str, str]:
    """Every Spark setting that we choose; `folder` takes what Spark writes. is_here: see `is_loopback`."""
    # Loopback only, where that is enough. Otherwise Spark listens on the host's address.
    address = {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK} if is_here else {}
    chosen = {
        **address,
        # No web page: its port clashes when several test processes run.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # 200 partitions, the default, cost 2 to 10 times more on inputs of this size.
        "spark.sql.shuffle.partitions": str(cores()),
        # Compiling a query to Java costs more than interpreting it: the rows are read and judged in Python workers.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "true",
        # Times are integers in nanoseconds; what overflows must be an error.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        # Nothing is left in the working tree.
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        # Workers forget where `python3` is; and a checkout that is not installed must be found, too.
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(PROJECT_ROOT), os.environ.get("PYTHONPATH", "")]),
        # A folder `reports` or `sim` where the user happens to stand is not ours.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if sys.version_info < (3, 12):
        chosen["spark.python.daemon.module"] = f"{__package__}.daemon"
    return chosen


def heap_mb() -> int:
    """The driver's heap: an eighth of the memory, at most 4 GiB. Python workers read and judge; the JVM starts them."""
    eighth = int(psutil.virtual_memory().total) // (8 << 20)
    return max(HEAP_MB_MIN, min(HEAP_MB_MAX, eighth))


def worker_bytes() -> int:
    """The memory that a worker of the local session may take: three quarters of all, in equal parts for each core."""
    return int(psutil.virtual_memory().total) * 3 // 4 // cores()


def _launch_environment(home: Path, java: JavaHome, *, is_here: bool) -> dict[str, str]:
    return {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(home),
        "SPARK_LOCAL_IP": LOOPBACK if is_here else os.environ.get("SPARK_LOCAL_IP", ""),
        "SPARK_LOCAL_DIRS": "",
        "JAVA_HOME": str(java.path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": "pyspark-shell",
    }


@contextlib.contextmanager
def _own_handler() -> Iterator[None]:
    """Put back what Ctrl-C did before: a new session in the main thread lets it ask the JVM (`ended_by_signals`)."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """Set variables while the JVM is launched (it copies them), then put back what was there."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update({name: value for name, value in changes.items() if value})
    for name in (name for name, value in changes.items() if not value):
        os.environ.pop(name, None)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
