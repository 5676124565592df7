"""The locks that are known, and how a name on the command line becomes one.

Four spellings: a built-in name (`hudi`, `hardened`), a name registered by an
installed package under the entry-point group `lockref.providers`,
`module:Class`, and `path/file.py:Class`. Each way of failing to load a
stranger's lock is one `ConfigError` line that says what to change.

A lock is a class with the methods of `lockref.provider.LockProvider`, made by
`Class.from_context(context)` where it has that, else by `Class(context)`. Its
optional class attributes:

    decode_state      a `StateDecoder`: from key and bytes to the locks that they describe
    decode_record     a `RecordDecoder`, for objects of one lock each; default: RFC-91 records
    record_format     the name of its records, such as "rfc91"
    protocol          how its grants are told from a history, such as "delta-lease"; default: from its records
    claims            the optional clauses that it promises, and what it declares of itself (`lockref.claims`)
    refuses           a function of `LockSettings`: why it does not take them, "" if it does
    is_reentrant      the task that holds may lock again
    is_fork_safe      it refuses service in a forked child
    can_resume        the next process of a client that crashed takes its own lock back at once
    needs_real_time   it has clocks or threads that no simulation can turn
    needs_threads     its frames belong to the thread that made them: a simulation gives each task a thread of its own
    set_up            called without arguments in each process before its first run, for what a run may not do; it may
                      raise `CapabilityMissing`
    stands_on         the kind of service that its lock lives in; default: "object_store"
    default_lock_key  the key of its object, row or znode where a run names none; default: "table/lock", and for RFC-91
                      records its key below a table
    watch_ns          a function of `LockSettings`, for records that tell a duration: for how long a waiter must see
                      an unchanged record before it takes over; with a poll, if it looks once per poll, since it may
                      see the last change so much later
    interface_version the version of the provider interface that it is written against
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from lockref.claims import refusal
from lockref.errors import ConfigError, did_you_mean, quote
from lockref.foreign_modules import StuckImport, importable, module_from_file
from lockref.lab.contract import CheckedDecoder, CheckedStateDecoder, OneRecord
from lockref.provider import (
    DEFAULT_LOCK_KEY,
    INTERFACE_VERSION,
    LockContext,
    LockProvider,
    LockSettings,
    NodeProgram,
    ProviderFactory,
    StateDecoder,
)
from lockref.rooms import PACKAGES
from lockref.services import DEFAULT_KIND, SERVICES
from lockref.stores.keys import check_key

BUILT_IN: Mapping[str, str] = {
    "hudi": "lockref.storage.hudi.lock_manager:HudiLock",
    "hudi-jvm": "lockref.originals.hudi:HudiOriginalLock",
    "hardened": "lockref.storage.lock:StorageLock",
    "dynamodb": "lockref.dynamodb.lease:DynamoLock",
    "dynamodb-lock-0.5": "lockref.dynamodb.shipped.crate:Crate",
    "dynamodb-lock-0.6.1": "lockref.dynamodb.shipped.crate:CrateWithTimeToLive",
    "dynamodb-lock-0.6.1-pr6": "lockref.dynamodb.shipped.crate:CrateWithFix",
    "dynamodb-awslabs-hold-on-unavailable": "lockref.dynamodb.shipped.java_client:JavaClient",
    "dynamodb-python-danger": "lockref.dynamodb.shipped.python_client:PythonClient",
    "znode-lease": "lockref.coordination.lease:ZnodeLease",
    "helix-lock": "lockref.helix.shipped.provider:HelixNonblockingLock",
    "helix": "lockref.helix.lock:HelixLock",
    "helix-recipe": "lockref.helix.lock:RecipeLock",
}
"""The locks of this package. `hudi` is the unsafe baseline of RFC-91, answer by answer, and `hardened` its reference.
`hudi-jvm` is Hudi's own class in the JVM of this process.

