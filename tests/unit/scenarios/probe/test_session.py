"""What a probe counts, remembers and removes: which keys may still come back, when a store is gone, what is left."""

from __future__ import annotations

import dataclasses

import pytest

from lockref.clouds import calls
from lockref.clouds.calls import DELETE, LIST, PUT, READ, Answer, Call, Inexpressible
from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.words import Outcome
from scenarios.probe import cleanup, run
from scenarios.probe.cleanup import LOST_MAX, Residue, remove_all
from scenarios.probe.findings import Finding
from scenarios.probe.session import PREFIX, Session, Unanswered, began_wall_ns, new_prefix
from scenarios.probe.steps import Step
from tests.scripted_store import BUSY, SILENT, UNKNOWN, Lie, ScriptedStore, finding_of, session_of

DONE = Answer(outcome=Outcome.APPLIED, status=204)
UNSENT = Answer(outcome=Outcome.AMBIGUOUS, reason="no connection; nothing was sent", is_unsent=True)


# What may still land.


@pytest.mark.parametrize(("first", "is_kept"), [(None, False), (SILENT, True), (UNSENT, False)])
def test_a_key_whose_write_may_land_later_is_removed_again_at_the_end(first: Answer | None, is_kept: bool) -> None:
    """A write without an answer may arrive after the delete; one for which there was no connection never does."""
    session = session_of(ScriptedStore(lambda _store, call: first if call.verb == PUT else None))
    key = session.key("k")
    session.send(Call(verb=PUT, key=key, body=b"x"))
    session.clear(key)
    assert (key in session.keys) is is_kept
    assert session.has_sent


def test_a_store_to_which_nothing_was_sent_is_not_cleaned() -> None:
    """No connection was made, so there is nothing to remove, and no bound of its own to wait for."""
    session = session_of(ScriptedStore(lambda _store, _call: UNSENT))
    session.send(Call(verb=READ, key="k"))
    assert not session.has_sent


def test_a_race_at_several_endpoints_is_dealt_out() -> None:
    """Spread over all of them, or all at the first one."""
    stores = [ScriptedStore(), ScriptedStore()]
    session = session_of(*stores)
    session.race([Call(verb=READ, key=f"k{number}") for number in range(4)], spread=True)
    assert [sorted(call.key for call in store.calls) for store in stores] == [["k0", "k2"], ["k1", "k3"]]
    session.race([Call(verb=READ, key="k4")] * 2)
    assert [len(store.calls) for store in stores] == [4, 2]


# When a store is gone.


@pytest.mark.parametrize(("answer", "tries"), [(SILENT, 4), (UNSENT, 3)])
def test_a_store_that_says_nothing_again_and_again_is_gone(answer: Answer, tries: int) -> None:
    """In a row: one answer in between, and it counts anew."""
    told: list[Answer] = []
    session = session_of(ScriptedStore(lambda _store, _call: told.pop(0)))
    told += [*[answer] * (tries - 1), DONE, *[answer] * (tries - 1)]
    while told:
        session.send(Call(verb=READ, key="k"))
    told.append(answer)
    with pytest.raises(BackendUnavailable, match="any more"):
        session.send(Call(verb=READ, key="k"))


def test_a_store_that_throttles_until_the_patience_is_over_has_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked again for a while; then the question has no answer, which is no refusal."""
    monkeypatch.setattr("scenarios.probe.session.THROTTLE_PATIENCE_NS", 0)
    with pytest.raises(Unanswered, match="503"):
        session_of(ScriptedStore(lambda _store, _call: BUSY)).ask(Call(verb=READ, key="k"))


def test_latencies_are_kept_by_what_became_of_the_request() -> None:
    """A create that was done and one that was refused take different times."""
    durations = iter((7, 9))
    session = session_of(
        ScriptedStore(lambda store, call: dataclasses.replace(store.answer(call), duration_ns=next(durations)))
    )  # fmt: skip
    key = session.key("k")
    session.make(key, b"x")
    session.send(Call(verb=PUT, key=key, body=b"y", none_match="*"))
    assert session.durations == {"create done": [7], "create refused": [9]}


# The clean-up.


def swept(lie: Lie, *, uploads: tuple[str, ...] = ()) -> tuple[ScriptedStore, Residue, Session]:
    """What is left of a probe that made three objects on this store."""
    store = ScriptedStore(lie)
    session = session_of(store)
    for _ in range(3):
        session.make(session.key("k"), b"x")
    for upload in uploads:
        session.uploads[session.key("upload"), upload] = None
    return store, remove_all(session), session


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is on its way lands within this time; here none is."""
    monkeypatch.setattr(cleanup, "SETTLING_NS", 0)


