"""The judgements of pieces, joined into one of the run.

Violations are told apart by clause and instant: a piece adds those that were found with it at hand and that the carried
events alone do not show, and takes back those that only the carried events showed. Other counts are sums of such
differences. A clause held if it was asked in some piece and broke in none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa

from lockref.strict_json import read_object
from reports.checks.classes import (
    CLASS_SCHEMA,
    CLASSES,
    CLEAN,
    FENCED_OVERLAP,
    HARM,
    LATENT_OVERLAP,
    TOKEN_REGRESSION,
)
from reports.checks.facts.surroundings.integrity import CUT_OFF, RECORD_SCHEMA, WHOLE
from reports.checks.facts.surroundings.store_answers import STORE_ANSWERS_SCHEMA
from reports.checks.judgement import ABOUT_TIME, Judgement
from reports.checks.measures.endings import ENDINGS, ENDINGS_SCHEMA
from reports.checks.measures.speed import no_speeds
from reports.checks.rulings import VERDICT_SCHEMA, Violations
from reports.checks.situations import REACH_SCHEMA
from reports.checks.spec import CLAUSES, COMMITS, HELD, INCONCLUSIVE, NOT_APPLICABLE, VIOLATED
from reports.checks.thresholds.kept import SAMPLES_SCHEMA
from reports.checks.witness_rows import WRITES_TOLD

IN_SEGMENTS: Final[Mapping[str, str]] = {
    "S1": "a write and the one that it replaced",
    "S2": "the highest token, and the last grants",
    "S3": "tenures that are open",
    "S4": "tenures that are open, and the last grants; its witness counts the wrong writes of one stretch",
    "S5": "the grant in force",
    "S6": "the last grants of each lock",
    "S7": "calls that are open, and the grants during them",
    "L1": "waits that go on, and the grants during them",
    "L2": "the grant of the holder that died",
    "L3": "the last release, and waits that go on",
    "L4": "tenures that are open",
    "L5": "calls that are open",
    "L6": "the grant that a failed call left",
    "F1": "calls that are open, and the grants during them",
}
"""The clauses that are asked piece by piece, and what each needs of the pieces before: all of it is carried."""

OF_THE_WHOLE: Final[Mapping[str, str]] = {
    "F2": "whether a client was ever served is known at the end alone",
    **dict.fromkeys(COMMITS, "a commit may stand in any version of its log"),
}
"""The clauses that can be asked of the whole run alone, and why. Where they apply, they are inconclusive."""

NOT_IN_SEGMENTS: Final = "not asked in segments"
BEYOND: Final = (
    f"{NOT_IN_SEGMENTS}: an event names a grant, a request or a state from before the events that are carried from "
    "piece to piece"
)
LATER: Final = "the machine was later after a violation than before it, and that may be all of it"
SERVED: Final = "clients_served"
WITNESSES_KEPT: Final = 8
"""So many first violations of a clause are described, so that one is left where a later piece takes the first back."""
_AFTER_SILENCE: Final = ("L1", "L2", "L3", "L6", "F1")
"""The clauses that begin anew when the store of a real run comes back after a silence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Events that were judged as a run of their own. violations: by clause, all of them.

    uncalled_ns: when grants began that no call asked for, and that came back from before these events, if from
    anywhere. Their tokens are old, which breaks S6, and not S2. begin_ns: the time of the first event. origin_ns: from
    when on its times count, see `Case.origin_ns`.
    """

    judgement: Judgement
    violations: Mapping[str, Violations]
    uncalled_ns: frozenset[int]
    begin_ns: int
    origin_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The violations of one clause in one stretch. at: by instant, how many. witness: of the first of an instant."""

    at: Counter[int]
    witness: Callable[[int], str]


