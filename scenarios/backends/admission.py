"""May a run begin on this store? The quick form of the probe answers, or a fingerprint of the full one.

A store that ignores a condition is refused, unless whoever runs it has said that it may be used all the same: to see a
lock break on it, for instance.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lockref.errors import CapabilityMissing
from lockref.runtime import NS_PER_S
from lockref.stores.probe.measured import Measured
from lockref.stores.probe.selftest import RACERS_DEFAULT, measure, require_kept
from lockref.stores.uri import open_store, parse_store_uri
from scenarios.backends.readiness import REACH_TIMEOUT_S
from scenarios.probe import fingerprint

NEEDED: Final = "cas"
"""The design of the laboratory's own locks: they create, and compare and swap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """By what a store is let in.

    fingerprint: the document that vouches for it, in the place of a measurement. path: where that came from.
    allows_unsafe: a store that is known to be unsafe is used, and its faults are told.
    """

    fingerprint: Mapping[str, Any] | None = None
    path: Path = Path()
    allows_unsafe: bool = False

    @classmethod
    def by(cls, path: Path | None, *, allows_unsafe: bool = False) -> Admission:
        """What the command line says. Errors: ConfigError for a file that is no fingerprint."""
        document = None if path is None else fingerprint.load(path)
        return cls(fingerprint=document, path=path or Path(), allows_unsafe=allows_unsafe)

    def measured(self, uri: str, *, tolerated: frozenset[str] = frozenset()) -> tuple[Measured | None, tuple[str, ...]]:
        """What was measured of the store, None where a fingerprint vouches for it, and what is to be told of that.

        tolerated: clauses that a server of ours is known to break.
        Errors: CapabilityMissing for a store that ignores a condition; ConfigError for the fingerprint of another one;
        BackendUnavailable if it does not answer.
        """
        address = parse_store_uri(uri)
        if self.fingerprint is not None:
            fingerprint.require_for(self.fingerprint, address, path=self.path)
            return None, self._vouched(str(address))
        with contextlib.closing(
            open_store(uri, request_timeout_ns=REACH_TIMEOUT_S * NS_PER_S, pool_size=RACERS_DEFAULT)
        ) as store:
            found = measure(store, "lockref-ready", address=str(address), patience_ns=REACH_TIMEOUT_S * NS_PER_S)
        if not self.allows_unsafe:
            require_kept(found, address=str(address), tolerated=tolerated)
        return found, ()

    def _vouched(self, address: str) -> tuple[str, ...]:
        assert self.fingerprint is not None, "somebody vouches"
        design = self.fingerprint["designs"][NEEDED]
        told = f"the fingerprint {self.path} of {self.fingerprint['date_utc']}"
        if design["verdict"] == "can carry":
            return (f"{address} was not measured: {told} says that it can carry a lock by {design['title']}",)
        answer = f"{told} says of {design['title']}: {design['verdict']} ({design['why']})"
        if not self.allows_unsafe:
            raise CapabilityMissing(
                f"{address} is not used: {answer}. Choose another store, probe again, or add --unsafe-store"
            )
        return (f"{address} is used all the same: {answer}",)


MEASURED: Final = Admission()
"""By the quick form alone, as everything does that names no fingerprint."""
