"""Would the tests notice if a check were wrong? Each mutant changes one comparison of the checks; each must be caught.

A mutant is one module's source with one passage replaced, put in place of the
original everywhere in the checks. The judge's mutants face the hand-made
histories of tests/unit/reports/checks, the second
opinion's the differential of tests/quality/test_second_opinion.py. A mutant that nothing catches means a
missing test; one that cannot be caught is listed with the reason.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import json
import sys
import types
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.properties import test_legal_histories
from tests.quality import test_second_opinion as differential
from tests.unit.reports.checks import (
    test_chain_order,
    test_commits,
    test_fairness,
    test_grant_clauses,
    test_grant_sources,
    test_late_host,
    test_liveness,
    test_loss_notice,
    test_measures,
    test_on_the_wire,
    test_promised,
    test_proven_faults,
    test_queue_and_states,
    test_safety_core,
    test_situations,
    test_summary,
    test_unasked,
    test_writes_in_calls,
)

SUITES = (
    test_safety_core,
    test_grant_clauses,
    test_chain_order,
    test_commits,
    test_fairness,
    test_grant_sources,
    test_queue_and_states,
    test_liveness,
    test_measures,
    test_situations,
    test_summary,
    test_loss_notice,
    test_unasked,
    test_on_the_wire,
    test_writes_in_calls,
    test_proven_faults,
    test_promised,
    test_late_host,
    test_legal_histories,
)

CATCHERS = Path(__file__).parent / "mutant_catchers.json"
"""For each mutant the case that caught it when `python -m tests.quality.mutants.test_checker_mutants` wrote this file.