@dataclass(slots=True)
class _Standing:
    """One clause so far.

    count: violations. told: by instant, the witnesses of the first few. instants: how many at each instant that the
    stretch at hand reaches back to, so that a later piece may take them back. late_ns: how late the machine was at
    most while it broke. is_held: it was asked, and nothing stood against it in some piece. doubt: why it is
    inconclusive. excuse: why it did not apply to the piece before.
    """

    count: int = 0
    told: dict[int, dict[str, Any]] = field(default_factory=dict)
    instants: Counter[int] = field(default_factory=Counter)
    late_ns: int = 0
    is_held: bool = False
    doubt: str | None = None
    excuse: str | None = None

    def row(self, run: int, clause: str) -> dict[str, Any]:
        told = {"run": run, "clause": clause, "count": 0, "at_ns": None}
        if self.count > 0 and self.told:
            at_ns = min(self.told)
            witness = json.dumps(self.told[at_ns], **_CANONICAL)
            return {**told, "verdict": VIOLATED, "count": self.count, "at_ns": at_ns, "witness": witness}
        if self.doubt is not None or self.count > 0:
            return {**told, "verdict": INCONCLUSIVE, "witness": self.doubt or _reason(BEYOND)}
        if self.is_held or self.excuse is None:
            return {**told, "verdict": HELD, "witness": None}
        return {**told, "verdict": NOT_APPLICABLE, "witness": self.excuse}

    def join(self, found: _Seen, known: _Seen, told: Callable[[int], dict[str, Any]], told_from_ns: int) -> None:
        """Count what the piece adds, and what it takes back.

        A violation that the carried events show without being one of the run, since what explains it is not carried,
        is in both and counts in neither. told: describes the violation of `found` at an instant.
        """
        for at_ns, count in (known.at - found.at).items():
            taken = min(count, self.instants[at_ns])
            self.count -= taken
            self.instants[at_ns] -= taken
            if not self.instants[at_ns]:
                self.told.pop(at_ns, None)
        for at_ns, count in sorted((found.at - known.at).items()):
            # What was counted before, and is found once more although the carried events alone do not show it.
            new = max(min(count, found.at[at_ns] - self.instants[at_ns]), 0)
            self.count += new
            self.instants[at_ns] += new
            if new and (len(self.told) < WITNESSES_KEPT or at_ns < max(self.told)):
                self.told.setdefault(at_ns, told(at_ns))
        for at_ns in sorted(self.told)[WITNESSES_KEPT:]:
            del self.told[at_ns]
        if self.count and not self.told:
            self.told = {at_ns: told(at_ns) for at_ns in sorted(found.at) if self.instants[at_ns]}
        # The first one may go on in this piece, and its witness tells what came after it. What led to it must be there.
        first = min(self.told, default=None)
        if first is not None and found.at[first]:
            anew = told(first)
            writes = _nearest(first, self.told[first].get("store", []), anew.get("store", []))
            kept = anew if first >= told_from_ns else self.told[first]
            self.told[first] = {**kept, "store": writes} if writes else kept


