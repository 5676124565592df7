"""C21: what a read shows after a confirmed write, by every endpoint, what a listing shows, and what is there later.

A store may confirm a write and lose it a moment afterwards, as one does that answers before its other nodes have the
bytes. A read right after the write does not show that, so some objects are looked at again when the races are over.
"""

from __future__ import annotations

from typing import Final

from lockref.clouds.calls import ANYTHING, LIST, PUT, READ, Call, Inexpressible
from scenarios.probe.findings import Finding
from scenarios.probe.session import Session

WRITES: Final = 12
LASTING: Final = 32
"""Objects that are looked at again. A store that loses one write in five is not found out by them once in 1,200."""


class Lasting:
    """Objects that are written early in the probe and looked at late in it. The one half is created, the other also
    replaced."""

    def __init__(self) -> None:
        self._written: list[tuple[str, set[bytes]]] = []

    def write(self, session: Session) -> None:
        """Write them all. What is not confirmed is not looked for afterwards."""
        self._written.clear()
        made = []
        for _ in range(LASTING):
            call = Call(verb=PUT, key=session.key("lasting"), body=session.body("lasting"), none_match=ANYTHING)
            answer = session.patiently(call)
            if answer.is_applied:
                made.append((call, answer.version))
        for number, (call, version) in enumerate(made):
            if not number % 2:
                self._written.append((call.key, {call.body}))
                continue
            later = Call(verb=PUT, key=call.key, body=session.body("lasting"), match=version)
            replaced = session.patiently(later)
            if replaced.is_applied:
                self._written.append((call.key, {later.body}))
            elif replaced.is_refused:
                # The store has lost the created object; or the replacement landed, and was repeated as it met a 503.
                self._written.append((call.key, {call.body, later.body}))

    def look(self, session: Session, finding: Finding) -> None:
        """Each is there as it was confirmed. What is not shown is not judged."""
        looked, lost = 0, []
        for key, bodies in self._written:
            call = Call(verb=READ, key=key)
            shown = session.patiently(call)
            if shown.body is None and not shown.is_absent:
                continue
            looked += 1
            if shown.body not in bodies:
                lost.append((call, shown))
        for call, shown in lost[:2]:
            finding.saw(call, shown, note="after the races; its last write was confirmed before them")
        if lost:
            finding.note(finding.unsafe, f"lost {len(lost)} of {looked} confirmed writes afterwards")
        elif looked:
            finding.kept += 1
        else:
            finding.note(finding.unanswered, "nothing was confirmed that could be looked at later")


def read_after_write(session: Session, finding: Finding) -> None:
    """Each write by one endpoint, and right after it a read by each: never older. Then the same of a listing."""
    key = session.key("read")
    version = session.make(key, session.body("read"))
    for number in range(WRITES):
        body = session.body("read")
        version = session.replace(key, body, version)
        for place, store in enumerate(session.stores):
            after = session.read(key, store)
            if after.body == body and _bare(after.version) in ("", _bare(version)):
                finding.kept += 1
                if after.version not in ("", version):
                    finding.note(finding.deviations, "a write and a read spell one version in two ways")
                continue
            where = f"endpoint {place + 1}" if len(session.stores) > 1 else "a read"
            finding.saw(Call(verb=READ, key=key), after, note=f"after write {number + 1} of {WRITES}, by {where}")
            told = "shows the bytes with another version" if after.body == body else "shows what was there before"
            finding.note(finding.unsafe, f"{where} {told}, right after a confirmed write")
    is_gone = session.clear(key)
    for place, store in enumerate(session.stores):
        if is_gone and session.read(key, store).body is not None:
            where = f"endpoint {place + 1}" if len(session.stores) > 1 else "a read"
            finding.note(finding.unsafe, f"{where} shows an object right after its delete was confirmed")
    _listed(session, finding)


def _bare(version: str) -> str:
    """A version without quotation marks and without the mark of a weak one: how it is spelled is another question."""
    return version.removeprefix("W/").strip('"')


def _listed(session: Session, finding: Finding) -> None:
    key = session.key("listed/object")
    listing = Call(verb=LIST, key=key.rpartition("/")[0] + "/")
    try:
        session.make(key, session.body())
        shown = session.ask(listing)
        if not shown.is_applied:
            finding.facts["listing"] = f"refused: {shown.words}"
            return
        if key not in [name for name, _ in shown.entries]:
            finding.saw(listing, shown, note="right after a confirmed create")
            finding.note(finding.deviations, "a listing does not show an object right after it was created")
        if not session.clear(key):
            finding.facts["listing"] = "asked of a create alone: deletes are refused"
            return
        gone = session.ask(listing)
        if key in [name for name, _ in gone.entries]:
            finding.saw(listing, gone, note="right after a confirmed delete")
            finding.note(finding.deviations, "a listing shows an object right after it was deleted")
        finding.facts["listing"] = "asked"
    except Inexpressible:
        finding.facts["listing"] = "none"