def test_everything_below_the_prefix_goes_and_nothing_else() -> None:
    """Another probe's objects, and the user's own, stay, also where a listing shows them."""

    def lists_all(store: ScriptedStore, call: Call) -> Answer | None:
        if call.verb != LIST:
            return None
        entries = tuple((key, version) for key, (_, version) in store.objects.items())
        return Answer(outcome=Outcome.APPLIED, status=200, entries=entries)

    store = ScriptedStore(lists_all)
    store.hold("somebody/else", b"mine")
    session = session_of(store)
    session.make(session.key("k"), b"x")
    residue = remove_all(session)
    assert list(store.objects) == ["somebody/else"]
    assert (residue.left, residue.reason, residue.removed) == ([], "", 1)
    assert store.is_closed, "what is on its way on its connections ends first"


def test_what_lands_after_the_first_look_is_removed_by_the_second() -> None:
    """A server may hold a request in its hands while the keys go."""
    late: list[str] = []

    def lands_late(store: ScriptedStore, call: Call) -> Answer | None:
        if call.verb == DELETE and not late:
            late.append(call.key)
        elif call.verb == LIST and late and not any(key in store.objects for key in late) and len(late) == 1:
            late.append("landed")
            told = store.answer(call)
            store.hold(late[0], b"late")
            return told
        return None

    store, residue, _ = swept(lands_late)
    assert len(late) == 2
    assert (store.objects, residue.left) == ({}, [])


def test_a_store_without_a_listing_is_cleaned_by_the_keys() -> None:
    """DynamoDB: every key that was used; where the store is gone, asking for one key in vain ends it."""

    def lists_nothing(_store: ScriptedStore, call: Call) -> Answer | None:
        if call.verb == LIST:
            raise Inexpressible(LIST)
        return None

    store, residue, _ = swept(lists_nothing)
    assert (store.objects, residue.left, residue.removed) == ({}, [], 3)

    def is_gone(store: ScriptedStore, call: Call) -> Answer | None:
        lists_nothing(store, call)
        return SILENT if call.verb == READ else None

    store, residue, session = swept(is_gone)
    assert residue.left == list(session.keys)[:1]
    assert residue.reason == "the store does not answer (no answer)"
    assert [call.key for call in store.calls if call.verb == READ] == residue.left * LOST_MAX


def test_what_must_not_be_deleted_is_told() -> None:
    """With its key and the answer; a policy that forbids plain deletes alone is served with the version."""
    store, residue, session = swept(lambda _store, call: UNKNOWN if call.verb == DELETE else None)
    assert residue.left[0] in session.keys
    assert residue.reason == "delete: 501"
    store, residue, _ = swept(lambda _store, call: UNKNOWN if call.verb == DELETE and call.match is None else None)
    assert (store.objects, residue.left) == ({}, [])


def test_uploads_and_former_versions_go_too() -> None:
    """An upload that was begun is aborted; of what stays, the end tells."""
    versions = {"v1", "v2"}
    is_open = {"u1": True}

    def keeps(_store: ScriptedStore, call: Call) -> Answer | None:
        match call.verb:
            case calls.ABORT:
                is_open[call.upload] = False
                return DONE
            case calls.UPLOADS:
                entries = tuple((call.key + "upload", upload) for upload, each in is_open.items() if each)
                return Answer(outcome=Outcome.APPLIED, status=200, entries=entries)
            case calls.VERSIONING:
                return Answer(outcome=Outcome.APPLIED, status=200, entries=(("status", "Suspended"),))
            case calls.VERSIONS:
                entries = tuple((f"{call.key}k", version) for version in sorted(versions))
                return Answer(outcome=Outcome.APPLIED, status=200, entries=entries)
            case calls.DELETE_VERSION:
                versions.discard(call.version)
                return DONE
        return None

    _, residue, _ = swept(keeps, uploads=("u1",))
    assert (is_open, versions, residue.left) == ({"u1": False}, set(), [])
    versions |= {"v3"}

    def refuses(store: ScriptedStore, call: Call) -> Answer | None:
        if call.verb in (calls.ABORT, calls.DELETE_VERSION):
            return UNKNOWN
        return keeps(store, call)

    is_open["u2"] = True
    store, residue, session = swept(refuses, uploads=("u2",))
    assert store.objects == {}, "an upload that stays keeps nothing else from being removed"
    assert residue.left == [f"unfinished upload of {session.prefix}/upload", f"{session.prefix}/k version v3"]
    assert residue.reason == "an upload could not be aborted"