A hint, not a rule: it is asked first, then its neighbours, then all others.
"""


class CatcherMissed(UserWarning):
    """The recorded case does not catch its mutant any more, or there is none: the test is right, but slow."""


JUDGE_MUTANTS = [
    ("facts.sources.record_chain", "fits |= was_absent & (state[1:] == DELETED)", "fits |= state[1:] == DELETED"),
    (
        "facts.sources.record_chain",
        "~was_absent & ((if_version[1:] == version[:-1])",
        "((if_version[1:] == version[:-1])",
    ),
    ("facts.sources.record_chain", "broken[1:] = continues[1:] & is_conditional[1:] & ~fits", "broken[1:] = continues[1:] & ~fits"),  # noqa: E501
    ("facts.sources.record_chain", "(token[1:] == token[:-1]) & (state[:-1] == LIVE)", "(token[1:] == token[:-1])"),
    ("facts.sources.record_chain", "(owner[1:] == owner[:-1]) & (token", "(token"),
    ("clauses.belief", "close[1:] = (tenures.first_ns[1:] <= tenures.last_ns[:-1])", "close[1:] = (tenures.first_ns[1:] < tenures.last_ns[:-1])"),  # noqa: E501
    ("clauses.belief", "return is_ordered and bool(", "return bool("),
    ("clauses.belief", "return is_ordered and bool(", "return is_ordered or bool("),
    ("clauses.belief", "tenures.last_row[holder] > tenures.first_row[intruder]", "tenures.last_row[holder] < tenures.first_row[intruder]"),  # noqa: E501
    ("clauses.belief", "return bool(last > first)", "return bool(last < first)"),
    ("clauses.belief", 'world != "real"', "True"),
    ("clauses.belief", "holder = other if farthest >= 0 and tenures.client[farthest] == tenures.client[position] else farthest", "holder = farthest"),  # noqa: E501
    ("clauses.belief", "if farthest >= 0 and tenures.client[farthest] != tenures.client[position]:\n                    other = farthest", "if False:\n                    other = farthest"),  # noqa: E501
    ("clauses.belief", "other < 0 or _reaches_farther(tenures, position, other)", "other < 0"),
    ("clauses.belief", "return bool(tenures.last_ns[one] > tenures.last_ns[other])", "return True"),
    ("clauses.effect", "& (condition[1:] != version[:-1])", "& (condition[1:] > version[:-1])"),
    ("clauses.effect", "((operation[1:] != operation[:-1]) | (operation[1:] < 0))", "(operation[1:] >= -1)"),
    ("clauses.effect", "reason[readable & (grant < 0)] = NO_GRANT", "reason[readable & (grant < -1)] = NO_GRANT"),
    ("clauses.effect", "(grant >= 0) & ~is_seen", "(grant >= 0)"),
    ("facts.effects", "(grants.end_hi_ns[known] < sent_ns)", "(grants.end_hi_ns[known] > sent_ns)"),
    ("facts.effects", 'answered_ns[asked], side="right")', 'answered_ns[asked], side="left")'),
    ("facts.effects", "return found, (found < 0) | is_over", "return found, is_over"),
    ("facts.effects", "is_unguarded |= truth.is_on_wire[events.run[rows]] & ", "is_unguarded |= False & "),
    ("facts.sources.protocols", "[~calls_any & ~self.is_on_wire] = True", "[~calls_any] = True"),
    ("facts.waits", "sent_ns - until > patience_ns", "sent_ns - until < patience_ns"),
    ("facts.waits", "if first < 0 and not holds and op", "if first < 0 and op"),
    ("facts.waits", "op[place] not in (Op.RELEASE, Op.DELETE)", "True"),
    ("facts.waits", "if first >= 0 and (holds or int(request[place]) in granting):", "if first >= 0 and holds:"),
    ("facts.segments", "np.maximum.accumulate(part)[:-1])", "part[:-1])"),
    ("clauses.tokens", "grants.group[numbered], token, or_equal=True", "grants.group[numbered], token, or_equal=False"),
    ("clauses.tokens", "(before > 0) & (token < token[top])", "(before > 1) & (token < token[top])"),
    ("clauses.tokens", "(returned[first] < operations.call_row[which])", "(returned[first] >= 0)"),
    ("clauses.tokens", " & ~_enters_again(truth, operations, which)", ""),
    ("clauses.tokens", "| is_anew)", ")"),
    ("clauses.tokens", "inside: Flags = entered > left", "inside: Flags = entered >= left"),
    ("clauses.tokens", "chain, token[placed], or_equal=True", "chain, np.sort(token[placed])"),
    ("clauses.tokens", "asked_row=operations.call_row[which],\n", "asked_row=operations.return_row[which] - 1,\n"),
    ("clauses.takeover", "is_beyond_clocks = at < end - drift - allowance", "is_beyond_clocks = at < end - allowance"),
    ("clauses.takeover", "is_beyond_clocks = at < end - drift - allowance", "is_beyond_clocks = at <= end - drift - allowance"),  # noqa: E501
    ("clauses.takeover", "& (at < end - allowance)", "& (at <= end - allowance)"),
    ("clauses.takeover", "(own_clock < stamp)", "(own_clock > stamp)"),
    ("facts.sources.open_calls", "begun > ended", "begun >= ended"),
    ("facts.sources.open_calls", " & (entered <= left)", ""),
    ("facts.sources.open_calls", "serves_another = calls_nothing & ", "serves_another = "),
    ("facts.sources.record_chain", "(token[here] > token[here - 1])", "(token[here] != token[here - 1])"),
    ("facts.sources.record_chain", "(events.integers(\"at_ns\")[sent] < until)", "True"),
    ("facts.sources.record_chain", "(stamp <= wall)", "(stamp <= wall + 50)"),
    ("facts.sources.record_chain", "(version != NO_TEXT) & (writes.sent_row", "(writes.sent_row"),
    ("facts.sources.record_chain", " & (nodes[back] != giver)", ""),
    ("facts.sources.record_chain", " & (stamp[row] != stamp[before])", ""),
    ("facts.sources.record_chain", "others[self._calls.are_acquiring(writes.sent_row[others])]", "others"),
    ("facts.sources.record_chain", "here[np.isin(name[len(back) :], name[: len(back)])]", "here"),
    ("clauses.takeover", " | (changes.node[ending] != grants.node[taken])", ""),
    ("clauses.takeover", "(sent >= 0) & changes.is_conditional[removals]", "(sent >= 0)"),
    ("clauses.takeover", "clears[asked] = OpenCalls(truth.events).are_acquiring(sent[asked])", "pass"),
    ("clauses.takeover", "np.union1d(replaced, _removed_by_another(truth)).astype(np.int64)", "replaced"),
    ("clauses.ownership", "struck[struck] = ~clear_the_way(truth, here[struck])", "pass"),
    ("situations", " & (changes.node[grants.end] != grants.node)", ""),
    ("situations", 'freed &= changes.node[grants.end] != events.code_of("node", OPERATOR)', "pass"),
    ("situations", "lapsed | ~grants.lapses[replaced]", "lapsed"),
    ("clauses.gaps", "if departed_ns <= found[gap] + limit[gap]:", "if True:"),
    ("clauses.gaps", "if departed_ns <= found[gap] + limit[gap]:", "if False:"),
    ("clauses.gaps", "max(int(found[gap]), departed_ns + lasting_ns)", "FOREVER"),
    ("clauses.gaps", "(operations.return_row < 0) | (operations.outcome == Outcome.AMBIGUOUS)", "operations.return_row < 0"),  # noqa: E501
    ("clauses.gaps", "(operations.return_row < 0) | (operations.outcome == Outcome.AMBIGUOUS)", "operations.outcome != Outcome.APPLIED"),  # noqa: E501
    ("clauses.gaps", "(operations.op == Op.ACQUIRE) & unheard", "unheard"),
    ("clauses.gaps", "if truth.are_queues[group[call]]:", "if False:"),
    ("clauses.gaps", "if truth.are_queues[group[call]]:", "if True:"),
    ("clauses.gaps", "if not own.any():", "if True:"),
    ("clauses.gaps", '                own &= events.codes("node")[joining] == operations.node[call]\n', ""),
    ("clauses.gaps", "(self.unheard,) if returned else (self.unheard, self.by_death)", "(self.unheard, self.by_death)"),
    ("clauses.gaps", "(self.unheard,) if returned else (self.unheard, self.by_death)", "(self.unheard,)"),
    ("clauses.gaps", "asked & (since_deaths[clause] != since[clause])", "asked & False"),
    ("clauses.gaps", "gaps, waits, since_deaths[clause], limit[clause], moved)", "gaps, waits, since[clause], limit[clause], moved)"),  # noqa: E501
    ("clauses.gaps", "own &= (joining > operations.call_row[call]) & ", "own &= "),
    ("clauses.gaps", ' & (events.integers("at_ns")[joining] <= departed_ns)', ""),
    ("clauses.gaps", " & ~truth.is_recorded_by_service[events.run[sent]]", ""),
    ("clauses.gaps", "(answer < 0) | (events.numbers(\"outcome\")[np.maximum(answer, 0)] == Outcome.AMBIGUOUS)", "answer < 0"),  # noqa: E501
    ("clauses.gaps", "(answer < 0) | (events.numbers(\"outcome\")[np.maximum(answer, 0)] == Outcome.AMBIGUOUS)", "answer < len(events.run)"),  # noqa: E501
    ("situations", "changes.is_renewal & changes.is_record", "changes.is_renewal"),
    ("situations", "(END_RELEASED, END_DELETED)", "(END_RELEASED,)"),
    ("situations", "(END_RELEASED, END_DELETED)", "(END_DELETED,)"),
    ("facts.sources.proven_faults", "self._latest_sent_ns[place] > until_ns", "True"),
    ("facts.sources.proven_faults", "return place >= 0 and self._latest_sent_ns[place] > until_ns", "return False"),
    ("facts.sources.proven_faults", "not any(each.under_way(one.sent_ns, until_ns) for each in makers)", "False"),
    ("facts.sources.proven_faults", "users[self._most_made(state, makers) :]", "users[len(users) :]"),
    ("facts.sources.proven_faults", "return count + int(is_old or may_be_old)", "return count"),
    ("facts.sources.proven_faults", "may_be_old = self._repeats and ", "may_be_old = "),
    ("facts.sources.proven_faults", "self._seen_ns > first_ns", "False"),
    ("facts.sources.proven_faults", "FOREVER_NS if is_open else write.until_ns", "write.until_ns"),
    ("facts.sources.proven_faults", "and sent[write.content] == 1 and", "and"),
    ("facts.sources.proven_faults", "or self._shown_ns.get(state, first_ns) < first_ns", ""),
    ("facts.sources.record_chain", "& ~is_hole & ~writes.is_proven", "& ~is_hole"),
    ("facts.sources.record_chain", "broken |= writes.is_proven & continues & ~is_hole", "pass"),
    ("clauses.tokens", "np.maximum(renewed, grants.token)", "grants.token"),
    ("clauses.ownership", "(is_early | ~chain.is_conditional[here])", "is_early"),
    ("clauses.ownership", "(is_early | ~chain.is_conditional[here])", "~chain.is_conditional[here]"),
    ("clauses.ownership", "foul = chain.is_renewal[here] & ~same_node", "foul = chain.is_renewal[here] & same_node"),
    ("clauses.ownership", "(stamp[here] == stamp[here - 1])", "(stamp[here] >= stamp[here - 1])"),
    ("clauses.ownership", "is_kept = (stamp[here] != ABSENT) & ", "is_kept = "),
    ("clauses.ownership", "& ~same_node & ~is_kept", "& ~same_node"),
    ("clauses.answers", "(over < operations.call_at_ns[granted])", "(over > operations.call_at_ns[granted])"),
    ("clauses.answers", 'clock.place(operations.run[which], call), side="left")', 'clock.place(operations.run[which], call), side="right")'),  # noqa: E501
    ("clauses.answers", 'clock.place(operations.run[which], back), side="right") - 1', 'clock.place(operations.run[which], back), side="left") - 1'),  # noqa: E501
    ("clauses.answers", "valid + 2 * drift + rate", "valid + 1 * drift + rate"),
    ("clauses.answers", "> operations.return_at_ns[call]\n", "< operations.return_at_ns[call]\n"),
    ("clauses.answers", "((token < recorded) | (token > last))", "(token > last)"),
    ("clauses.answers", "((token < recorded) | (token > last))", "(token < recorded)"),
    ("clauses.answers", "(token != ABSENT) & (recorded != ABSENT)", "(recorded != ABSENT)"),
    ("clauses.answers", "(token != ABSENT) & (recorded != ABSENT)", "(token != ABSENT)"),
    ("clauses.answers", "wrong = readable[acquire] & (token != operations.token[acquire])", "wrong = readable[acquire]"),  # noqa: E501
    ("facts.reentrancy", "inner[asked] = entered > gone", "inner[asked] = entered >= gone"),
    ("facts.reentrancy", "np.concatenate((operations.grant[enters], left[leaves], left[which[asked]]))", "0 * np.concatenate((operations.grant[enters], left[leaves], left[which[asked]]))"),  # noqa: E501
    ("facts.reentrancy", "& are_among(operations.outcome, LEAVES)", ""),
    ("clauses.gaps", "np.flatnonzero(judged & (gaps.until_ns - since > limit", "np.flatnonzero(judged & (gaps.until_ns - since >= 10 * limit"),  # noqa: E501
    ("clauses.gaps", "and waited > limit[gap]:", "and waited >= limit[gap]:"),
    ("clauses.loss_notice", "(tenures.last_ns[known] > end + clock_allow", "(tenures.last_ns[known] >= end + clock_allow"),  # noqa: E501
    ("clauses.loss_notice", "+ bounds.request_ns[run]", ""),
    ("clauses.loss_notice", "return min(reported, until) > due + paused", "return min(reported, until) > due"),
    ("clauses.loss_notice", "until = min(over, disturbances.crashed_ns(run, node, after_row=int(operations.call_row[acquire])))", "until = over"),  # noqa: E501
    ("clauses.loss_notice", "(answer >= 0) & (answer < until_row)", "(answer >= 0)"),
    ("clauses.loss_notice", "are_among(outcome, NO_REASONS)", "outcome == Outcome.APPLIED"),
    ("clauses.loss_notice", "return bool(np.all(np.isin(other, own)))", "return True"),
    ("clauses.loss_notice", "changes.version[int(grants.first[grant]) : end])", "changes.version[int(grants.first[grant]) : 0])"),  # noqa: E501
    ("clauses.loss_notice", "or task[sent] == case.operations.task[acquire]", ""),
    ("clauses.loss_notice", "return not bool(np.any(task[self._requests(acquire, until_row)] == task[sent]))", "return True"),  # noqa: E501
    ("disturbances", "here[~self._strike_requests[here]]", "here"),
    ("clauses.loss_notice", "& (ended > at)", ""),
    ("clauses.loss_notice", "0 <= answer < before_row", "0 <= answer"),
    ("clauses.loss_notice", "not disturbances.befell_process(run, node, since_row, until_row)", "True"),
    ("clauses.loss_notice", "if abs(apart) > bound_ns:", "if apart > bound_ns:"),
    ("clauses.loss_notice", "(operations.op[calls] == Op.RELEASE) & ", ""),
    ("clauses.loss_notice", "unlocked | in_doubt", "unlocked"),
    ("clauses.loss_notice", "& (operations.task[calls] != operations.task[acquire])", ""),
    ("clauses.liveness", "(is_open | (took > bound_ns))", "(is_open | (took > 2 * bound_ns))"),
    ("clauses.gaps", "known & ~gaps.is_holed", "known"),
    ("clauses.gaps", "(runs_with(case, gaps.run[hidden & gaps.is_holed & (waited > limit[clause])]), HOLED),", ""),
    ("clauses.liveness", "keep = np.flatnonzero(long & ~is_hidden)", "keep = np.flatnonzero(long)"),
    ("facts.sources.truth", "last = np.where(until < 0, stop, until + 1)", "last = np.where(until < 0, stop, until)"),
    ("facts.sources.truth", "first = np.where(until < 0, start, after + 1)", "first = start"),
    ("clauses.loss_notice", "if is_hidden[one]:", "if False:"),
    ("clauses.loss_notice", "owed = case.runs.claim(LOSSES)[operations.run]", "owed = np.ones(len(operations.op), dtype=np.bool_)"),  # noqa: E501
    ("clauses.liveness", "np.maximum(operations.return_at_ns[call], np.where(bounds.has_end, bounds.faults_end_ns, 0)[run])", "operations.return_at_ns[call]"),  # noqa: E501
    ("clauses.liveness", "np.minimum(np.minimum(ended, valid), case.end_ns[run])", "np.minimum(ended, valid)"),
    ("clauses.liveness", " and not disturbances.is_paused_for_good(run, node)", ""),
    ("clauses.liveness", "(over > limit) & bounds.has_end", "(over >= limit) & bounds.has_end"),
    ("situations", "(within[0] - within[1] > landed)", "(within[0] - within[1] >= landed)"),
    ("clauses.fairness", "counts > allowed[run]", "counts >= allowed[run]"),
    ("facts.sources.chain_order", " if write.content not in told else None", ""),
    ("facts.sources.chain_walk", "if wanted == ABSENT_STATE:", "if False:"),
    ("facts.sources.assignment", "((owner == holder) | (owner == NO_TEXT))", "(owner == NO_TEXT)"),
    ("facts.sources.assignment", "((owner == holder) | (owner == NO_TEXT))", "(owner == holder)"),
    ("facts.sources.assignment", "has_live = last_live >= begin", "has_live = last_live >= 0"),
    ("facts.sources.assignment", "found: Flags = ends & first", "found: Flags = ends"),
    ("facts.sources.sessions", "ends[index] = crashed + int(validity[which])", "ends[index] = crashed"),
    ("facts.sources.sessions", "landed = (answer >= 0) & (", "landed = (answer >= 0) | ("),
    ("facts.operations", "(operations.return_row[call] > row)", "(operations.return_row[call] < row)"),
    ("facts.sources.waiting_queue", "RELEASED if own_hand else DELETED", "DELETED if own_hand else RELEASED"),
    ("facts.sources.waiting_queue", "np.maximum(joined_hi_ns, writes.at_hi_ns[by])", "writes.at_hi_ns[by]"),
    ("facts.sources.waiting_queue", "if number not in self._there:", "if True:"),
    ("facts.sources.waiting_queue", "owner in (NO_TEXT, self._there[one][1])", "owner == self._there[one][1]"),
    ("facts.sources.waiting_queue", "[number] if number != ABSENT else list(self._there)", "[number]"),
    ("facts.sources.waiting_queue", "queue, lock = _Queue(), int(group[place])", "lock = int(group[place])"),
    ("facts.sources.waiting_queue", "np.where(state == LIVE, writes.sent_row[joined], writes.sent_row[by])", "writes.sent_row[by]"),  # noqa: E501
    ("facts.sources.assignment", "(op != Op.RELEASE) & (op != Op.DELETE)", "(op != Op.RELEASE)"),
    ("facts.sources.assignment", "if by_name[code] in used:", "if False:"),
    ("facts.sources.protocols", "SOURCES.get(protocol, CALLS)", "SOURCES.get(protocol, CHAIN)"),
    ("clauses.takeover", "(grants.end_kind == END_TAKEN_OVER) & grants.lapses", "(grants.end_kind == END_TAKEN_OVER)"),
    ("clauses.commits", "self.commits.is_lost | ", ""),
    ("clauses.commits", "self.commits.is_twice | ", ""),
    ("clauses.commits", " | is_elsewhere)", ")"),
    ("clauses.commits", "(self.commits.places > 1) & ~acknowledged", "(self.commits.places > 0) & ~acknowledged"),
    ("clauses.commits", "(self.commits.places > 1) & ~acknowledged", "(self.commits.places > 1)"),
    ("clauses.commits", "version > highest + 1", "version > highest + 2"),
    ("clauses.commits", "np.append(-1, version)", "np.append(0, version)"),
    ("clauses.commits", "& (landings.identity[np.maximum(before, 0)] != landings.identity)", ""),
    ("clauses.commits", "for begin, end in _groups(landings.log[order]):", "for begin, end in [(0, len(order))]:"),
    ("facts.commits", "self.places[self.returns.identity] == 0", "self.places[self.returns.identity] < 0"),
    ("facts.commits", "self.places[self.returns.identity] > 1", "self.places[self.returns.identity] > 2"),
    ("facts.commits", "self.returns.is_error & landed", "landed"),
    ("facts.commits", "landed[self.landings.identity] = True", "landed[self.landings.identity[self.landings.stands]] = True"),  # noqa: E501
    ("facts.commits", "np.append(is_new_place[starts[1:]], True)", "np.append(is_new_place[starts[:-1]], True)"),
    ("facts.commits", "if commit not in kept", ""),
    ("facts.commits", "old.get(int(identity[each]), int(starts[number - 1]))", "int(starts[number - 1])"),
    ("facts.commits", "_how_often(renumber(place, identity)[0]),", ""),
    ("facts.commits", "events.codes(\"content\")[rows] != NO_TEXT", "events.codes(\"content\")[rows] == NO_TEXT"),
    ("facts.commits", "(self.outcome == Outcome.PRECONDITION_FAILED) | ", ""),
    ("facts.commits", " | (self.outcome == Outcome.REJECTED)", ""),
    ("facts.effects", "rows = rows[~is_unguarded]", "rows = rows"),
    ("clauses.gaps", "alive = np.where(grants.lapses, kept, valid)", "alive = kept"),
    ("clauses.liveness", "np.minimum(took[slow], _local_ns(case, slow, took[slow]))", "took[slow]"),
    ("clauses.liveness", "np.minimum(took[slow], _local_ns(case, slow, took[slow]))", "_local_ns(case, slow, took[slow])"),  # noqa: E501
    ("clauses.waiting", "if died is not None:\n            until[call] = died", "if False:\n            until[call] = died"),  # noqa: E501
    ("clauses.liveness", "(_have_no_lease(case), LEASELESS), ", ""),
    ("clauses.liveness", " & ~runs_with(case, grants.run[grants.valid_until_true_ns != ABSENT])", ""),
    ("clauses.liveness", "case.runs.claim(NO_LEASE) & ", ""),
    ("promised", "allowed_ns = beta_ns + (0 if is_simulated else max(READING_NS, late_ns))", "allowed_ns = beta_ns"),
    ("promised", "max(READING_NS, late_ns)", "late_ns"),
    ("promised", "ends = ends[(ends != ABSENT) & (ends >= begin_ns) & (ends < end_ns)]", "ends = ends[(ends != ABSENT) & (ends < end_ns)]"),  # noqa: E501
    ("promised", "if name not in longest or longest[name].off_ns < length_ns:", "if name not in longest:"),
    ("promised", "(grants.node[mine] == node) & (grants", "(grants"),
    ("promised", "(grants.end_hi_ns[held] == ABSENT) | (grants.end_hi_ns[held] >= begin_ns)", "True | (grants.end_hi_ns[held] >= begin_ns)"),  # noqa: E501
    ("promised", "if clause == ABOUT_THE_STORE:", "if False:"),
    ("promised", "if clause == \"S4\" and", "if"),
    ("promised", "agreed = np.vstack((ahead, np.full(len(times), true, dtype=np.int64)))", "pass"),
    ("promised", "min(end_ns, int(case.end_ns[run])) - begin_ns", "end_ns - begin_ns"),
    ("promised", " and not self._checks_tokens[run]", ""),
    ("promised", "(at <= until_ns)", "True"),
    ("facts.surroundings.host", "if over[one] > late[number] and not", "if True and not"),
    ("facts.surroundings.host", "Op.DELETE, Op.WRITE))", "Op.DELETE))"),
    ("facts.surroundings.host", "late[late < NOTICED_NS] = 0", "pass"),
    ("judgement", "**dict.fromkeys((\"S4\", \"S5\", \"S6\"), _CLOCKS)", "**dict.fromkeys((\"S4\", \"S5\"), _CLOCKS)"),
    ("judgement", "**dict.fromkeys((\"S4\", \"S5\", \"S6\"), _CLOCKS)", "**dict.fromkeys((\"S5\", \"S6\"), _CLOCKS)"),
    ("judgement", "**dict.fromkeys((\"S4\", \"S5\", \"S6\"), _CLOCKS)", "**dict.fromkeys((\"S4\", \"S6\"), _CLOCKS)"),
    ("judgement", "pc.fill_null(runs[name], 0) if name in _CLOCKS else runs[name]", "runs[name]"),
    ("judgement", "_SPANS: Final = (\"validity_ns\", \"poll", "_SPANS: Final = (\"poll"),
    ("judgement", "pc.add(known, late_ns)", "pc.add(known, 2 * late_ns)"),
    ("promised", "max(READING_NS, late_ns)", "READING_NS"),
    ("clauses.waiting", "are_among(operations.outcome, (Outcome.AMBIGUOUS, Outcome.REJECTED))", "are_among(operations.outcome, (Outcome.AMBIGUOUS,))"),  # noqa: E501
    ("clauses.waiting", "busy_from = np.where(operations.is_granted, operations.return_at_ns, operations.call_at_ns)", "busy_from = operations.call_at_ns"),  # noqa: E501
    ("clauses.ownership", "(chain.token[here] != ABSENT) & (chain.token[here] < chain.token[granted])", "(chain.token[here] < chain.token[granted])"),  # noqa: E501
    ("clauses.ownership", "foul[is_strange] |= _named_an_earlier_grant(truth, here[is_strange])", "foul[is_strange] = True"),  # noqa: E501
    ("clauses.ownership", "revived[back] = ~is_touched_by_hand", "revived[back] = True"),
    ("clauses.ownership", " & ~chain.is_hole[here] &", " &"),
    ("judgement", "undecided=[(where & ~tokenless, why) for where, why in holed]", "undecided=holed"),
    ("judgement", "tokenless & asks_for_tokens(case)", "asks_for_tokens(case)"),
    ("clauses.gaps", "np.minimum(valid, given_up + allowance) + 2 * drift + rate", "np.minimum(valid, given_up + allowance) + drift + rate"),  # noqa: E501
    ("clauses.gaps", "bounds.has_validity[gaps.run] & died & readable", "bounds.has_validity[gaps.run] & readable"),
    ("clauses.gaps", "bounds.has_handover[gaps.run] & gaps.is_released & readable,", "bounds.has_handover[gaps.run] & readable,"),  # noqa: E501
    ("clauses.gaps", "faults_end = np.where(gaps.is_lease, bounds.outages_end_ns[gaps.run], bounds.faults_end_ns[gaps.run])", "faults_end = bounds.faults_end_ns[gaps.run]"),  # noqa: E501
    ("clauses.gaps", "asked = judged & ~gaps.is_unread if joined else judged", "asked = judged & ~gaps.is_unread"),
    ("clauses.gaps", "outer = outer[~case.once(are_leaseless)[given_back[outer]] | (operations.outcome[outer] == Outcome.APPLIED)]", "outer = outer"),  # noqa: E501
    ("clauses.gaps", "over &= ~(case.once(are_leaseless)[failed] & (operations.outcome[call] == Outcome.AMBIGUOUS))", "pass"),  # noqa: E501
    ("clauses.gaps", "over &= ~(case.once(are_leaseless)[failed] & (operations.outcome[call] == Outcome.AMBIGUOUS))", "over &= ~case.once(are_leaseless)[failed]"),  # noqa: E501
    ("clauses.liveness", "== Outcome.AMBIGUOUS) & ~case.once(are_leaseless)[left]", "== Outcome.AMBIGUOUS)"),
    ("clauses.gaps", "outer = releases[~inner]", "outer = releases"),
    ("clauses.gaps", "np.where(blocked, FOREVER, np.minimum(alive, abandoned))", "np.minimum(alive, abandoned)"),
    ("clauses.takeover", "at = changes.at_hi_ns[action]", "at = changes.at_lo_ns[action]"),
    ("clauses.takeover", "& ~changes.is_hole[ending]", ""),
    ("clauses.takeover", "clears: Flags = (sent >= 0) & changes.is_conditional[removals]", "clears: Flags = (sent >= 0)"),  # noqa: E501
    ("clauses.takeover", "are_among(grants.end_kind, (END_RELEASED, END_DELETED)) & grants.lapses", "are_among(grants.end_kind, (END_RELEASED,)) & grants.lapses"),  # noqa: E501
    ("clauses.takeover", "are_among(grants.end_kind, (END_RELEASED, END_DELETED)) & grants.lapses", "are_among(grants.end_kind, (END_DELETED,)) & grants.lapses"),  # noqa: E501
    ("clauses.takeover", "is_removed & (changes.node[grants.end] != grants.node)", "is_removed"),
    ("clauses.takeover", "(changes.owner[ending] != grants.owner[taken]) | (changes.node[ending] != grants.node[taken])", "(changes.owner[ending] != grants.owner[taken])"),  # noqa: E501
    ("clauses.takeover", "before_row=int(changes.sent_row[ending[one]])", "before_row=10**9"),
]  # fmt: skip

TOKEN_ORDER_MUTANTS = [
    ("second_opinion.token_order", "if tenure.begin_ns > tenure.op.return_ns:", "if tenure.begin_ns >= tenure.op.return_ns:"),  # noqa: E501
    ("second_opinion.token_order", "tenure.begin_ns = max(tenure.op.call_ns, free_ns)", "tenure.begin_ns = tenure.op.call_ns"),  # noqa: E501
    ("second_opinion.token_order", "max(previous.end_lo_ns, previous.begin_ns)", "previous.end_lo_ns"),
    ("second_opinion.token_order", "tenure.op.token == previous.op.token", "False"),
    ("second_opinion.token_order", "tenure.end_ns = min(tenure.end_hi_ns, following)", "tenure.end_ns = tenure.end_hi_ns"),  # noqa: E501
    ("second_opinion.token_order", "gap = bisect_left(ends, op.call_ns)", "gap = bisect_right(ends, op.call_ns)"),
    ("second_opinion.token_order", "tenures[gap].begin_ns <= op.return_ns", "tenures[gap].begin_ns < op.return_ns"),
    ("second_opinion.token_order", "op.return_ns < earliest.return_ns", "op.return_ns > earliest.return_ns"),
    ("second_opinion.token_order", "<= used or not", "< used or not"),
    ("second_opinion.token_order", "or not _has_room(tenures, gap, token_min)", ""),
    ("second_opinion.token_order", "- below > 1", "- below > 0"),
    ("second_opinion.token_order", "(token_min or 0) - 1 if gap == 0", "(token_min or 0) if gap == 0"),
    ("second_opinion.token_order", "or (gap == 0 and token_min is None)", ""),
    ("second_opinion.token_order", "held.end_lo_ns = min(held.end_lo_ns, op.call_ns)", "held.end_lo_ns = max(held.end_lo_ns, op.call_ns)"),  # noqa: E501
    ("second_opinion.token_order", "held.end_lo_ns = min(held.end_lo_ns, op.call_ns)", "held.end_lo_ns = op.call_ns"),
    ("second_opinion.token_order", "held.end_hi_ns = op.return_ns", "pass"),
    ("second_opinion.token_order", "del holding[op.client]", "pass"),
    ("second_opinion.token_order", "if op.result is Result.RELEASED:", "if True:"),
]  # fmt: skip

EQUIVALENT = {
    # A begin is never before the call, so an end window that began before the grant changes the next begin only where
    # the grant itself was pushed beyond its own release's call; the next call decides again unless all three overlap.
    ("second_opinion.token_order", "max(previous.end_lo_ns, previous.begin_ns)"),
}
"""Mutants that may survive, each with its reason; one that is caught after all must leave the list."""


def mutated(name: str, before: str, after: str) -> types.ModuleType:
    """The module with one passage replaced. The passage must stand in it exactly once."""
    original = importlib.import_module(f"reports.checks.{name}")
    source = inspect.getsource(original)
    assert source.count(before) == 1, f"{before!r} stands {source.count(before)} times in {name}"
    module = types.ModuleType(original.__name__)
    module.__file__ = original.__file__
    # Its dataclasses look themselves up by module name, which still finds the original.
    exec(compile(source.replace(before, after), str(original.__file__), "exec"), module.__dict__)
    return module


def install(monkeypatch: pytest.MonkeyPatch, name: str, mutant: types.ModuleType) -> None:
    """Put the mutant's functions and classes in place of the original's, wherever the checks imported them."""
    original = sys.modules[f"reports.checks.{name}"]
    own = {
        key: value
        for key, value in vars(original).items()
        if getattr(value, "__module__", None) == original.__name__ and callable(value)
    }
    for key, module in list(sys.modules.items()):
        if not key.startswith("reports.checks."):
            continue
        for name_of, value in own.items():
            # The original keeps its classes: pickles and isinstance know them by it.
            if vars(module).get(name_of) is value and (module is not original or inspect.isfunction(value)):
                monkeypatch.setattr(module, name_of, vars(mutant)[name_of])
            for table in [each for each in vars(module).values() if isinstance(each, dict) and module is not original]:
                # Classes that are chosen by name, such as the sources of grants.
                for chosen in [entry for entry, made in table.items() if made is value]:
                    monkeypatch.setitem(table, chosen, vars(mutant)[name_of])


def cases() -> Iterator[tuple[types.FunctionType, dict[str, object]]]:
    """Every test of the suites with every set of its parameters."""
    for suite in SUITES:
        for key, test in vars(suite).items():
            if not key.startswith("test_") or not isinstance(test, types.FunctionType):
                continue
            if any(mark.name == "long" for mark in getattr(test, "pytestmark", [])):
                continue
            marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
            for chosen in itertools.product(*[_parameters(mark) for mark in marks]):
                yield test, {name: value for part in chosen for name, value in part.items()}


def _parameters(mark: pytest.Mark) -> list[dict[str, object]]:
    names = mark.args[0]
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    # `pytest.param(…, id=…)` holds its values; a bare row is the values, or the only one.
    rows = [getattr(row, "values", row if len(names) > 1 else (row,)) for row in mark.args[1]]
    return [dict(zip(names, row, strict=True)) for row in rows]


def names_of(each: Sequence[tuple[types.FunctionType, dict[str, object]]]) -> list[str]:
    """A name for each case: its suite, its test, and which of the test's sets of parameters it is."""
    seen: Counter[str] = Counter()
    names = []
    for test, _ in each:
        name = f"{test.__module__.rpartition('.')[2]}.{test.__name__}"
        names.append(f"{name}[{seen[name]}]")
        seen[name] += 1
    return names


