"""May a lock open this store? The quick form of the probe answers, or a fingerprint of the full one.

A store that ignores a condition is refused, unless whoever opens it has said that it may be used all the same: to see a
lock break on it, for instance.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lockref.clouds.uri import open_store, parse_store_uri
from lockref.errors import CapabilityMissing
from lockref.extras import naming_the_extra
from lockref.runtime import NS_PER_S
from lockref.stores.probe.clauses import not_needed
from lockref.stores.probe.measured import Measurements
from lockref.stores.probe.selftest import RACERS_DEFAULT, measure, require_kept

if TYPE_CHECKING:
    from lockref.stores.probe.fingerprint import Fingerprint

NEEDED: Final = "cas"
"""The design of our own locks: they create, and compare and swap."""

REACH_TIMEOUT_NS: Final = 10 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The rule by which a lock may open a store or may not.

    fingerprint: what vouches for it, in the place of a measurement. path: where that came from.
    allows_unsafe: a store that is known to be unsafe is used, and its faults are told.
    designs: of the lock that will use the store (`designs_of`): a measurement refuses a store only for what these stand
    on. Empty: not known. Then a measurement refuses for whatever it asks, and a fingerprint must vouch for `NEEDED`.
    """

    fingerprint: Fingerprint | None = None
    path: Path = Path()
    allows_unsafe: bool = False
    designs: tuple[str, ...] = ()

    @classmethod
    def by(cls, path: Path | None, *, allows_unsafe: bool = False, designs: tuple[str, ...] = ()) -> Admission:
        """The admission that the options of a command describe.

        Errors: ConfigError for a file that is no fingerprint.
        """
        if path is None:
            return cls(allows_unsafe=allows_unsafe, designs=designs)
        with naming_the_extra("a fingerprint needs"):
            from lockref.stores.probe import fingerprint  # Its checks load pydantic: a lock without one never needs it.

        return cls(fingerprint=fingerprint.load(path), path=path, allows_unsafe=allows_unsafe, designs=designs)

    def measure(
        self,
        uri: str,
        *,
        tolerated: frozenset[str] = frozenset(),
        below: str = "lockref-ready",
        request_timeout_ns: int = REACH_TIMEOUT_NS,
    ) -> tuple[Measurements | None, tuple[str, ...]]:
        """The measurement of the store, None where a fingerprint vouches for it, and the notices that follow from it.

        tolerated: clauses that this store is known to break, beside those on which the lock's designs do not stand.
        below: the prefix of the objects that are written, and removed again. request_timeout_ns: bounds each request.
        Errors: CapabilityMissing for a store that ignores a condition; ConfigError for the fingerprint of another one;
        BackendUnavailable if it does not answer.
        """
        address = parse_store_uri(uri)
        if self.fingerprint is not None:
            from lockref.stores.probe.fingerprint import require_for

            require_for(self.fingerprint, address, path=self.path)
            return None, self._vouched(str(address))
        with contextlib.closing(
            open_store(uri, request_timeout_ns=request_timeout_ns, pool_size=RACERS_DEFAULT)
        ) as store:
            found = measure(store, below, address=str(address), patience_ns=REACH_TIMEOUT_NS)
        if not self.allows_unsafe:
            spared = not_needed(self.designs) if self.designs else frozenset()
            require_kept(found, address=str(address), tolerated=tolerated | spared)
        return found, ()

    def _vouched(self, address: str) -> tuple[str, ...]:
        assert self.fingerprint is not None, "only a fingerprint can vouch for a store"
        needed = [self.fingerprint.designs[name] for name in self.designs or (NEEDED,)]
        told = f"the fingerprint {self.path} of {self.fingerprint.date_utc}"
        lacking = [f"of {design.title}: {design.verdict} ({design.why})" for design in needed
                   if design.verdict != "can carry"]  # fmt: skip
        if not lacking:
            titles = " and by ".join(design.title for design in needed)
            return (f"{address} was not measured: {told} says that it can carry a lock by {titles}",)
        answer = f"{told} says {'; '.join(lacking)}"
        if not self.allows_unsafe:
            raise CapabilityMissing(
                f"{address} is not used: {answer}. Choose another store, probe again, or accept an unsafe store "
                "(--unsafe-store, allows_unsafe=True)"
            )
        return (f"{address} is used although {answer}",)


MEASURED: Final = Admission()
"""By the quick form alone, as everything does that names no fingerprint."""