# The beginning, and a second try.


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (lambda _store, call: UNKNOWN if call.verb == PUT else None, "a first write was answered 501"),
        (lambda _store, call: SILENT if call.verb == PUT else None, "a first write got no answer"),
        (lambda _store, call: UNKNOWN if call.verb == READ else None, "a first read was answered 501"),
        (lambda store, call: store.answer(dataclasses.replace(call, body=b"?")) if call.verb == PUT else None, "other"),
        (lambda _store, call: DONE if call.verb == PUT else None, "and a read shows nothing"),
    ],
)
def test_a_store_that_cannot_be_written_is_told_at_once(lie: Lie, words: str) -> None:
    """Before any question: a refusal, a silence, a read that shows something else."""
    with pytest.raises(BackendUnavailable, match=words):
        run._reach(session_of(ScriptedStore(lie)))


def asked_twice(*, is_again: bool, proves: bool = False) -> Finding:
    """What stays of a question whose first answer was lost."""
    tries: list[int] = []

    def question(_session: Session, finding: Finding, _end_ns: int) -> None:
        tries.append(1)
        finding.kept += 1
        if proves:
            finding.note(finding.unsafe, "proven")
        if len(tries) == 1:
            raise Unanswered("lost")

    findings = {"C1": finding_of("C1")}
    findings["C1"].kept = 5
    step = Step(clause="C1", run=question, weight=1, requests_max=1, is_again=is_again)
    run._ask(session_of(ScriptedStore()), step, findings, 0)
    assert len(tries) == (1 if proves else 2)
    return findings["C1"]


def test_a_second_try_begins_anew_and_forgets_no_earlier_step() -> None:
    """What the lost try saw is asked once more; what an earlier step found, or any try proved, stays."""
    assert asked_twice(is_again=False).kept == 1
    assert asked_twice(is_again=True).kept == 7
    proven = asked_twice(is_again=False, proves=True)
    assert (proven.unsafe, proven.unanswered) == (["proven"], ["lost"])


def test_a_probe_that_ends_early_leaves_open_what_it_asked_in_part() -> None:
    """The clause that was being asked, as a whole and with nothing kept yet; of later ones those that were begun."""

    def step(clause: str) -> Step:
        return Step(clause=clause, run=lambda *_asked: None, weight=1, requests_max=1)

    findings = {clause: finding_of(clause) for clause in ("C16", "C13", "C15", "C2")}
    findings["C16"].note(findings["C16"].deviations, "412 for 404")
    findings["C16"].part = "replace"
    findings["C13"].kept = 1
    findings["C2"].note(findings["C2"].unsafe, "two winners")
    run._leave_open([step(clause) for clause in findings], findings)
    said = ["not asked to its end: the probe ended early"]
    assert {clause: finding.unanswered for clause, finding in findings.items()} == {
        "C16": said, "C13": said, "C15": [], "C2": [],
    }  # fmt: skip
    assert findings["C16"].verdict_for("create") == "not_answered"


def test_other_probes_are_named_with_their_age_and_their_objects_stay() -> None:
    """Also those of a name that tells no age, and unfinished uploads. Of a machine ahead of ours the age is 0."""
    runtime = ThreadRuntime()
    store = ScriptedStore(uploads)
    session = session_of(store)
    session.send(Call(verb=PUT, key=session.key("k"), body=b"x"))
    ahead = f"{PREFIX}29990131T120000Z-0123456789ab"
    others = [f"{PREFIX}0123456789ab/a", f"{PREFIX}20260131T120000Z-0123456789ab/a", f"{ahead}/a", f"{ahead}/b"]
    for key in (*others, "state/table"):
        store.hold(key, b"x")
    residue = remove_all(session)
    assert sorted(store.objects) == sorted([*others, "state/table"])
    told = {each.prefix: (each.objects, each.age_ns) for each in residue.earlier}
    assert (residue.left, told.pop(ahead), told.pop(f"{PREFIX}0123456789ab")) == ([], (2, 0), (1, None))
    (objects, age_ns) = told.pop(f"{PREFIX}20260131T120000Z-0123456789ab")
    assert objects == 2, "one of them is an upload"
    assert age_ns is not None
    assert abs(runtime.wall_ns() - 1_769_860_800 * NS_PER_S - age_ns) < 600 * NS_PER_S
    assert told == {}
    assert began_wall_ns(new_prefix(runtime)) is not None


def uploads(_store: ScriptedStore, call: Call) -> Answer | None:
    """One unfinished upload, of another probe."""
    entries = ((f"{PREFIX}20260131T120000Z-0123456789ab/upload", "u1"),)
    found = tuple(entry for entry in entries if entry[0].startswith(call.key))
    return Answer(outcome=Outcome.APPLIED, status=200, entries=found) if call.verb == calls.UPLOADS else None