CASES = list(cases())
NAMES = names_of(CASES)


def catching_case(likely: Sequence[str] = ()) -> int | None:
    """The place in `CASES` of the first history that falls, if any.

    likely: names of cases. They are asked first, in their order, then what else their tests and their suites have.
    """
    test_of = [name.partition("[")[0] for name in NAMES]
    near = [
        list(likely),
        [name.partition("[")[0] for name in likely],
        [name.partition(".")[0] for name in likely],
    ]

    def distance(place: int) -> tuple[int, int]:
        for nearness, (name, names) in enumerate(
            zip((NAMES[place], test_of[place], test_of[place].partition(".")[0]), near, strict=True)
        ):
            if name in names:
                return nearness, names.index(name)
        return len(near), 0

    for place in sorted(range(len(CASES)), key=distance):
        test, parameters = CASES[place]
        try:
            test(**parameters)
        except Exception:  # noqa: BLE001  (however a mutant fails, it is caught)
            return place
    return None


@functools.cache
def catchers() -> dict[str, str]:
    """By mutant the name of the case that caught it last."""
    read: dict[str, str] = json.loads(CATCHERS.read_text(encoding="utf-8"))
    return read


def likely_cases(known: dict[str, str], name: str, before: str, after: str) -> list[str]:
    """The case that caught this mutant last, then those that caught other mutants of the same module."""
    own = known.get(mutant_name(name, before, after))
    others = dict.fromkeys(case for mutant, case in known.items() if mutant.startswith(f"{name}: "))
    return [own, *others] if own else list(others)


