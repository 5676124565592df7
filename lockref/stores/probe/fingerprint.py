"""Reading a fingerprint: the document that `lockref probe` wrote about a store, before a lock opens that store by it.

A verdict is about one question. The document holds the version of each question that was asked, and where the probe of
today asks another one, the old verdict answers it no more.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lockref.errors import ConfigError
from lockref.stores.address import in_words
from lockref.stores.probe.clauses import CLAUSES, DESIGNS, Condition, Verdict
from lockref.strict_json import NotJson, read_json

if TYPE_CHECKING:
    from lockref.stores.address import StoreAddress

FORMAT: Final = "lockref-fingerprint"
FORMAT_VERSION: Final = 1
PROBE_VERSION: Final = 3
"""Rises with every change of what the probe asks or how it judges."""

Read = Annotated[Verdict, Field(strict=False)]
"""A verdict, which the document has as its word."""

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
"""A number that all who show or draw it can hold: 64 bits."""


class _Part(BaseModel):
    """A part of a fingerprint, with the fields that every reader relies on; further fields are allowed and kept."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class ProbedStore(_Part):
    """The store that was probed.

    endpoints: those that were asked. servers: by their own `Server` headers. name: of one of ours.
    """

    scheme: str
    container: str
    endpoint: str | None
    name: str = ""
    endpoints: list[str] = []
    servers: list[str]

    @property
    def location(self) -> str:
        """Without the endpoint, such as `s3://bucket`."""
        return in_words(self.scheme, self.container)


class DesignAnswer(_Part):
    """Can the store carry locks of one design? verdict: "can carry", "cannot carry" or "not answered"."""

    title: str
    verdict: Annotated[str, Field(pattern="^(can carry|cannot carry|not answered)$")]
    why: str
    needs: list[str]


class Rate(_Part):
    """The rate at which a race went wrong.

    share: of faulty rounds; None where no round could be judged. low, high: its bounds at 95 %.
    races: the counts of each.
    """

    rounds: Count
    faulty: Count
    share: float | None = None
    low: float
    high: float
    races: list[dict[str, Any]] = []


class ClauseAnswer(_Part):
    """One clause. question: the version of what was asked. The lists hold sentences; witness: the requests."""

    verdict: Read
    question: Count
    asks: str
    unsafe: list[str]
    deviations: list[str]
    unsupported: list[str]
    not_answered: list[str]
    rate: Rate | None
    witness: list[dict[str, Any]]
    facts: dict[str, Any]


class Latency(_Part):
    """Requests of one kind, each sent alone. Times in nanoseconds."""

    requests: Count
    p50_ns: Count
    p90_ns: Count
    p99_ns: Count
    p999_ns: Count
    max_ns: Count


class EarlierProbe(_Part):
    """Another probe whose objects are there. objects: how many a listing showed, unfinished uploads included.

    age_ns: since it began, by its machine's clock and ours; None where its name does not tell that.
    """

    prefix: str
    objects: Count
    age_ns: Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | None


class Residue(_Part):
    """The objects that the probe could not remove below its prefix.

    requests: how many the cleaning took. left: keys. reason: why; "" where all is gone. earlier: what other probes have
    left, or are using now; documents before it was told have none.
    """

    prefix: str
    requests: Count = 0
    left: list[str]
    reason: str
    earlier: list[EarlierProbe] = []


class Fingerprint(_Part):
    """The findings of a probe about one store.

    client: who asked. date_utc: when the probe began, as `2026-01-31T12:00:00Z`. lasted_ns: how long it took. requests:
    how many were sent. ended: why it ended early, or "". designs: by name. clauses: by id. latency: by kind of request.
    """

    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    probe_version: Count
    lockref: str = ""
    client: str
    store: ProbedStore
    date_utc: str
    lasted_ns: Count
    requests: Count
    ended: str
    verdict: Read
    designs: dict[str, DesignAnswer]
    clauses: dict[str, ClauseAnswer]
    latency: dict[str, Latency]
    residue: Residue

    def document(self) -> dict[str, Any]:
        """The JSON document that `lockref probe --output` writes."""
        return self.model_dump(mode="json")


def load(path: Path) -> Fingerprint:
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
        read = Fingerprint.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"the fingerprint {path} is damaged at {place}: {first['msg']}; probe again") from None
    for design in DESIGNS:
        if design not in read.designs:
            raise ConfigError(f"the fingerprint {path} is damaged at designs.{design}: Field required; probe again")
    return _asked_today(read)


def _unanswered(condition: Condition) -> ClauseAnswer:
    """A clause that another version of the probe answered, as the probe of today writes one that nobody answered."""
    return ClauseAnswer(
        verdict=Verdict.NOT_ANSWERED, question=condition.question, asks=condition.words, unsafe=[],
        deviations=[], unsupported=[], not_answered=["asked by another version of the probe; probe again"], rate=None,
        witness=[], facts={},
    )  # fmt: skip


def _asked_today(found: Fingerprint) -> Fingerprint:
    """The fingerprint with the verdicts that still answer today's questions, and what follows from them."""
    clauses: dict[str, ClauseAnswer] = {}
    outdated = set()
    for clause, condition in CLAUSES.items():
        told = found.clauses.get(clause)
        if told is None or told.question != condition.question or found.probe_version != PROBE_VERSION:
            outdated.add(clause)
            told = _unanswered(condition)
        clauses[clause] = told
    core = [clause for clause, condition in CLAUSES.items() if condition.is_core]
    designs = {name: found.designs[name] for name in DESIGNS}
    for name, design in designs.items():
        # What a design stands on is today's knowledge, and not for a file to say.
        if lost := [clause for clause in DESIGNS[name].needs if clause in outdated]:
            why = f"{', '.join(lost)}: asked by another version of the probe"
            designs[name] = design.model_copy(update={"verdict": "not answered", "why": why})
    verdict = found.verdict
    if outdated & set(core):
        is_unsafe = any(clauses[clause].verdict is Verdict.UNSAFE for clause in core)
        verdict = Verdict.UNSAFE if is_unsafe else Verdict.NOT_ANSWERED
    return found.model_copy(update={"clauses": clauses, "designs": designs, "verdict": verdict})


def require_for(found: Fingerprint, address: StoreAddress, *, path: Path) -> None:
    """Errors: ConfigError where the fingerprint is of another store than `address`."""
    named = {key: getattr(found.store, key, None) for key in address.store()}
    if named != address.store():
        raise ConfigError(
            f"the fingerprint {path} is of {named['scheme']}://{named['container']}"
            f"{' at ' + str(named['endpoint']) if named['endpoint'] else ''}, and not of {address}: probe that store"
        )
