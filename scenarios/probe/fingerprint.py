"""The fingerprint of a store: what a probe found, as a record that can be kept, compared and asked again."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import lockref
from lockref.runtime import NS_PER_S
from lockref.stores.probe.clauses import DESIGNS
from lockref.stores.probe.fingerprint import FORMAT, FORMAT_VERSION, PROBE_VERSION, Fingerprint
from scenarios.probe.findings import judged_design, overall

if TYPE_CHECKING:
    from scenarios.probe.run import ProbeResult

QUANTILES: Final = (("p50_ns", 0.50), ("p90_ns", 0.90), ("p99_ns", 0.99), ("p999_ns", 0.999))


def fingerprint_of(done: ProbeResult, *, name: str = "") -> Fingerprint:
    """The fingerprint. Nothing of a credential is in it. name: of a server of ours, with its version."""
    address = done.addresses[0]
    found = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "probe_version": PROBE_VERSION,
        "lockref": lockref.__version__,
        "client": f"lockref {lockref.__version__}, Python {platform.python_version()}, {platform.system()}",
        "store": address.store()
        | {"name": name}
        | {"endpoints": [each.endpoint for each in done.addresses if each.endpoint], "servers": done.servers},
        "date_utc": utc_of(done.began_wall_ns),
        "lasted_ns": done.lasted_ns,
        "requests": done.requests,
        "ended": done.ended,
        "verdict": overall(done.findings).value,
        "designs": {design.name: judged_design(design, done.findings) for design in DESIGNS.values()},
        "clauses": {clause: finding.as_facts() for clause, finding in done.findings.items()},
        "latency": {kind: _quantiles(sorted(durations)) for kind, durations in sorted(done.durations.items())},
        "residue": done.residue.facts(),
    }
    return Fingerprint.model_validate(found)


def utc_of(wall_ns: int) -> str:
    """An instant as `2026-01-31T12:00:00Z`."""
    return datetime.fromtimestamp(wall_ns // NS_PER_S, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _quantiles(ordered: list[int]) -> dict[str, int]:
    """Values that occurred, in nanoseconds."""
    last = len(ordered) - 1
    return (
        {"requests": len(ordered)}
        | {name: ordered[min(last, int(share * len(ordered)))] for name, share in QUANTILES}
        | {"max_ns": ordered[-1]}
    )
