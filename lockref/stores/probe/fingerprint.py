"""Reading a fingerprint: the document that `lockref probe` wrote about a store, before a lock opens that store by it.

A verdict is about one question. The document holds the version of each question that was asked, and where the probe of
today asks another one, the old verdict answers it no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lockref.errors import ConfigError
from lockref.stores.probe.clauses import CLAUSES, DESIGNS, Condition, Verdict
from lockref.strict_json import NotJson, read_json

if TYPE_CHECKING:
    from lockref.stores.address import StoreAddress

FORMAT: Final = "lockref-fingerprint"
FORMAT_VERSION: Final = 1
PROBE_VERSION: Final = 3
"""Rises with every change of what the probe asks or how it judges."""


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
        found = read_json(path.read_bytes(), unique_names=True)
    except OSError as error:
        raise ConfigError(f"the fingerprint {path} cannot be read: {error.strerror}") from None
    except NotJson as error:
        raise ConfigError(
            f"the fingerprint {path} is no JSON ({error}); `lockref probe URI --output FILE` writes one"
        ) from None
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


def _unanswered(condition: Condition) -> dict[str, Any]:
    """A clause that another version of the probe answered, as the probe of today writes one that nobody answered."""
    why = "asked by another version of the probe; probe again"
    return {
        "verdict": Verdict.NOT_ANSWERED.value, "question": condition.question, "asks": condition.words, "unsafe": [],
        "deviations": [], "unsupported": [], "not_answered": [why], "rate": None, "witness": [], "facts": {},
    }  # fmt: skip


def _asked_today(found: dict[str, Any]) -> dict[str, Any]:
    """The document with the verdicts that still answer today's questions, and what follows from them."""
    clauses: dict[str, Any] = {}
    outdated = set()
    for clause, condition in CLAUSES.items():
        told = found["clauses"].get(clause)
        if told is None or told["question"] != condition.question or found["probe_version"] != PROBE_VERSION:
            outdated.add(clause)
            told = _unanswered(condition)
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
    named = {key: found["store"].get(key) for key in address.store()}
    if named != address.store():
        raise ConfigError(
            f"the fingerprint {path} is of {named['scheme']}://{named['container']}"
            f"{' at ' + str(named['endpoint']) if named['endpoint'] else ''}, and not of {address}: probe that store"
        )
