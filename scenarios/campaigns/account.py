"""The account of a chunk: small, and the file by which the chunk is committed.

The file stands for the chunk: where it is, the chunk is done; where it is not, the chunk runs again, with the same
result. It is JSON, and ends with a seal over the rest, which shows a file that was torn or changed.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from reports.checks.summary import Finding, Summary
from reports.checks.thresholds.kept import Samples, Worst

FORMAT: Final = "lockref.chunk/1"
_SEAL: Final = ',"seal":"'


class NotAnAccount(ValueError):
    """A file of a chunk that cannot be used: torn, changed, or of another format."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class FindingRecord(_Record):
    """A distinct failure of the chunk: see `reports.checks.summary.Finding`."""

    clause: str
    kind: str
    fault_kinds: tuple[str, ...]
    run: int
    at_ns: int | None
    witness: dict[str, Any]
    similar: int


class LimitRecord(_Record):
    """The samples of one threshold of one party. values, late_ns: base64 of 64-bit integers, little-endian."""

    scenario: str
    provider: str
    text: str
    values: str
    late_ns: str
    worst: tuple[int, int, str | None, str | None, int | None] | None


class PartyRecord(_Record):
    """The situations of one party: demanded at least, and reached in how many runs and how often."""

    scenario: str
    provider: str
    demanded: dict[str, int] | None
    reached: dict[str, tuple[int, int]] | None


class ChunkAccount(_Record):
    """The account of one chunk.

    campaign: the identity of the campaign that it belongs to. chunk: its number, from 0. seeds: the first and the last.
    digests: of the traces in the order of the seeds, 16 bytes each, in base64. effects: fault id to how often it
    changed something. compared: seeds that were run twice. kept: the seeds of the kept histories; failures_kept: those
    of them in which a demanded clause broke. processor_ns: processor time that it took. The rest: see
    `reports.checks.verdicts.Counts` and `reports.checks.summary.Summary`.
    """

    format: Literal["lockref.chunk/1"] = FORMAT
    campaign: str
    chunk: int
    seeds: tuple[int, int]
    digests: str
    effects: dict[str, int]
    compared: int
    kept: tuple[int, ...]
    failures_kept: tuple[int, ...]
    processor_ns: int
    runs: int
    damaged: int
    damage: dict[str, str]
    nameless: int
    cut_off: int
    broken_runs: int
    events: int
    verdicts: dict[str, dict[str, int]]
    parties: tuple[PartyRecord, ...]
    endings: dict[str, int]
    longest_gap_ns: int | None
    host_late_ns: int
    doubts: tuple[str, ...]
    unsafe: tuple[str, ...]
    limits: tuple[LimitRecord, ...]
    classes: dict[str, int]
    findings: tuple[FindingRecord, ...]

    @property
    def trace_digests(self) -> list[str]:
        """The digest of each trace, in the order of the seeds."""
        raw = base64.b64decode(self.digests)
        return [raw[place : place + 16].hex() for place in range(0, len(raw), 16)]

    def summary(self, not_demanded: frozenset[str]) -> Summary:
        """The counts and findings, as the judge's own value."""
        found = Summary(
            runs=self.runs,
            damaged=self.damaged,
            damage=dict(self.damage),
            nameless=self.nameless,
            cut_off=self.cut_off,
            broken_runs=self.broken_runs,
            verdicts={clause: Counter(counts) for clause, counts in self.verdicts.items()},
            not_demanded=not_demanded,
            endings=Counter(self.endings),
            longest_gap_ns=self.longest_gap_ns,
            host_late_ns=self.host_late_ns,
            doubts=list(self.doubts),
            unsafe=list(self.unsafe),
            events=self.events,
            classes=Counter(self.classes),
            findings=[Finding(**record.model_dump()) for record in self.findings],
        )
        for party in self.parties:
            key = (party.scenario, party.provider)
            if party.demanded is not None:
                found.demanded[key] = dict(party.demanded)
            if party.reached is not None:
                found.reached[key] = dict(party.reached)
        for limit in self.limits:
            values, late_ns = _numbers(limit.values), _numbers(limit.late_ns)
            found.limits[(limit.scenario, limit.provider), limit.text] = Samples(
                values=[values] if len(values) else [],
                late_ns=[late_ns] if len(values) else [],
                worst=None if limit.worst is None else Worst(*limit.worst),
            )
        return found

    def sealed(self) -> bytes:
        """The file."""
        body = self.model_dump_json()
        return f'{body[:-1]}{_SEAL}{_hash(body)}"}}\n'.encode()


def account_of(summary: Summary, digests: Iterable[str], **facts: Any) -> ChunkAccount:
    """The account of a chunk. facts: the fields of `ChunkAccount` that are not in the summary."""
    assert not summary.answers, "simulated runs have no store that answers"
    assert not summary.speeds, "simulated runs have no turnout"
    parties = sorted({*summary.demanded, *summary.reached})
    return ChunkAccount(
        digests=base64.b64encode(b"".join(bytes.fromhex(digest) for digest in digests)).decode(),
        runs=summary.runs,
        damaged=summary.damaged,
        damage=summary.damage,
        nameless=summary.nameless,
        cut_off=summary.cut_off,
        broken_runs=summary.broken_runs,
        events=summary.events,
        verdicts={clause: _sorted(counts) for clause, counts in sorted(summary.verdicts.items())},
        parties=tuple(
            PartyRecord(
                scenario=party[0],
                provider=party[1],
                demanded=summary.demanded.get(party),
                reached=summary.reached.get(party),
            )
            for party in parties
        ),
        endings=_sorted(summary.endings),
        longest_gap_ns=summary.longest_gap_ns,
        host_late_ns=summary.host_late_ns,
        doubts=tuple(summary.doubts),
        unsafe=tuple(summary.unsafe),
        limits=tuple(
            LimitRecord(
                scenario=party[0],
                provider=party[1],
                text=text,
                values=_text(samples.values),
                late_ns=_text(samples.late_ns),
                worst=_worst(samples.worst),
            )
            for (party, text), samples in summary.limits.items()
        ),
        classes=_sorted(summary.classes),
        findings=tuple(
            FindingRecord(
                clause=each.clause,
                kind=each.kind,
                fault_kinds=each.fault_kinds,
                run=each.run,
                at_ns=each.at_ns,
                witness=each.witness,
                similar=each.similar,
            )
            for each in summary.findings
        ),
        **facts,
    )


def read_account(content: bytes, *, campaign: str, chunk: int) -> ChunkAccount:
    """The account in the file of a chunk. Raises NotAnAccount, also for that of another campaign or chunk."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise NotAnAccount("no text") from None
    head, separator, seal = text.rstrip("\n").rpartition(_SEAL)
    body = f"{head}}}"
    if not separator or seal != f'{_hash(body)}"}}':
        raise NotAnAccount("torn or changed since it was written")
    try:
        account = ChunkAccount.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise NotAnAccount(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if account.campaign != campaign or account.chunk != chunk:
        raise NotAnAccount("of another campaign")
    return account


def _worst(worst: Worst | None) -> tuple[int, int, str | None, str | None, int | None] | None:
    if worst is None:
        return None
    return int(worst.value), int(worst.run), worst.client, worst.lock, worst.at_ns


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _text(arrays: Iterable[np.ndarray]) -> str:
    return base64.b64encode(b"".join(each.astype("<i8").tobytes() for each in arrays)).decode()


def _numbers(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<i8")