@dataclass(slots=True)
class JoinedJudgement:
    """The judgement of one run so far.

    run: its number. origin_ns: see `Case.origin_ns`, of the whole run. served: the clients that were granted a lock, by
    node and task: a situation counts each once in a run.
    """

    run: int
    origin_ns: int | None = None
    served: set[tuple[str, str]] = field(default_factory=set)
    _clauses: dict[str, _Standing] = field(default_factory=lambda: {name: _Standing() for name in CLAUSES})
    _classes: list[str] = field(default_factory=list)
    _reach: Counter[str] = field(default_factory=Counter)
    _endings: Counter[str] = field(default_factory=Counter)
    _gap_ns: int | None = None
    _host_late_ns: int = 0
    _answers: dict[str, Any] = field(default_factory=dict)
    _silences: dict[int, dict[str, Any]] = field(default_factory=dict)
    # Two tables of the last piece. Its judgement itself may keep the facts of its events in memory.
    _grants: pa.Table | None = None
    _tenures: pa.Table | None = None
    _with_token: pa.Table | None = None

    def add(self, found: Stretch, known: Stretch | None, *, seq_at: list[int], told_from_ns: int) -> None:
        """Add a piece. found: the judgement of the carried events and the piece; known: of the carried events alone.

        seq_at: by number in the stretch that was judged, the number of the event in the run. told_from_ns: from when
        on enough of what led to a violation is in the stretch to tell it anew.
        """
        origin_ns = found.origin_ns
        self.origin_ns = origin_ns if self.origin_ns is None else self.origin_ns
        has_fallen_silent = self._join_answers(found.judgement, known.judgement if known else None, origin_ns)
        before = _seen(known)
        late_ns = max((row["host_late_ns"] for row in found.judgement.endings.to_pylist()), default=0)
        found_at = _seen(found)
        for row in found.judgement.verdicts.to_pylist():
            name = row["clause"]
            clause, seen, was = self._clauses[name], found_at[name], before.get(name, _NOTHING)
            if has_fallen_silent and name in _AFTER_SILENCE:
                clause.count, clause.told, clause.instants, was = 0, {}, Counter(), _NOTHING

            def told(at_ns: int, seen: _Seen = seen) -> dict[str, Any]:
                shown = _renumbered(read_object(seen.witness(at_ns)), seq_at, self.origin_ns)
                assert isinstance(shown, dict), "a witness is an object"
                return shown

            counted = clause.count
            clause.instants = Counter({at: count for at, count in clause.instants.items() if at >= found.begin_ns})
            clause.join(seen, was, told, told_from_ns)
            if clause.count > counted:
                clause.late_ns = max(clause.late_ns, late_ns)
            if row["verdict"] == INCONCLUSIVE:
                clause.doubt = row["witness"] if clause.doubt is None else clause.doubt
            elif row["verdict"] == NOT_APPLICABLE:
                clause.excuse = row["witness"]
            elif row["verdict"] == HELD:
                clause.is_held = True
        self._classes += found.judgement.classes["class"].to_pylist()
        for stretch, sign in ((found, 1), (known, -1)):
            if stretch is None:
                continue
            for row in stretch.judgement.reach.to_pylist():
                self._reach[row["situation"]] += sign * row["count"]
            for row in stretch.judgement.endings.to_pylist():
                self._endings.update({name: sign * row[name] for name in ENDINGS})
        for row in found.judgement.endings.to_pylist():
            gaps = [gap for gap in (self._gap_ns, row["longest_gap_ns"]) if gap is not None]
            self._gap_ns = max(gaps, default=None)
        self._host_late_ns = max(self._host_late_ns, late_ns)
        tenures = found.judgement.tenures
        if self._with_token is None:
            with_token = tenures.filter(tenures["token"].is_valid())
            self._with_token = with_token.slice(0, 1) if len(with_token) else None
        self._grants, self._tenures = found.judgement.grants, tenures

    def doubt(self) -> None:
        """An event named what is not carried: no clause is said to hold."""
        for clause in self._clauses.values():
            clause.doubt = _reason(BEYOND) if clause.doubt is None and clause.is_held else clause.doubt

    def judgement(self, *, is_cut_off: bool) -> Judgement:
        """The judgement of the run, once its last piece was added. Its speed and thresholds are not measured."""
        grants, tenures = self._grants, self._tenures
        assert grants is not None, "a run without a piece has no judgement"
        assert tenures is not None, "a run without a piece has no judgement"
        for name, why in OF_THE_WHOLE.items():
            clause = self._clauses[name]
            if clause.is_held or clause.count:
                self._clauses[name] = _Standing(doubt=_reason(f"{NOT_IN_SEGMENTS}: {why}"))
        for name, clause in self._clauses.items():
            if name in ABOUT_TIME and clause.count and clause.late_ns < self._host_late_ns:
                self._clauses[name] = _Standing(doubt=_reason(f"{NOT_IN_SEGMENTS}: {LATER}"))
        run = self.run
        self._reach[SERVED] = len(self.served)
        counts = sorted(self._reach.items())
        reach = [{"run": run, "situation": name, "count": max(count, 0)} for name, count in counts]
        endings = {name: max(self._endings[name], 0) for name in ENDINGS}
        ending = {"run": run, **endings, "longest_gap_ns": self._gap_ns, "host_late_ns": self._host_late_ns}
        state = CUT_OFF if is_cut_off else WHOLE
        if self._with_token is not None and tenures["token"].null_count == len(tenures):
            tenures = pa.concat_tables([self._with_token, tenures])
        verdicts = [each.row(run, name) for name, each in self._clauses.items()]
        return Judgement(
            verdicts=pa.Table.from_pylist(verdicts, VERDICT_SCHEMA),
            classes=pa.Table.from_pylist([{"run": run, "class": self._class()}], CLASS_SCHEMA),
            reach=pa.Table.from_pylist(reach, REACH_SCHEMA),
            grants=grants,
            tenures=tenures,
            records=pa.Table.from_pylist([{"run": run, "state": state, "why": None}], RECORD_SCHEMA),
            answers=self._answers_table(),
            speeds=no_speeds(),
            endings=pa.Table.from_pylist([ending], ENDINGS_SCHEMA),
            threshold_samples=SAMPLES_SCHEMA.empty_table(),
        )

    def _class(self) -> str:
        """The severity class: that of the counts, and whether overlaps were fenced as every piece says."""
        if self._clauses["S4"].count > 0:
            return CLASSES[HARM]
        if self._clauses["S2"].count > 0:
            return CLASSES[TOKEN_REGRESSION]
        if self._clauses["S3"].count <= 0:
            return CLASSES[CLEAN]
        is_latent = CLASSES[LATENT_OVERLAP] in self._classes
        return CLASSES[LATENT_OVERLAP if is_latent else FENCED_OVERLAP]

    def _join_answers(self, found: Judgement, known: Judgement | None, origin_ns: int) -> bool:
        """Add what the store answered; True if it was silent in the piece itself."""
        old = {row["run"]: row for row in known.answers.to_pylist()} if known is not None else {}
        has_fallen_silent = False
        for row in found.answers.to_pylist():
            before = old.get(row["run"])
            shift_ns = origin_ns - (self.origin_ns or 0)
            told = {**self._answers, "run": row["run"], "run_ns": row["run_ns"] + shift_ns}
            for name in ("requests", "unanswered", "refused", "silent_ns", "contradicted"):
                told[name] = self._answers.get(name, 0) + row[name] - (before[name] if before else 0)
            for name in ("lost_at_ns", "contradiction_ns"):
                told[name] = None if row[name] is None else row[name] + shift_ns
            told["contradiction"] = row["contradiction"]
            if self._answers.get("contradiction") is not None:
                told |= {name: self._answers[name] for name in ("contradiction", "contradiction_ns")}
            known_until = max((each["end_ns"] for each in before["silences"]), default=-1) if before else -1
            for each in row["silences"]:
                has_fallen_silent |= each["end_ns"] > known_until
                moved = {name: each[name] + shift_ns for name in ("begin_ns", "end_ns")}
                self._silences[moved["begin_ns"]] = {**each, **moved}
            self._answers = told
        return has_fallen_silent

    def _answers_table(self) -> pa.Table:
        if not self._answers:
            return STORE_ANSWERS_SCHEMA.empty_table()
        told = self._answers
        shares = {
            "unanswered_share": told["unanswered"] / max(told["requests"], 1),
            "silent_share": told["silent_ns"] / max(told["run_ns"], 1),
        }
        silences = [self._silences[begin_ns] for begin_ns in sorted(self._silences)]
        row = {**told, **shares, "silences": silences, "over_time": []}
        return pa.Table.from_pylist([row], STORE_ANSWERS_SCHEMA)