def caught(known: dict[str, str], name: str, before: str, after: str) -> int | None:
    """The place of the case that this mutant of the judge fails, if any does. known: as `catchers` gives."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        install(monkeypatch, name, mutated(name, before, after))
        return catching_case(likely_cases(known, name, before, after))


def mutant_name(name: str, before: str, after: str) -> str:
    """The name of a mutant of the judge in the file of catchers."""
    return f"{name}: {before} -> {after}"


@pytest.mark.long
def test_the_suites_pass_unchanged():
    """Without a mutant nothing is caught. The short lane asks that only of cases that catch a mutant."""
    assert catching_case() is None


@pytest.mark.parametrize(("name", "before", "after"), JUDGE_MUTANTS)
def test_a_wrong_comparison_in_the_judge_is_caught(name, before, after):
    """Checks are code: one comparison changed, some hand-made history must fall, which stands without the change."""
    place = caught(catchers(), name, before, after)
    assert place is not None
    test, parameters = CASES[place]
    test(**parameters)
    recorded = catchers().get(mutant_name(name, before, after))
    if recorded != NAMES[place]:
        told = f"{recorded} misses it" if recorded else "no case is recorded for it"
        warnings.warn(
            f"{told}, {NAMES[place]} catches it; `python -m tests.quality.mutants.test_checker_mutants` records that",
            CatcherMissed,
            stacklevel=1,
        )


@pytest.mark.parametrize("recorded", ["", "test_safety_core.test_that_is_no_more[0]"])
def test_a_mutant_whose_recorded_case_misses_it_is_caught_all_the_same(monkeypatch, recorded):
    """Without a case of its own, or with one that is gone, every case is asked; and a warning tells it."""
    mutant = next(each for each in JUDGE_MUTANTS if each[0] == "clauses.belief")
    monkeypatch.setitem(catchers(), mutant_name(*mutant), recorded)
    with pytest.warns(CatcherMissed, match="tests.quality.mutants.test_checker_mutants"):
        test_a_wrong_comparison_in_the_judge_is_caught(*mutant)


@pytest.mark.long
def test_each_mutant_has_its_case():
    """A renamed test or a changed mutant leaves no entry behind. The module, run as a program, writes the file anew."""
    assert {*catchers()} == {mutant_name(*mutant) for mutant in JUDGE_MUTANTS}
    assert {*catchers().values()} <= {*NAMES}


@pytest.mark.parametrize(("name", "before", "after"), TOKEN_ORDER_MUTANTS)
def test_a_wrong_comparison_in_the_second_opinion_is_caught(name, before, after):
    """The differential finds it, thanks to small times that tie; argued equivalents alone may survive."""
    mutant = mutated(name, before, after)
    # The mutant has classes of its own; it must be asked in the original's terms.
    for shared in ("Result", "LockOp"):
        setattr(mutant, shared, getattr(sys.modules["reports.checks.second_opinion.token_order"], shared))
    try:
        told = differential.verdicts(mutant.find_illegal)
        caught = any((found is None) != is_legal for _, is_legal, found in told)
    except (AttributeError, AssertionError):
        # It lost an attribute, or broke an invariant that the original asserts.
        caught = True
    assert caught != ((name, before) in EQUIVALENT)


if __name__ == "__main__":
    found = catchers() if CATCHERS.exists() else {}
    for mutant in JUDGE_MUTANTS:
        place = caught(found, *mutant)
        if place is not None:
            found[mutant_name(*mutant)] = NAMES[place]
        # Written each time: a run that is cut off goes on where it was.
        current = {name: found[name] for each in JUDGE_MUTANTS if (name := mutant_name(*each)) in found}
        CATCHERS.write_text(json.dumps(current, indent=1, sort_keys=True) + "\n", encoding="utf-8")
