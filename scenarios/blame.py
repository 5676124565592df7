"""Whose fault is an exception that ends a run: the lock's under test, or the laboratory's?

A stranger's lock may raise anything. It must hear of it in one line that names
the lock, in both worlds alike; what the laboratory itself gets wrong stays a
defect with its traceback.
"""

from __future__ import annotations

import sys

from lockref.errors import ConfigError
from lockref.providers import ProviderSpec

_ROOMS = ("sim", "scenarios", "lockref")
_LOCKS = "lockref.storage"
_LIBRARY_PATHS = ("site-packages", "dist-packages")
_WORDS_MAX = 200


def is_providers_fault(error: BaseException, provider: ProviderSpec) -> bool:
    """True if it came by way of code that is not the laboratory's: then the lock under test is to blame.

    What the laboratory's own parts refuse (a float where nanoseconds are
    meant, the release of a mutex that is not locked) is the caller's fault. Code of an
    installed library is blamed on nobody, unless the lock under test is itself
    installed as a library. Where a
    stranger's lock builds on the reference, what the reference raises is the
    stranger's doing: the step that he replaced has returned by then.
    """
    made = getattr(provider.factory, "made", provider.factory)
    own = str(getattr(made, "__module__", "")).split(".")[0]
    is_stranger = own not in _ROOMS
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        module = str(frame.f_globals.get("__name__", ""))
        room = module.split(".")[0]
        if room not in _ROOMS and (room == own or not _is_library(room, frame.f_code.co_filename)):
            return True
        if is_stranger and module.startswith(_LOCKS):
            return True
        trace = trace.tb_next
    return False


def place_of(error: BaseException, provider: ProviderSpec) -> str:
    """`file.py:17`, where in the lock's own code it was raised, or called what raised; empty if nowhere in it."""
    made = getattr(provider.factory, "made", provider.factory)
    own = str(getattr(made, "__module__", "")).split(".")[0]
    place = ""
    trace = error.__traceback__
    while trace is not None:
        code, module = trace.tb_frame.f_code, str(trace.tb_frame.f_globals.get("__name__", ""))
        room = module.split(".")[0]
        is_foreign = room not in _ROOMS and (room == own or not _is_library(room, code.co_filename))
        if is_foreign or (own in _ROOMS and module == getattr(made, "__module__", "")):
            place = f"{code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _is_library(room: str, file: str) -> bool:
    return room in sys.stdlib_module_names or any(folder in file for folder in _LIBRARY_PATHS)


def blamed(error: BaseException, provider: ProviderSpec, where: str) -> ConfigError:
    """The one line that tells the lock's author. where: what is known of the place, for the reader."""
    words = " ".join(str(error).split())[:_WORDS_MAX]
    notes = "; ".join([where, *getattr(error, "__notes__", ())])
    place = place_of(error, provider)
    what = f"{type(error).__name__} at {place}" if place else type(error).__name__
    return ConfigError(
        f"provider {provider.name!r} raised {what}: {words} ({notes}); a lock answers with LockError and its subclasses"
    )
