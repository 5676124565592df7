"""For test suites: is my lock safe (under pytest), and does my application use a lock rightly?

Every name loads on first use. `lockref.testing.plugin` is what pytest loads; it imports nothing of the laboratory
until a test asks for it. `docs/testing-your-application.md` shows all of this at work.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockref.opening import open_lock
    from lockref.testing.checking import LockResult, check_lock
    from lockref.testing.conformance import LockConformance, lock_scenarios
    from lockref.testing.stores import LocalStore

_HOMES = {
    "LocalStore": "lockref.testing.stores",
    "LockConformance": "lockref.testing.conformance",
    "LockResult": "lockref.testing.checking",
    "check_lock": "lockref.testing.checking",
    "lock_scenarios": "lockref.testing.conformance",
    "open_lock": "lockref.opening",
}

__all__ = ["LocalStore", "LockConformance", "LockResult", "check_lock", "lock_scenarios", "open_lock"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lockref.testing' has no attribute {name!r}")
    from lockref import rooms
    from lockref.extras import naming_the_extra

    # Before the laboratory loads: a project beside a checkout may have a `sim` of its own.
    rooms.pin()
    with naming_the_extra(f"lockref.testing.{name} needs", extra="lab"):
        return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
