"""S1: every applied write fits the state that it replaced. Where one does not, the store is at fault.

A lock can send whatever it likes; only the store decides what it applies. So
S1 names the store, the two requests that it accepted, and the version. What
breaks after that in the same run may be the consequence: two clients that were
both told "yes" both hold. The other clauses' witnesses therefore point to it.
The verdict stays what it is: a lock on such a store breaks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from reports.checks.facts.columns import Ints
from reports.checks.facts.sources.grants import DELETED
from reports.checks.facts.sources.truth import Truth
from reports.checks.facts.surroundings.contradictions import Contradictions, describe_contradiction
from reports.checks.rulings import Ruling, Violations

CONTRADICTION: Final = "C21"
CREATE_OVER, FORK, IGNORED = "create over existing", "fork", "condition ignored"


def check_truth_exclusion(truth: Truth) -> Violations:
    """S1. One violation per write whose condition does not fit."""
    chain, broken = truth.changes, _faults(truth)
    assert not bool(chain.is_first[broken].any()), "the first write of a lock replaced nothing on record"

    def witness(index: int) -> dict[str, Any]:
        here = int(broken[index])
        return {
            **_accepted(truth, here),
            "lock": truth.events.text("lock", int(chain.lock[here])),
            "writes": [truth.describe(here - 1), truth.describe(here)],
        }

    return Violations(clause="S1", run=chain.run[broken], at_ns=chain.at_hi_ns[broken], witness=witness)


def _faults(truth: Truth) -> Ints:
    """Positions in the chain of writes that were applied against their condition."""
    return np.flatnonzero(truth.changes.is_broken & truth.is_readable[truth.changes.run])


def _accepted(truth: Truth, here: int) -> dict[str, Any]:
    """The fault of the store: it accepted the write at position `here` of the chain, whose condition did not fit.

    `kind`, `text`; `blame`: "store"; `version`: what two writes share, or what the write asked for; `requests`: the
    two that it accepted, the earlier one first. In a real run `advice` as well.
    """
    chain, events = truth.changes, truth.events
    start = int(np.searchsorted(chain.group, chain.group[here], side="left"))
    condition = events.text("if_version", int(chain.if_version[here]))
    other, kind = here - 1, IGNORED
    same = start + np.flatnonzero(chain.if_version[start:here] == chain.if_version[here])
    held = "nothing" if chain.state[other] == DELETED else events.text("version", int(chain.version[other]))
    text = f"the store accepted a write on version {condition!r} while it held {held!r}"
    if chain.if_version[here] == truth.absent_code:
        kind = CREATE_OVER
        text = f"the store accepted a create of an object that it held, as {held!r}"
        # A create before the last delete was another object's.
        gone = np.flatnonzero(chain.state[start:here] == DELETED)
        same = same[same > start + gone[-1]] if len(gone) else same
        if len(same):
            other, text = int(same[-1]), "the store accepted two creates of one object"
    elif len(same):
        kind, other = FORK, int(same[-1])
        text = f"the store accepted two writes on version {condition!r}"
    found: dict[str, Any] = {
        "kind": kind,
        "text": text,
        "blame": "store",
        "version": condition,
        "requests": [_request(truth, other), _request(truth, here)],
    }
    if not truth.is_recorded_by_service[chain.run[here]]:
        found["advice"] = "measure it with `lockref doctor --store URI`; do not use this store for locks"
    return found


def _request(truth: Truth, position: int) -> dict[str, Any]:
    """One accepted write: who sent which request when, on what condition, and what it made.

    in_effect_ns: when it had taken effect at the latest: its answer, or the instant that a simulated store recorded.
    """
    told, sent = truth.describe(position), int(truth.changes.sent_row[position])
    return {
        **told,
        "made": told["version"],
        "sent_ns": int(truth.events.integers("at_ns")[sent]) if sent >= 0 else None,
        "in_effect_ns": told["at_ns"],
    }


def pointed_at_store(
    rulings: list[Ruling], broken: Violations, truth: Truth, contradictions: Contradictions
) -> list[Ruling]:
    """The rulings, with the store's first fault of a run named in the witness of what broke after it.

    broken: what S1 found. contradictions: readings that showed what a confirmed write had replaced (C21).
    """
    # A client may act on a write before the answer is on record. So the fault counts from the sending on.
    begun = _firsts(broken.run, truth.changes.at_lo_ns[_faults(truth)])
    contradicted = _firsts(contradictions.run, contradictions.begin_ns)
    faults: dict[int, tuple[int, dict[str, Any]]] = {}
    for run, (begin_ns, index) in contradicted.items():
        shown = describe_contradiction(truth, contradictions, index)
        text = f"the store contradicted itself: {shown['text']}"
        fault = {"clause": CONTRADICTION, "at_ns": shown["shown_ns"], "text": text}
        faults[run] = (begin_ns, fault)
    for run, (begin_ns, index) in begun.items():
        if run not in faults or begin_ns <= faults[run][0]:
            text = broken.witness(index)["text"]
            faults[run] = (begin_ns, {"clause": broken.clause, "at_ns": int(broken.at_ns[index]), "text": text})
    if not faults:
        return rulings
    return [
        replace(ruling, violations=_pointed(ruling.violations, faults))
        if ruling.violations.clause != broken.clause
        else ruling
        for ruling in rulings
    ]


def _firsts(run: Ints, begin_ns: Ints) -> dict[int, tuple[int, int]]:
    """Per run, when the first of its faults began, and which one that is."""
    begun: dict[int, tuple[int, int]] = {}
    for index, (number, at_ns) in enumerate(zip(run.tolist(), begin_ns.tolist(), strict=True)):
        begun[number] = min(begun.get(number, (at_ns, index)), (at_ns, index))
    return begun


def _pointed(violations: Violations, faults: dict[int, tuple[int, dict[str, Any]]]) -> Violations:
    def witness(index: int) -> dict[str, Any]:
        found = violations.witness(index)
        fault = faults.get(int(violations.run[index]))
        if fault is not None and int(violations.at_ns[index]) >= fault[0]:
            found["after_store_fault"] = fault[1]
        return found

    return replace(violations, witness=witness)
