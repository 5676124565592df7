"""The blame for an exception that ends a run: is it the fault of the lock under test, or of the laboratory?

A stranger's lock may raise anything. It must hear of it in one line that names
the lock, in both worlds alike; what the laboratory itself gets wrong stays a
defect with its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from lockref.errors import ConfigError, quote
from lockref.lab.loading import ProviderSpec
from lockref.provider import DEFAULT_STORE
from lockref.rooms import PACKAGES
from sim.world import World

_LOCKS = ("lockref.locks", "lockref.storage")
_LIBRARY_PATHS = ("site-packages", "dist-packages")
_WORDS_MAX = 200


class LockRaised(ConfigError):
    """The lock under test raised what is no LockError: its author mends it, or answers with a LockError.

    what: the error, in words. step: the function of the lock's own code that raised it, or that called what raised it.
    file, line: its place; "" and 0 where nothing of it was on the way. stood: what lay under the lock's key then.
    """

    what: str = ""
    step: str = ""
    file: str = ""
    line: int = 0
    stood: str = ""


def is_providers_fault(error: BaseException, provider: ProviderSpec) -> bool:
    """True if it came by way of code that is not the laboratory's: then it is the fault of the lock under test.

    What the laboratory's own parts refuse (a float where nanoseconds are
    meant, the release of a mutex that is not locked) is the fault of its caller.

    An error is never put down to an installed library: what called the library
    decides. The exception is a lock under test that is itself installed as one.

    A stranger's lock may be a subclass of the reference. Then the step that the
    stranger replaced has returned before the reference raises, and does not
    show in the traceback. So what the reference raises counts as the stranger's.
    """
    is_stranger = _room_of(provider) not in PACKAGES
    return any(
        is_foreign or (is_stranger and module.startswith(_LOCKS)) for *_, module, is_foreign in _walk(error, provider)
    )


def _own_step(error: BaseException, provider: ProviderSpec) -> tuple[str, int, str]:
    """The step in the lock's own code that raised, or called what raised: file, line, function; "" and 0 for none."""
    is_ours = _room_of(provider) in PACKAGES
    own_module = _module_of(provider)
    steps = [
        (file, line, step)
        for file, line, step, module, is_foreign in _walk(error, provider)
        if is_foreign or (is_ours and module == own_module)
    ]
    return steps[-1] if steps else ("", 0, "")


def _module_of(provider: ProviderSpec) -> str:
    return str(getattr(getattr(provider.factory, "made", provider.factory), "__module__", ""))


def _room_of(provider: ProviderSpec) -> str:
    return _module_of(provider).split(".")[0]


def _walk(error: BaseException, provider: ProviderSpec) -> Iterator[tuple[str, int, str, str, bool]]:
    """Each call on the way to the error, outermost first: file, line, function, module; is it the stranger's own?"""
    own = _room_of(provider)
    trace = error.__traceback__
    while trace is not None:
        code, module = trace.tb_frame.f_code, str(trace.tb_frame.f_globals.get("__name__", ""))
        room = module.split(".")[0]
        is_foreign = room not in PACKAGES and (room == own or not _is_library(room, code.co_filename))
        yield code.co_filename, trace.tb_lineno, code.co_qualname, module, is_foreign
        trace = trace.tb_next


def _is_library(room: str, file: str) -> bool:
    return room in sys.stdlib_module_names or any(folder in file for folder in _LIBRARY_PATHS)


def attributed(error: BaseException, provider: ProviderSpec, where: str, stood: str = "") -> LockRaised:
    """The one line that tells the lock's author. where: what is known of the place, for the reader.

    stood: what lay under the lock's key then; "" where that is not known.
    """
    words = " ".join(str(error).split())[:_WORDS_MAX]
    notes = "; ".join([where, *([stood] if stood else []), *getattr(error, "__notes__", ())])
    file, line, step = _own_step(error, provider)
    what = f"{type(error).__name__} at {file}:{line}" if file else type(error).__name__
    found = LockRaised(
        f"provider {provider.name!r} raised {what}: {words} ({notes}); a lock answers with LockError and its subclasses"
    )
    found.what, found.step, found.stood = f"{type(error).__name__}: {words}", step, stood
    found.file, found.line = file, line
    return found


def what_stood(world: World, key: str) -> str:
    """The object under the key of the lock, in words for the author of a lock that failed; "" without a store."""
    hosted = world.services.get(DEFAULT_STORE)
    if hosted is None:
        return ""
    body = hosted.past(key).body
    if body is None:
        return f"there was nothing under {key}"
    is_record = bool(hosted.look(key, body)[1])
    what = "" if is_record else "no record of this lock (raise CorruptRecord): "
    return f"{key} held {what}{quote(body)}"
