"""C21: what a read shows after a confirmed write, by every endpoint, and what a listing shows."""

from __future__ import annotations

from typing import Final

from scenarios.probe.calls import LIST, READ, Call, Inexpressible
from scenarios.probe.findings import Finding
from scenarios.probe.session import Session

WRITES: Final = 12


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
