"""Remove all that a probe has made: objects, former versions and unfinished uploads below its own prefix.

This also runs after an error and after Ctrl-C. Its time is not part of the probe's time, and has a bound of its own. A
late request may land after its key was removed. So the removal is repeated until a listing finds nothing.

A probe that is killed removes nothing. The next one names what it finds of others, with its age, and leaves it there:
nothing proves that the other one has ended, as it may run on another machine.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lockref.clouds.calls import (
    ABORT,
    DELETE,
    DELETE_VERSION,
    LIST,
    READ,
    UPLOADS,
    VERSIONING,
    VERSIONS,
    Answer,
    Call,
    Inexpressible,
)
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.words import Outcome
from scenarios.probe.local import LocalStore
from scenarios.probe.session import PREFIX, began_wall_ns

if TYPE_CHECKING:
    from lockref.stores.probe.fingerprint import EarlierProbe
    from scenarios.probe.session import Session

BOUND_NS: Final = 60 * NS_PER_S
SETTLING_NS: Final = 200 * NS_PER_MS
LOST_MAX: Final = 5
LOST_AT_ONCE_NS: Final = NS_PER_S
"""An answer that is lost later than that was waited for."""

EARLIER_MAX: Final = 20
"""So many earlier probes are told, the oldest."""

IDLE_ROUNDS_MAX: Final = 8
"""So many listings in a row may show the same although everything in them was deleted: some lag behind."""


@dataclass(slots=True)
class Residue:
    """The result of the removal.

    reason: why something is left; "" if nothing is left. earlier: what other probes have left, or are using now.
    """

    prefix: str
    removed: int = 0
    requests: int = 0
    left: list[str] = field(default_factory=list)
    reason: str = ""
    earlier: list[EarlierProbe] = field(default_factory=list)

    def facts(self) -> dict[str, object]:
        """For the fingerprint."""
        return {
            "prefix": self.prefix, "requests": self.requests, "left": self.left[:20], "reason": self.reason,
            "earlier": [each.model_dump() for each in self.earlier[:EARLIER_MAX]],
        }  # fmt: skip


class _Sweep:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.residue = Residue(session.prefix)
        self.end_ns = session.runtime.monotonic_ns() + BOUND_NS
        self.is_stuck = False
        """Something could not be removed, so nothing more is tried, and what is left was told."""

    @property
    def is_late(self) -> bool:
        return self.session.runtime.monotonic_ns() > self.end_ns

    def send(self, call: Call) -> Answer:
        """One request, again while it is throttled, and some more times where its answer was lost at once.

        Whatever is sent here may be carried out twice. A store that lets us wait for nothing is not asked again.
        """
        lost = 0
        while True:
            self.residue.requests += 1
            began_ns = self.session.runtime.monotonic_ns()
            answer = self.session.store.send(call)
            if answer.outcome is Outcome.AMBIGUOUS and not answer.is_unsent:
                lost += 1
                if lost >= LOST_MAX or self.session.runtime.monotonic_ns() - began_ns > LOST_AT_ONCE_NS:
                    return answer
            elif answer.outcome not in (Outcome.THROTTLED, Outcome.CONFLICT):
                return answer
            if self.is_late:
                return answer
            self.session.runtime.sleep(SETTLING_NS)

    def entries(self, verb: str) -> list[tuple[str, str]] | None:
        """The entries below the prefix; None if the store lists none. Answers may come in pages."""
        return self.listed(verb, f"{self.session.prefix}/")

    def listed(self, verb: str, start: str) -> list[tuple[str, str]] | None:
        """The entries whose keys begin so; None if the store lists none."""
        try:
            answer = self.send(Call(verb=verb, key=start))
        except Inexpressible:
            return None
        if not answer.is_applied:
            return None
        return [entry for entry in answer.entries if entry[0].startswith(start)]

    def remove(self, key: str) -> None:
        """Delete one key; an absent one is fine."""
        answer = self.send(Call(verb=DELETE, key=key))
        if answer.outcome is Outcome.REJECTED:
            # A bucket's policy may forbid deletes without a condition alone.
            found = self.send(Call(verb=READ, key=key))
            if found.version:
                told = self.send(Call(verb=DELETE, key=key, match=found.version))
                answer = told if told.is_applied else answer
        if answer.is_applied:
            self.residue.removed += 1
        elif not answer.is_missing:
            self._leave(key, f"delete: {answer.words}")

    def _leave(self, key: str, reason: str) -> None:
        self.is_stuck = True
        if key not in self.residue.left:
            self.residue.left.append(key)
        self.residue.reason = self.residue.reason or reason

    def abort_uploads(self) -> None:
        """Uploads that were begun, and those that the store lists below the prefix."""
        known = list(self.session.uploads)
        if known:
            known += self.entries(UPLOADS) or []
        for key, upload in dict.fromkeys(known):
            # One that was completed is gone already: any answer will do.
            self.send(Call(verb=ABORT, key=key, upload=upload))
            if self.is_late:
                return
        if known and (open_ := self.entries(UPLOADS)):
            self.residue.left += [f"unfinished upload of {key}" for key, _ in open_]
            self.residue.reason = self.residue.reason or "an upload could not be aborted"

    def keeps_versions(self) -> bool:
        """Does the bucket keep former versions, also such from before that was suspended?"""
        try:
            answer = self.send(Call(verb=VERSIONING))
        except Inexpressible:
            return False
        return answer.is_applied and bool(dict(answer.entries).get("status"))

    def note_rest(self, verb: str) -> None:
        """Note the objects that are still there at the end: they are left, and reported."""
        if not self.is_stuck and (rest := self.entries(verb)):
            self.residue.left += [key for key, _ in rest]
            confirmed = "deletes are confirmed, and a listing shows the objects all the same"
            self.residue.reason = f"no time after {BOUND_NS // NS_PER_S} s" if self.is_late else confirmed

    def pages(self, verb: str) -> Iterator[list[tuple[str, str]] | None]:
        """Listings, as long as they show something and each shows less or other things than the one before.

        A listing may be one page of many, or lag behind. None, once, where the store does not tell.
        """
        before: list[tuple[str, str]] = []
        idle = 0
        while not self.is_late and not self.is_stuck and idle < IDLE_ROUNDS_MAX:
            found = self.entries(verb)
            if found is None:
                yield None
                return
            if not found:
                return
            idle = idle + 1 if found == before else 0
            if idle:
                self.session.runtime.sleep(SETTLING_NS)
            before = found
            yield found

    def note_earlier(self) -> None:
        """Name what other probes have left. It is not removed: they may be at work."""
        # Its checks load pydantic, which would delay the first request of the probe.
        from lockref.stores.probe.fingerprint import EarlierProbe

        keys = [key for verb in (LIST, UPLOADS) for key, _ in self.listed(verb, PREFIX) or ()]
        if isinstance(self.session.store, LocalStore):
            with contextlib.suppress(OSError):  # A folder that can be read no more has told that in each answer.
                keys = self.session.store.keys(PREFIX)
        counts = Counter(key.partition("/")[0] for key in keys)
        now_ns = self.session.runtime.wall_ns()
        for prefix, count in sorted(counts.items()):
            if prefix != self.session.prefix:
                began_ns = began_wall_ns(prefix)
                age_ns = None if began_ns is None else max(0, now_ns - began_ns)
                self.residue.earlier.append(EarlierProbe(prefix=prefix, objects=count, age_ns=age_ns))

    def remove_versions(self) -> None:
        """Former versions and delete markers."""
        for found in self.pages(VERSIONS):
            for key, version in found or ():
                if self.is_late:
                    break
                answer = self.send(Call(verb=DELETE_VERSION, key=key, version=version))
                if not (answer.is_applied or answer.is_missing):
                    self._leave(f"{key} version {version}", f"delete: {answer.words}")
                    return
        self.note_rest(VERSIONS)

    def remove_listed(self) -> bool:
        """Everything that a listing shows. False where there is no listing."""
        for found in self.pages(LIST):
            if found is None:
                return False
            for key, _ in found:
                if self.is_late:
                    break
                self.remove(key)
        return True

    def remove_known(self) -> None:
        """Every key that was used. Where the store is gone, the first silence ends it."""
        for key in self.session.keys:
            if self.is_late:
                self._leave(key, f"no time after {BOUND_NS // NS_PER_S} s")
                return
            answer = self.send(Call(verb=READ, key=key))
            if answer.outcome is Outcome.AMBIGUOUS and answer.status is None:
                self._leave(key, f"the store does not answer ({answer.words})")
                return
            if not answer.is_absent:
                self.remove(key)


def remove_all(session: Session) -> Residue:
    """Remove what the probe has made, and say what is left."""
    sweep = _Sweep(session)
    for store in session.stores:
        # What is on its way ends here: its connections are not used any more.
        store.close()
    sweep.abort_uploads()
    # A request that the server has in its hands lands within moments.
    has_listing = sweep.remove_listed()
    if not sweep.is_stuck and not sweep.is_late:
        if has_listing:
            session.runtime.sleep(SETTLING_NS)
            sweep.remove_listed()
        else:
            sweep.remove_known()
    if sweep.keeps_versions():
        sweep.remove_versions()
    sweep.note_rest(LIST)
    if not sweep.is_stuck and not sweep.is_late:
        sweep.note_earlier()
    return sweep.residue