`dynamodb` is the reference of Delta Lake's lease; what stands below it was shipped so.
"""

ENTRY_POINTS = "lockref.providers"
_METHODS: Mapping[str, tuple[object, ...]] = {"try_lock": (), "lock": (1.0,), "unlock": (), "holds": (), "close": ()}
"""What is called, with what."""

_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSpec:
    """A lock that can be made, and how the checks read the states that it writes.

    name: as people read it, and as histories name the lock; every process of a run uses the same one.
    reference: with what another process loads the same lock: what `load_provider` was given, a file by its absolute
        path. None for a spec made in code, which crosses to another process only if its parts can be pickled.
    needs_real_time: it has clocks or threads of its own, so no simulation can say anything about it.
    needs_threads: its frames belong to the thread that made them, so a simulation gives each task a thread of its own.
    set_up: what it needs in a process before its first run there; None for nothing.
    refuses: why it does not take some settings, "" if it does; None for a lock that takes whatever it is given.
    is_reentrant: it promises that the task that holds may lock again.
    record_format: the protocol that its records belong to. Locks that name one
        format can contend for one object; None: it shares its object with its like only.
    protocol: how its grants are told from a history (`reports.checks.facts.sources.protocols`);
        None: from the records that it writes.
    is_fork_safe: it promises that a forked child can do nothing with its parent's lock.
    can_resume: it promises that the next process of a client takes back at once what a crashed one held.
    stands_on: the kind of service that its lock lives in, such as "object_store" or "table".
    companion: the program of a node that must work beside its clients, such as the controller that assigns the lock
        (see `load_program`). A scenario that declares no nodes gets one of it, called "controller".
    several: makes the locks of one process that share what they stand on, one for each context; None where each is made
        by itself.
    default_lock_key: the key of its lock in a run; a real run puts a folder of its own before it.
    watch_ns: for how long its waiters must see an unchanged record before they take over, in nanoseconds;
        None where records say themselves when they end.
    """

    name: str
    factory: ProviderFactory
    decode: StateDecoder
    claims: tuple[str, ...] = ()
    reference: str | None = None
    needs_real_time: bool = False
    needs_threads: bool = False
    set_up: Callable[[], None] | None = None
    refuses: Callable[[LockSettings], str] | None = None
    is_reentrant: bool = False
    record_format: str | None = None
    protocol: str | None = None
    is_fork_safe: bool = False
    can_resume: bool = False
    stands_on: str = DEFAULT_KIND
    companion: str | None = None
    several: Callable[[Sequence[LockContext]], Sequence[LockProvider]] | None = None
    default_lock_key: str = DEFAULT_LOCK_KEY
    watch_ns: Callable[[LockSettings], int] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        if self.reference is not None:
            return _load_as, (self.name, self.reference, self.claims)
        return _spec_of_parts, tuple(getattr(self, part) for part in _PARTS)

    def require_virtual_time(self, *, sets_up: bool = True) -> None:
        """Set the lock up in this process, unless `sets_up` is False.

        Errors: ConfigError if it lives in real time only; what `set_up` raises.
        """
        if self.needs_real_time:
            raise ConfigError(
                f"provider {self.name!r} lives in real time only: it has clocks and threads of its own, which no "
                "simulation can turn; use `lockref bench`"
            )
        if sets_up and self.set_up is not None:
            self.set_up()


_PARTS = tuple(part.name for part in fields(ProviderSpec) if part.name != "reference")


def _load_as(name: str, reference: str, claims: tuple[str, ...]) -> ProviderSpec:
    """The lock of `reference`, under the name and with the claims that it has where the run began."""
    found = load_provider(reference, name=name)
    # The same object where nobody declared more, so that what is remembered of it is found.
    return found if found.claims == claims else replace(found, claims=claims)


def _spec_of_parts(*parts: Any) -> ProviderSpec:
    return ProviderSpec(**dict(zip(_PARTS, parts, strict=True)))


def registered() -> dict[str, str]:
    """Name to `module:Class` of every lock known by name: ours, then those of installed packages."""
    found = {point.name: point.value for point in metadata.entry_points(group=ENTRY_POINTS)}
    return {**found, **BUILT_IN}


def is_installed_code(reference: str) -> bool:
    """True for a lock or a program that a name, or a module of this package, stands for.

    Any other reference means somebody else's code. A file that comes from a stranger may name whatever it likes.
    """
    if ":" not in reference:
        return True
    source = reference.rpartition(":")[0]
    return "/" not in source and not source.endswith(".py") and source.partition(".")[0] in PACKAGES


def description_of(name: str, home: str) -> dict[str, str]:
    """The description of one of `registered` in a listing: its claims and worlds, or the error if it does not load."""
    row = {"name": name, "class": home, "origin": "built in" if name in BUILT_IN else "entry point"}
    try:
        spec = load_provider(name)
    except ConfigError as error:
        return {**row, "error": str(error)}
    worlds = "real" if spec.needs_real_time else "simulated, real"
    return {**row, "claims": ", ".join(spec.claims), "worlds": worlds}


def load_provider(reference: str, *, name: str | None = None) -> ProviderSpec:
    """The lock that `reference` names.

    name: what results and messages call it; None: by its reference.
    Errors: ConfigError for an unknown name, a module or file that is missing or
    fails to import, a class that is missing or is no lock.
    """
    name = reference if name is None else name
    if reference in BUILT_IN:
        return _load(BUILT_IN[reference], name=name, reference=reference)
    if ":" not in reference:
        known = registered()
        if reference not in known:
            if reference.endswith(".py"):
                raise ConfigError(f"provider {reference!r} names a file, but no class in it: write '{reference}:Class'")
            raise ConfigError(
                f"provider {reference!r} is not known; expected one of {', '.join(sorted(known))}, "
                f"'module:Class' or 'path/file.py:Class'.{did_you_mean(reference, known)}"
            )
        return _load(known[reference], name=name, reference=reference)
    return _load(reference, name=name, reference=reference)


def _load(target: str, *, name: str, reference: str) -> ProviderSpec:
    found, absolute = _find(target, whose=f"provider {target!r}")
    return provider_from(found, name=name, reference=absolute if reference == target else reference)


def _find(target: str, *, whose: str) -> tuple[object, str]:
    """The object that `module:Class` or `path/file.py:Class` names, and the same target with an absolute path.

    whose: how complaints begin, such as "provider 'x'".
    """
    source, _, attribute = target.rpartition(":")
    if not source or not attribute:
        raise ConfigError(f"{whose}: expected 'module:Class' or 'path/file.py:Class'")
    if source.endswith(".py") or "/" in source:
        path = Path(source).resolve()
        return _attribute(_module_from_file(path, whose), attribute, whose), f"{path}:{attribute}"
    return _attribute(_module_by_name(source, whose), attribute, whose), target


def load_decoder(reference: str, *, whose: str) -> StateDecoder:
    """The function of key and bytes that `module:NAME` or `path/file.py:NAME` names, held to its promises.

    A class stands for its `decode_state`, so that any provider's decoder can be named. whose: how complaints begin.
    Errors: ConfigError for a module or file that is missing or fails to import, and for what cannot be called.
    """
    found, _ = _find(reference, whose=whose)
    decode = getattr(found, "decode_state", found)
    if not callable(decode) or isinstance(decode, type):
        raise ConfigError(f"{whose} is no decoder: expected a function of key and bytes, or a class with decode_state")
    return CheckedStateDecoder(decode, reference.rpartition(":")[2])


def program_stands_on(reference: str) -> str | None:
    """The kind of service that a node's program is made for, as its class declares (`stands_on`); None for any.

    Errors: as `load_program`.
    """
    found, _ = _find(reference, whose=f"program {reference!r}")
    kind = getattr(found, "stands_on", None)
    return kind if isinstance(kind, str) else None


def load_program(reference: str) -> Callable[[LockContext], NodeProgram]:
    """The class of a `NodeProgram` that `module:Class` or `path/file.py:Class` names.

    Errors: ConfigError for a module or file that is missing or fails to import,
    and for what cannot be made from a context or has no `run()`.
    """
    whose = f"program {reference!r}"
    found, _ = _find(reference, whose=whose)
    if not isinstance(found, type):
        raise ConfigError(f"{whose} is {type(found).__name__}, expected a class (see lockref.provider.NodeProgram)")
    run: object = getattr(found, "run", None)
    if not callable(run):
        raise ConfigError(f"{whose} is no program: it has no run() (see lockref.provider.NodeProgram)")
    build = _builder(found)
    _require_call(whose, f"{found.__name__}(context)", build, (None,))
    _require_call(whose, "run()", run, (None,))
    return build


def _builder(made: type) -> Callable[[LockContext], Any]:
    build: Callable[[LockContext], Any] = getattr(made, "from_context", made)
    return build


def _module_by_name(source: str, whose: str) -> ModuleType:
    # A module of this package has no neighbours in the user's folder, so the search for them is left out.
    is_own = source.partition(".")[0] == __name__.partition(".")[0]
    try:
        with nullcontext() if is_own else importable(Path.cwd(), source):
            return importlib.import_module(source)
    except ModuleNotFoundError as error:
        if error.name is not None and (source == error.name or source.startswith(f"{error.name}.")):
            raise ConfigError(
                f"{whose}: there is no module {error.name!r} on the path; for a file write 'path/file.py:Class'."
                f"{did_you_mean(error.name, _modules_beside(error.name))}"
            ) from error
        raise ConfigError(f"{whose}: its module needs {error.name!r}, which is not installed") from error
    except StuckImport as error:
        raise ConfigError(f"{whose}: the import of {source} {error}") from error
    except (Exception, SystemExit) as error:  # A stranger's module may raise anything while it is imported.
        raise ConfigError(f"{whose}: its module fails to import: {_one_line(error)}") from error


def _modules_beside(name: str) -> list[str]:
    """The modules that could have been meant by `name`: those of its package, or those on the path."""
    package, _, _ = name.rpartition(".")
    if not package:
        return [module.name for module in pkgutil.iter_modules([str(Path.cwd()), *sys.path])]
    return [f"{package}.{module.name}" for module in pkgutil.iter_modules(sys.modules[package].__path__)]


def _module_from_file(path: Path, whose: str) -> ModuleType:
    if not path.is_file():
        near = did_you_mean(path.name, sorted(file.name for file in path.parent.glob("*.py")))
        raise ConfigError(f"{whose}: there is no file {path}{near and '.'}{near}")
    if path.suffix != ".py":
        raise ConfigError(f"{whose}: {path.name} is not a Python file (.py)")
    try:
        return module_from_file(path)
    except StuckImport as error:
        raise ConfigError(f"{whose}: the import of {path.name} {error}") from error
    except (Exception, SystemExit) as error:  # A stranger's module may raise anything while it is imported.
        raise ConfigError(f"{whose}: {path.name} fails to import: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _attribute(module: ModuleType, attribute: str, whose: str) -> object:
    found = getattr(module, attribute, None)
    if found is None:
        classes = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise ConfigError(f"{whose}: the module has no {attribute!r}.{did_you_mean(attribute, classes)}")
    return found


def provider_from(made: object, *, name: str, reference: str | None = None) -> ProviderSpec:
    """The spec of a provider class, checked as far as that goes without making a lock."""
    if not isinstance(made, type):
        raise ConfigError(f"provider {name!r} is {type(made).__name__}, expected a class (see lockref.provider)")
    missing = [method for method in _METHODS if not callable(getattr(made, method, None))]
    if missing:
        raise ConfigError(f"provider {name!r} is no lock: it has no {', '.join(missing)} (see LockProvider)")
    version = getattr(made, "interface_version", INTERFACE_VERSION)
    if version != INTERFACE_VERSION:
        raise ConfigError(
            f"provider {name!r} speaks interface version {version!r}; this lockref speaks {INTERFACE_VERSION}"
        )
    claims = getattr(made, "claims", ())
    if (wrong := refusal(claims)) is not None:
        raise ConfigError(f"provider {name!r} {wrong}")
    record_format = getattr(made, "record_format", None)
    if record_format is not None and not (isinstance(record_format, str) and record_format):
        raise ConfigError(f"provider {name!r}: record_format is {record_format!r}; expected a name such as 'rfc91'")
    stands_on = getattr(made, "stands_on", DEFAULT_KIND)
    if not isinstance(stands_on, str) or stands_on not in SERVICES:
        near = did_you_mean(stands_on, SERVICES) if isinstance(stands_on, str) else ""
        raise ConfigError(
            f"provider {name!r}: stands_on is {quote(stands_on)}; expected one of {', '.join(SERVICES)}.{near}"
        )
    companion = getattr(made, "companion", None)
    if companion is not None and not (isinstance(companion, str) and ":" in companion):
        raise ConfigError(f"provider {name!r}: companion is {companion!r}; expected a program such as 'module:Class'")
    watch_ns = getattr(made, "watch_ns", None)
    if watch_ns is not None and not callable(watch_ns):
        raise ConfigError(f"provider {name!r}: watch_ns is {watch_ns!r}; expected a function of the lock's settings")
    several = getattr(made, "several", None)
    if several is not None and not callable(several):
        raise ConfigError(f"provider {name!r}: several is {several!r}; expected a function of lock contexts")
    return ProviderSpec(
        name=name,
        several=several,
        factory=_factory(made, name),
        decode=_decoder(made, name),
        claims=tuple(sorted(set(claims))),
        reference=reference,
        needs_real_time=bool(getattr(made, "needs_real_time", False)),
        needs_threads=bool(getattr(made, "needs_threads", False)),
        set_up=getattr(made, "set_up", None),
        refuses=getattr(made, "refuses", None),
        is_reentrant=getattr(made, "is_reentrant", False) is True,
        record_format=record_format,
        protocol=_protocol(made, name, record_format),
        is_fork_safe=getattr(made, "is_fork_safe", False) is True,
        can_resume=getattr(made, "can_resume", False) is True,
        stands_on=stands_on,
        companion=companion,
        default_lock_key=_default_lock_key(made, name, record_format),
        watch_ns=watch_ns,
    )


def _default_lock_key(made: type, name: str, record_format: str | None) -> str:
    declared = getattr(made, "default_lock_key", None)
    if declared is None:
        if record_format != "rfc91":
            return DEFAULT_LOCK_KEY
        # Imported late: a stranger's lock of another format needs no RFC-91 code.
        from lockref.storage.config import RFC91_LOCK_KEY

        return RFC91_LOCK_KEY
    try:
        if isinstance(declared, str):
            return check_key(declared)
    except ValueError as error:
        raise ConfigError(f"provider {name!r}: default_lock_key: {error}") from error
    raise ConfigError(f"provider {name!r}: default_lock_key is {declared!r}; expected a key such as 'table/lock'")


def _protocol(made: type, name: str, record_format: str | None) -> str | None:
    protocol = getattr(made, "protocol", "rfc91" if record_format == "rfc91" else None)
    if protocol is not None and not (isinstance(protocol, str) and protocol):
        raise ConfigError(f"provider {name!r}: protocol is {protocol!r}; expected a name such as 'delta-lease'")
    return protocol


@lru_cache(maxsize=64)
def _declares_grant(kind: type) -> bool:
    """True for a class that has `grant`, or finds it itself. Remembered: each process of each run makes a lock."""
    return any("grant" in vars(base) or "__getattr__" in vars(base) for base in kind.__mro__)


@dataclass(frozen=True, slots=True)
class _Made:
    """Makes locks of one class; a class of its own, so that a spec made in code can be pickled."""

    made: type

    def __call__(self, context: LockContext) -> LockProvider:
        lock: LockProvider = _builder(self.made)(context)
        missing = [method for method in _METHODS if not callable(getattr(lock, method, None))]
        # Looked up without running it: a property may be worth asking only later.
        if not _declares_grant(type(lock)) and inspect.getattr_static(lock, "grant", _ABSENT) is _ABSENT:
            missing.append("grant")
        if missing:
            raise ConfigError(
                f"provider {self.made.__name__!r} made {type(lock).__name__}, which is no lock: "
                f"it has no {', '.join(missing)} (see LockProvider)"
            )
        return lock


def _factory(made: type, name: str) -> ProviderFactory:
    whose = f"provider {name!r}"
    build = _builder(made)
    if not callable(build):
        raise ConfigError(f"{whose}: from_context is not callable")
    what = "from_context" if hasattr(made, "from_context") else made.__name__
    _require_call(whose, f"{what}(context)", build, (None,))
    for method, arguments in _METHODS.items():
        found = inspect.getattr_static(made, method)
        is_bound = isinstance(found, staticmethod | classmethod)
        shown = ", ".join(f"{argument:g}" for argument in arguments if isinstance(argument, float))
        _require_call(whose, f"{method}({shown})", getattr(made, method), (*(() if is_bound else (None,)), *arguments))
    return _Made(made)


def _require_call(whose: str, call: str, function: Callable[..., object], arguments: tuple[object, ...]) -> None:
    """Raises ConfigError if `function` cannot be called so; what it takes is not always known."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"{whose}: {call} is async; it is called as a blocking function")
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise ConfigError(f"{whose} cannot be called as {call}: {error}") from error
    except ValueError:
        return


def _decoder(made: type, name: str) -> StateDecoder:
    decode_state = getattr(made, "decode_state", None)
    decode_record = getattr(made, "decode_record", None)
    if decode_state is not None:
        if not callable(decode_state):
            raise ConfigError(
                f"provider {name!r}: decode_state must be a function of key and bytes, not {decode_state!r}"
            )
        return CheckedStateDecoder(decode_state, name)
    if decode_record is None:
        # Imported late: a stranger's lock of another format needs no RFC-91 code.
        from lockref.storage.lockfile import decode as decode_rfc91

        return OneRecord(decode_rfc91)
    if not callable(decode_record):
        raise ConfigError(f"provider {name!r}: decode_record must be a function of bytes, not {decode_record!r}")
    return CheckedDecoder(decode_record, name)
