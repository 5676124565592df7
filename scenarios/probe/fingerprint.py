"""The fingerprint of a store: what a probe found, as a document that can be kept, compared and asked again.

A verdict is about one question. The document holds the version of each question that was asked, and where the probe of
today asks another one, the old verdict answers it no more.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

import lockref
from lockref.errors import ConfigError
from lockref.runtime import NS_PER_S
from lockref.stores.probe.clauses import CLAUSES
from scenarios.probe.findings import DESIGNS, Finding, Verdict, judged_design, overall

if TYPE_CHECKING:
    from lockref.stores.uri import StoreAddress
    from scenarios.probe.run import Probed

FORMAT: Final = "lockref-fingerprint"
FORMAT_VERSION: Final = 1
PROBE_VERSION: Final = 2
"""Rises with every change of what the probe asks or how it judges."""

QUANTILES: Final = (("p50_ns", 0.50), ("p90_ns", 0.90), ("p99_ns", 0.99), ("p999_ns", 0.999))


def document_of(done: Probed, *, name: str = "") -> dict[str, object]:
    """The fingerprint. Nothing of a credential is in it. name: of a server of ours, with its version."""
    address = done.addresses[0]
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "probe_version": PROBE_VERSION,
        "lockref": lockref.__version__,
        "client": f"lockref {lockref.__version__}, Python {platform.python_version()}, {platform.system()}",
        "store": store_facts(address)
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


def store_facts(address: StoreAddress) -> dict[str, object]:
    """Which store it is. The prefix of the bucket is no part of that."""
    return {
        "scheme": address.scheme,
        "container": f"{address.container}@{address.account}" if address.account else address.container,
        "endpoint": address.endpoint,
    }


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


class _Part(BaseModel):
    """What every reader of a fingerprint relies on; more may be there."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Store(_Part):
    scheme: str
    container: str
    endpoint: str | None
    servers: list[str]


class _Design(_Part):
    title: str
    verdict: str
    why: str
    needs: list[str]


class _Rate(_Part):
    rounds: int
    faulty: int
    low: float
    high: float


class _Clause(_Part):
    verdict: Literal["conforming", "usable", "unsafe", "unsupported", "not_answered"]
    question: int
    asks: str
    unsafe: list[str]
    deviations: list[str]
    unsupported: list[str]
    not_answered: list[str]
    rate: _Rate | None
    witness: list[dict[str, Any]]
    facts: dict[str, Any]


class _Latency(_Part):
    requests: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int


class _Document(_Part):
    probe_version: int
    store: _Store
    client: str
    date_utc: str
    lasted_ns: int
    requests: int
    ended: str
    verdict: Literal["conforming", "usable", "unsafe", "unsupported", "not_answered"]
    designs: dict[str, _Design]
    clauses: dict[str, _Clause]
    latency: dict[str, _Latency]
    residue: dict[str, Any]


def load(path: Path) -> dict[str, Any]:
    """A fingerprint from a file; a clause whose question has changed since is not answered in it any more.

    Errors: ConfigError for a file that is none, or of a format that this version does not read.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the fingerprint {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"the fingerprint {path} is no JSON; `lockref probe URI --output FILE` writes one") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ConfigError(f"{path} is no fingerprint; `lockref probe URI --output FILE` writes one")
    if found.get("format_version") != FORMAT_VERSION:
        raise ConfigError(
            f"the fingerprint {path} has format {found.get('format_version')!r}; this version reads {FORMAT_VERSION}: "
            "probe again"
        )
    try:
        _Document.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"the fingerprint {path} is damaged at {place}: {first['msg']}; probe again") from None
    return _asked_today(found)


def _asked_today(found: dict[str, Any]) -> dict[str, Any]:
    """The document with the verdicts that still answer today's questions, and what follows from them."""
    clauses: dict[str, Any] = {}
    outdated = set()
    for clause, condition in CLAUSES.items():
        told = found["clauses"].get(clause)
        if told is None or told["question"] != condition.question or found["probe_version"] != PROBE_VERSION:
            outdated.add(clause)
            told = Finding(condition, unanswered=["asked by another version of the probe; probe again"]).as_facts()
        Verdict(told["verdict"])
        clauses[clause] = told
    core = [clause for clause, condition in CLAUSES.items() if condition.is_core]
    designs = {name: dict(design) for name, design in found["designs"].items()}
    for design in designs.values():
        if lost := [clause for clause in design["needs"] if clause in outdated]:
            design |= {"verdict": "not answered", "why": f"{', '.join(lost)}: asked by another version of the probe"}
    verdict = Verdict(found["verdict"])
    if outdated & set(core):
        is_unsafe = any(clauses[clause]["verdict"] == Verdict.UNSAFE for clause in core)
        verdict = Verdict.UNSAFE if is_unsafe else Verdict.NOT_ANSWERED
    return found | {
        "clauses": clauses, "designs": {name: designs[name] for name in DESIGNS}, "verdict": verdict.value,
        "store": dict(found["store"]),
    }  # fmt: skip


def require_for(found: Mapping[str, Any], address: StoreAddress, *, path: Path) -> None:
    """Errors: ConfigError where the fingerprint is of another store than `address`."""
    named = {key: found["store"].get(key) for key in store_facts(address)}
    if named != store_facts(address):
        raise ConfigError(
            f"the fingerprint {path} is of {named['scheme']}://{named['container']}"
            f"{' at ' + str(named['endpoint']) if named['endpoint'] else ''}, and not of {address}: probe that store"
        )