def _seen(stretch: Stretch | None) -> dict[str, _Seen]:
    """By clause, the violations of a stretch."""
    if stretch is None:
        return {}
    seen = {}
    for row in stretch.judgement.verdicts.to_pylist():
        violations = stretch.violations[row["clause"]]
        at = violations.at_ns.tolist()
        if row["count"] != len(at):
            # It was judged once more, with longer times, and its verdict tells of the first violation alone.
            counted = Counter({row["at_ns"]: row["count"]}) if row["count"] else Counter[int]()
            seen[row["clause"]] = _Seen(at=counted, witness=partial(_same, row["witness"]))
        else:
            doubtful = stretch.uncalled_ns if row["clause"] == "S2" else frozenset[int]()
            counted = Counter(each for each in at if each not in doubtful)
            seen[row["clause"]] = _Seen(at=counted, witness=partial(_described, violations, at))
    return seen


def _described(violations: Violations, at: list[int], at_ns: int) -> str:
    return json.dumps(violations.witness(at.index(at_ns)), **_CANONICAL)


def _same(witness: str, _: int) -> str:
    return witness


def _nearest(at_ns: int, *told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The writes nearest to an instant of those that two stretches tell, as `witness_writes` chooses them."""
    writes = {row["seq"]: row for rows in told for row in rows}
    nearest = sorted(writes, key=lambda seq: (abs(writes[seq]["at_ns"] - at_ns), seq))[:WRITES_TOLD]
    return [writes[seq] for seq in sorted(nearest)]


_NOTHING: Final = _Seen(at=Counter(), witness=str)
_CANONICAL: Final[dict[str, Any]] = {"separators": (",", ":"), "sort_keys": True}


def _reason(text: str) -> str:
    return json.dumps({"reason": text}, **_CANONICAL)


def _renumbered(value: Any, seq_at: list[int], origin_ns: int | None, name: str = "") -> Any:
    """A witness, or a part of it, in the numbers of the whole run."""
    if isinstance(value, dict):
        return {key: _renumbered(inner, seq_at, origin_ns, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renumbered(inner, seq_at, origin_ns, name) for inner in value]
    if (name == "seq" or name.endswith("_seq")) and value is not None:
        return seq_at[value]
    return origin_ns if name == "origin_ns" else value
