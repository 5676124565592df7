"""Each question of a probe against a store that lies in its own way: the sentence that follows, and the kind of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from lockref.clouds.azure.cloud import AZURE
from lockref.clouds.calls import (
    ANYTHING,
    BEGIN_UPLOAD,
    COPY,
    DELETE,
    LEASE,
    LIST,
    PUT,
    READ,
    RESUMABLE,
    VERSIONING,
    Answer,
    Call,
    WriteMode,
)
from lockref.runtime import NS_PER_S
from lockref.stores.probe.clauses import Verdict
from lockref.words import Outcome
from scenarios.probe.findings import Finding
from scenarios.probe.preparation import COPYING
from scenarios.probe.questions import counter, leases, modes, pace, reading, sequential, versioned
from scenarios.probe.session import Session, Unanswered
from tests.scripted_store import (
    BUSY,
    SILENT,
    STALE,
    UNKNOWN,
    Lie,
    S3Like,
    ScriptedStore,
    finding_of,
    session_of,
)

Question = Callable[[Session, Finding], None]


def asked(question: Question, clause: str, lie: Lie, *, dialect: S3Like | None = None) -> Finding:
    """What became of the clause on this store."""
    finding = finding_of(clause)
    question(session_of(ScriptedStore(lie, dialect=dialect)), finding)
    return finding


def is_create(call: Call) -> bool:
    return call.verb == PUT and call.none_match == ANYTHING


def is_replacement(call: Call) -> bool:
    return call.verb == PUT and call.match is not None


def about(call: Call, name: str) -> bool:
    """The key was made for this part of the question."""
    return call.key.split("/")[1].startswith(name)


# Lies.


def swallows_a_create(store: ScriptedStore, call: Call) -> Answer | None:
    """Confirmed, and other bytes are there."""
    if is_create(call) and call.key not in store.objects and not about(call, "other"):
        return store.answer(dataclasses.replace(call, body=b"other bytes"))
    return None


def keeps_the_version(store: ScriptedStore, call: Call) -> Answer | None:
    """Other bytes under the same version."""
    if (
        call.verb == PUT
        and call.none_match is None
        and call.match in (None, store.objects.get(call.key, ("", None))[1])
    ):
        version = store.objects[call.key][1]
        store.objects[call.key] = call.body, version
        return Answer(outcome=Outcome.APPLIED, status=200, version=version)
    return None


def takes_any_known_version(store: ScriptedStore, call: Call) -> Answer | None:
    """A version is looked for in the whole bucket."""
    if is_replacement(call) and call.match in {version for _, version in store.objects.values()}:
        return store.answer(dataclasses.replace(call, match=None))
    return None


def answers_never_with_412(_store: ScriptedStore, call: Call) -> Answer | None:
    return STALE if is_replacement(call) and about(call, "never") else None


def keeps_what_it_deletes(store: ScriptedStore, call: Call) -> Answer | None:
    current = store.objects.get(call.key, (b"", None))[1]
    return Answer(outcome=Outcome.APPLIED, status=204) if call.verb == DELETE and call.match == current else None


def keeps_what_a_star_deletes(_store: ScriptedStore, call: Call) -> Answer | None:
    return Answer(outcome=Outcome.APPLIED, status=204) if call.verb == DELETE and call.match == ANYTHING else None


def refuses_a_star_and_deletes(store: ScriptedStore, call: Call) -> Answer | None:
    if call.verb != DELETE or call.match != ANYTHING:
        return None
    del store.objects[call.key]
    return STALE


def refuses_a_star(_store: ScriptedStore, call: Call) -> Answer | None:
    return UNKNOWN if call.verb == DELETE and call.match == ANYTHING else None


def takes_a_star_for_nothing(store: ScriptedStore, call: Call) -> Answer | None:
    """`If-Match: *` on an absent object makes one."""
    return store.answer(dataclasses.replace(call, match=None)) if call.match == ANYTHING else None


def refuses_and_takes(store: ScriptedStore, call: Call) -> Answer | None:
    """A stale replacement is refused, and its bytes are there."""
    if is_replacement(call) and call.match != store.objects.get(call.key, (b"", ""))[1]:
        store.hold(call.key, call.body)
        return STALE
    return None


def refuses_and_spoils(store: ScriptedStore, call: Call) -> Answer | None:
    """A stale replacement is refused, and the object is another one."""
    if is_replacement(call) and call.match != store.objects.get(call.key, (b"", ""))[1]:
        store.hold(call.key, b"spoilt")
        return STALE
    return None


def refuses_with_409(store: ScriptedStore, call: Call) -> Answer | None:
    if is_replacement(call) and call.match != store.objects.get(call.key, (b"", ""))[1]:
        return dataclasses.replace(STALE, status=409)
    return None


def never_recreates(store: ScriptedStore, call: Call) -> Answer | None:
    """RustFS: what was deleted can never be made again."""
    is_again = is_create(call) and any(each.verb == DELETE and each.key == call.key for each in store.calls)
    return STALE if is_again else None


@pytest.mark.parametrize(
    ("question", "clause", "lie", "kind", "sentence"),
    [
        (sequential.create, "C1", swallows_a_create, "unsafe", "confirmed a create, and the object does not hold"),
        (sequential.replace, "C4", keeps_the_version, "unsafe", "a replacement by other bytes left the version"),
        (sequential.replace, "C4", takes_any_known_version, "unsafe", "accepted a replacement with another object"),
        (
            sequential.replace,
            "C4",
            refuses_and_takes,
            "unsafe",
            "refused a replacement of a stale version (412), and stored",
        ),
        (
            sequential.replace,
            "C4",
            refuses_and_spoils,
            "unsafe",
            "refused a replacement of a stale version (412), and the",
        ),
        (sequential.replace, "C4", refuses_with_409, "deviations", "a replacement of a stale version: answered 409"),
        (
            sequential.replace_absent,
            "C5",
            answers_never_with_412,
            "deviations",
            "a replacement of an object that never was: answered 412, expected 404",
        ),
        (sequential.replace_recreated, "C6", never_recreates, "deviations", "a create after a delete: answered 412"),
        (sequential.delete, "C8", keeps_what_it_deletes, "unsafe", "confirmed a delete of the current version, and k"),
        (sequential.delete, "C8", keeps_what_a_star_deletes, "unsafe", "confirmed a delete of any version, and kept"),
        (sequential.delete, "C8", refuses_a_star_and_deletes, "unsafe", "refused a delete of any version (412), and"),
        (sequential.delete, "C8", refuses_a_star, "deviations", "a delete of any version (If-Match: *): answered 501"),
        (sequential.wildcards, "C10", takes_a_star_for_nothing, "unsafe", "accepted a replacement of any version of"),
        (sequential.overwrite, "C23", keeps_the_version, "unsafe", "a write without a condition left the version"),
    ],
)
def test_a_lie_has_its_sentence(question: Question, clause: str, lie: Lie, kind: str, sentence: str) -> None:
    """One question, one lie: what is told of it, and whether it refutes the clause or is a deviation."""
    finding = asked(question, clause, lie)
    assert [text for text in getattr(finding, kind) if text.startswith(sentence)], finding.told
    assert finding.verdict is (Verdict.UNSAFE if kind == "unsafe" else Verdict.USABLE)


@pytest.mark.parametrize(
    ("question", "clause"),
    [
        (sequential.create, "C1"),
        (sequential.replace, "C4"),
        (sequential.replace_absent, "C5"),
        (sequential.replace_recreated, "C6"),
        (sequential.version_reuse, "C7"),
        (sequential.delete, "C8"),
        (sequential.quoting, "C11"),
        (sequential.overwrite, "C23"),
    ],
)
def test_a_right_store_conforms(question: Question, clause: str) -> None:
    """The questions themselves accuse nobody; a bare version is refused, which C11 lists."""
    finding = asked(question, clause, lambda _store, _call: None)
    assert finding.verdict is (Verdict.USABLE if clause == "C11" else Verdict.CONFORMING), finding.told


def takes_a_version_from_before(store: ScriptedStore, call: Call) -> Answer | None:
    """Kept while the object is gone, and overlooked once it is there again."""
    is_stale = is_replacement(call) and call.key in store.objects and call.match == '"1"'
    return store.answer(dataclasses.replace(call, match=None)) if is_stale else None


def takes_a_ghost(store: ScriptedStore, call: Call) -> Answer | None:
    is_ghost = is_replacement(call) and call.key not in store.objects
    return store.answer(dataclasses.replace(call, match=None)) if is_ghost else None


def test_a_version_from_before_a_delete_is_asked_twice() -> None:
    """C6: of what is gone, and of what is there again; the first answer does not spoil the second question."""
    asked_again = asked(sequential.replace_recreated, "C6", takes_a_version_from_before)
    assert asked_again.unsafe == ["accepted the version from before a delete and a new create (200)"]
    ghost = asked(sequential.replace_recreated, "C6", takes_a_ghost)
    assert (ghost.unsafe, ghost.deviations) == (["accepted the version from before a delete (200)"], [])


# C21: reads and listings.


def test_old_bytes_and_old_versions_are_told_apart() -> None:
    """C21: the bytes of the write under another version are not the bytes from before; a right store has neither."""

    def another_version(store: ScriptedStore, call: Call) -> Answer | None:
        if call.verb != READ or not about(call, "read-") or call.key not in store.objects:
            return None
        return dataclasses.replace(store.answer(call), version='"0"')

    finding = asked(reading.read_after_write, "C21", another_version)
    assert finding.unsafe == ["a read shows the bytes with another version, right after a confirmed write"]
    assert asked(reading.read_after_write, "C21", lambda _store, _call: None).verdict is Verdict.CONFORMING


def test_the_endpoint_that_shows_a_deleted_object_is_named() -> None:
    """C21: endpoint 2 of two; the first one is right."""
    good = ScriptedStore()
    before: dict[str, Answer] = {}

    def remembers(_store: ScriptedStore, call: Call) -> Answer | None:
        told = good.answer(call)
        if call.verb == READ and told.body is not None:
            before[call.key] = told
        return before.get(call.key, told) if call.verb == READ and told.body is None else told

    finding = finding_of("C21")
    reading.read_after_write(session_of(good, ScriptedStore(remembers)), finding)
    assert finding.unsafe == ["endpoint 2 shows an object right after its delete was confirmed"]


@pytest.mark.parametrize(
    ("lags_behind", "sentence"),
    [
        (PUT, "a listing does not show an object right after it was created"),
        (DELETE, "a listing shows an object right after it was deleted"),
    ],
)
def test_a_listing_that_lags_behind_is_a_deviation(lags_behind: str, sentence: str) -> None:
    """C21: a lock lists nothing, so it is told and no more."""

    def lags(store: ScriptedStore, call: Call) -> Answer | None:
        if call.verb != LIST:
            return None
        if lags_behind == PUT:
            return Answer(outcome=Outcome.APPLIED, status=200)
        made = {each.key: None for each in store.calls if each.verb == PUT and each.key.startswith(call.key)}
        return Answer(outcome=Outcome.APPLIED, status=200, entries=tuple((key, "") for key in made))

    finding = asked(reading.read_after_write, "C21", lags)
    assert (finding.deviations, finding.unsafe) == ([sentence], [])


# C20: a counter.


def counted(lie: Lie) -> Finding:
    finding = finding_of("C20")
    session = session_of(ScriptedStore(lie))
    counter.counter(session, finding, session.end_ns)
    return finding


@pytest.mark.parametrize(("more", "is_unsafe"), [(0, False), (1, True), (-1, True)])
def test_a_counter_shows_what_was_confirmed(more: int, is_unsafe: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """C20: at the end one more than was confirmed is a write that nobody was told of, and one less is lost."""
    monkeypatch.setattr(counter, "WORKERS", 1)

    def shows(store: ScriptedStore, call: Call) -> Answer | None:
        if call.verb != READ or call.key not in store.objects:
            return None
        told = store.answer(call)
        head = int((told.body or b"0").split()[0])
        return dataclasses.replace(told, body=b"%d shown" % (head + more)) if head == counter.INCREMENTS else None

    finding = counted(shows)
    assert finding.verdict is (Verdict.UNSAFE if is_unsafe else Verdict.CONFORMING), finding.told
    assert finding.facts["total"] == counter.INCREMENTS + more


def test_a_value_that_two_were_told_of_is_a_lost_increment(monkeypatch: pytest.MonkeyPatch) -> None:
    """C20: one confirmation too many, once, is enough."""
    monkeypatch.setattr(counter, "WORKERS", 1)
    told: list[Call] = []

    def confirms_and_forgets_once(_store: ScriptedStore, call: Call) -> Answer | None:
        if not is_replacement(call) or told:
            return None
        told.append(call)
        return Answer(outcome=Outcome.APPLIED, status=200, version='"x"')

    assert counted(confirms_and_forgets_once).unsafe == [
        f"confirmed 1 values twice, in {counter.INCREMENTS} increments"
    ]


def test_an_increment_without_an_answer_may_have_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    """C20: it is counted or not; either is right."""
    monkeypatch.setattr(counter, "WORKERS", 1)
    lost: list[Call] = []

    def lands_unheard_once(store: ScriptedStore, call: Call) -> Answer | None:
        if not is_replacement(call) or lost:
            return None
        lost.append(call)
        store.answer(call)
        return SILENT

    finding = counted(lands_unheard_once)
    assert finding.verdict is Verdict.CONFORMING, finding.told
    assert (finding.facts["unknown"], finding.facts["total"]) == (1, counter.INCREMENTS + 1)


def test_a_counter_that_nobody_could_raise_has_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """C20: every increment was refused; nothing was lost, and nothing was shown."""
    monkeypatch.setattr(counter, "TRIES_MAX", 2)
    finding = counted(lambda _store, call: STALE if is_replacement(call) else None)
    assert finding.verdict is Verdict.NOT_ANSWERED
    assert finding.unanswered == ["no increment was confirmed in time"]


# C25: Azure's leases.


def leased(lies: str) -> Finding:
    """C25 on a store with leases. lies: what it does wrong."""
    held: dict[str, str] = {}

    def answers(store: ScriptedStore, call: Call) -> Answer | None:
        headers = dict(call.headers)
        is_holders = headers.get("x-ms-lease-id") == held.get(call.key) or lies == "writes without it"
        if call.verb == PUT and call.key in held and (not is_holders or lies == "no writes"):
            if lies == "silent":
                return SILENT
            return dataclasses.replace(STALE, status=409 if lies == "409" else 412)
        if call.verb != LEASE:
            return None
        match headers["x-ms-lease-action"]:
            case "acquire":
                is_free = call.key not in held
                held.setdefault(call.key, headers["x-ms-proposed-lease-id"])
                is_second = sum(each.key == call.key and each.verb == LEASE for each in store.calls) == 2
                is_applied = is_free or (lies == "two holders" and about(call, "lease-race") and is_second)
                return (
                    Answer(outcome=Outcome.APPLIED, status=201)
                    if is_applied
                    else dataclasses.replace(STALE, status=409)
                )
            case "break":
                held.pop(call.key, None)
                return Answer(outcome=Outcome.APPLIED, status=202)
        is_kept = call.key in held
        if lies == "silent at last" and not is_kept:
            return SILENT
        is_renewed = lies == "renews" or (is_kept and lies != "no renewals")
        return Answer(outcome=Outcome.APPLIED, status=200) if is_renewed else dataclasses.replace(STALE, status=409)

    finding = finding_of("C25")
    session = session_of(ScriptedStore(answers, dialect=S3Like("azure", modes=AZURE.modes)))
    leases.lease(session, finding, session.left_ns() and 0)
    return finding


@pytest.mark.parametrize(
    ("lies", "kind", "sentence"),
    [
        ("two holders", "unsafe", "gave 2 of 8 clients the lease on one object"),
        ("writes without it", "unsafe", "accepted a write without the lease (200)"),
        ("renews", "unsafe", "renewed a lease that had ended, after somebody wrote (200)"),
        ("409", "deviations", "a write without the lease: answered 409, expected 412"),
    ],
)
def test_a_lease_of_azure_excludes_or_is_none(lies: str, kind: str, sentence: str) -> None:
    """C25: one holder, no write beside it, and nothing left of it once it was broken."""
    assert getattr(leased(lies), kind) == [sentence]
    assert leased("").verdict is Verdict.CONFORMING


@pytest.mark.parametrize(
    ("lies", "sentence"),
    [
        ("silent", "a write without the lease: no answer"),
        ("no writes", "a write with the lease, by the holder: 412"),
        ("no renewals", "renew, by the holder: 409"),
        ("silent at last", "renew a lease that ended, after a write: no answer"),
    ],
)
def test_a_refusal_proves_a_lease_only_beside_the_holders_request(lies: str, sentence: str) -> None:
    """C25: a store that refuses the holder, too, or that says nothing, has not shown a lease."""
    with pytest.raises(Unanswered) as found:
        leased(lies)
    assert str(found.value) == sentence


def test_a_racer_without_an_answer_may_have_the_lease_as_well() -> None:
    """C25: one was given the lease, and of the others nobody knows."""
    store = ScriptedStore(
        lambda store, call: (
            None
            if call.verb != LEASE
            else Answer(outcome=Outcome.APPLIED, status=201)
            if "break" in dict(call.headers).values() or sum(each.key == call.key for each in store.calls) == 2
            else SILENT
        ),
        dialect=S3Like("azure", modes=AZURE.modes),
    )
    session, finding = session_of(store), finding_of("C25")
    with pytest.raises(Unanswered):
        leases.lease(session, finding, session.left_ns() and 0)
    assert finding.kept == 0


# C14, C13: other ways to write.

COPIES = WriteMode(clause="C14", name=COPYING)


@pytest.mark.parametrize(("is_confirmed", "is_carried_out"), [(True, True), (True, False), (False, True)])
def test_a_copy_of_a_source_that_moved_on_is_refused(is_confirmed: bool, is_carried_out: bool) -> None:
    """C14: to confirm it, or to carry it out, is to accept it."""

    def copies(store: ScriptedStore, call: Call) -> Answer | None:
        if call.verb != COPY or call.source_match in (None, store.objects[call.source][1]):
            return None
        if is_carried_out:
            store.answer(dataclasses.replace(call, source_match=None))
        return Answer(outcome=Outcome.APPLIED, status=200, version='"c"') if is_confirmed else STALE

    finding = asked(modes.other_ways, "C14", copies, dialect=S3Like(modes=(COPIES,)))
    assert [text for text in finding.unsafe if text.startswith("copy: accepted a copy of a stale source")]
    right = asked(modes.other_ways, "C14", lambda _store, _call: None, dialect=S3Like(modes=(COPIES,)))
    assert right.verdict is Verdict.CONFORMING, right.told


@pytest.mark.parametrize(("answer", "told"), [(UNKNOWN, "refused as unknown (501)"), (STALE, "refused (412)")])
def test_a_store_that_copies_under_no_condition_on_the_source_has_compared_nothing(answer: Answer, told: str) -> None:
    """C14: its refusal of a stale source is none."""

    def refuses_the_condition(_store: ScriptedStore, call: Call) -> Answer | None:
        return answer if call.source_match is not None else None

    finding = asked(modes.other_ways, "C14", refuses_the_condition, dialect=S3Like(modes=(COPIES,)))
    assert finding.verdict is Verdict.USABLE
    assert finding.unsupported == [f"copy: a condition on the source: {told}"]


def test_a_mode_that_refuses_and_carries_out_is_unsafe() -> None:
    """C14: the bytes are there although the answer says no."""

    def refuses_and_takes_copies(store: ScriptedStore, call: Call) -> Answer | None:
        if call.verb == COPY and call.none_match == ANYTHING and call.key in store.objects:
            store.answer(dataclasses.replace(call, none_match=None))
            return STALE
        return None

    finding = asked(modes.other_ways, "C14", refuses_and_takes_copies, dialect=S3Like(modes=(COPIES,)))
    told = "copy: refused a create of an object that exists (412), and stored its bytes all the same"
    assert told in finding.unsafe


def test_a_mode_that_was_refused_takes_part_in_no_race() -> None:
    """C13: of two ways the store knows one; creates race in that one, alone and beside plain writes."""
    ways = tuple(WriteMode(clause="C13", name=name, can_race=True) for name in ("known", "unknown"))
    store = ScriptedStore(lambda _store, call: UNKNOWN if call.mode == "unknown" else None, dialect=S3Like(modes=ways))
    session, finding = session_of(store), finding_of("C13")
    modes.other_ways(session, finding)
    store.calls.clear()
    modes.race_modes(session, finding, session.end_ns)
    raced: dict[str, list[str]] = {}
    for call in store.calls:
        if call.verb == PUT:
            raced.setdefault(call.key, []).append(call.mode)
    assert {mode for each in raced.values() for mode in each} == {"known", ""}
    shares = [each.count("known") / len(each) for each in raced.values()]
    assert set(shares) == {1.0, 0.5}
    assert finding.verdict is Verdict.USABLE, finding.told


def test_a_mode_of_which_nothing_was_kept_is_not_raced() -> None:
    """C13: a store that refuses it every time has nothing to race with, and the verdict is the refusal."""
    store = ScriptedStore(
        lambda _store, call: UNKNOWN if call.mode else None,
        dialect=S3Like(modes=(WriteMode(clause="C13", name="way", can_race=True),)),
    )
    session, finding = session_of(store), finding_of("C13")
    modes.other_ways(session, finding)
    finding.facts.pop("refused_modes")
    store.calls.clear()
    modes.race_modes(session, finding, session.end_ns)
    assert (store.calls, finding.verdict) == ([], Verdict.UNSUPPORTED)


UPLOADS_REFUSED = Answer(outcome=Outcome.REJECTED, status=403)


@pytest.mark.parametrize(
    ("begun", "why"),
    [
        (UPLOADS_REFUSED, "resumable upload: refused as unknown (403)"),
        (STALE, "resumable upload: each upload was refused when it began"),
    ],
)
def test_an_upload_that_is_refused_in_its_race_leaves_the_round_void(begun: Answer, why: str) -> None:
    """C15: the store took such uploads one at a time. The probe goes on, and the race has no verdict."""
    store = ScriptedStore(
        lambda _store, call: begun if call.verb == BEGIN_UPLOAD else None,
        dialect=S3Like(modes=(WriteMode(clause="C15", name=RESUMABLE, can_race=True),)),
    )
    session, finding = session_of(store), finding_of("C15")
    finding.kept = 1
    modes.race_modes(session, finding, session.end_ns)
    assert finding.verdict is Verdict.NOT_ANSWERED
    assert finding.unanswered[0] == f"creates by resumable upload: no round could be judged ({why})"


# C22 and C24: pace and clock.


@pytest.fixture
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes at a steady pace without the pace."""
    monkeypatch.setattr(pace, "RATES_PER_S", (1_000_000,))


@pytest.mark.parametrize("answer", [UNKNOWN, SILENT, STALE])
@pytest.mark.usefixtures("_hurried")
def test_a_pace_at_which_nothing_is_carried_out_has_no_verdict(answer: Answer) -> None:
    """C22: failures and refusals are no pace that the store keeps."""
    store = ScriptedStore(lambda _store, call: answer if is_replacement(call) else None)
    session, finding = session_of(store), finding_of("C22")
    pace.write_rate(session, finding, session.end_ns)
    assert finding.verdict is Verdict.NOT_ANSWERED
    assert finding.unanswered == ["no write at 1000000 a second was carried out or throttled"]


@pytest.mark.parametrize(
    ("lands", "deviations"),
    [
        (True, ["a write that was throttled (503) landed", "throttled 1 of 3 writes at 1000000 a second"]),
        (False, ["throttled 1 of 3 writes at 1000000 a second"]),
    ],
)
@pytest.mark.usefixtures("_hurried")
def test_a_throttled_write_that_lands_is_told(lands: bool, deviations: list[str]) -> None:
    """C22: one of three is throttled; whether it took effect is looked up."""
    busy: list[Call] = []

    def throttles_once(store: ScriptedStore, call: Call) -> Answer | None:
        if not is_replacement(call) or busy:
            return None
        busy.append(call)
        if lands:
            store.answer(call)
        return BUSY

    session, finding = session_of(ScriptedStore(throttles_once)), finding_of("C22")
    pace.write_rate(session, finding, session.end_ns)
    assert finding.deviations == deviations
    assert finding.facts["per_second_1000000"] == "1 of 3 throttled"


@pytest.mark.parametrize(("off_s", "verdict"), [(0, "conforming"), (3600, "usable"), (-3600, "usable")])
def test_a_clock_is_off_in_either_direction(off_s: int, verdict: str) -> None:
    """C24: a date has whole seconds, so a clock that is right is off by nothing; ahead and behind are told."""

    def dated(store: ScriptedStore, call: Call) -> Answer | None:
        now = datetime.fromtimestamp(int(session.runtime.wall_ns() // NS_PER_S) + off_s, tz=UTC)
        return dataclasses.replace(store.answer(call), date=format_datetime(now, usegmt=True))

    session, finding = session_of(ScriptedStore(dated)), finding_of("C24")
    pace.clock(session, finding)
    assert finding.verdict == verdict, finding.told
    offset_ms: Any = finding.facts["offset_ms"]
    assert abs(offset_ms - 1000 * off_s) <= (1000 if off_s else 0)
    assert [text[:14] for text in finding.deviations] == ([f"its clock is {off_s:+d}"[:14]] if off_s else [])


# C12: delete markers.


def test_a_version_from_before_a_delete_marker_is_refused() -> None:
    """C12: whoever overlooks the condition once the object is there again brings a deleted record back."""

    def versions(store: ScriptedStore, call: Call) -> Answer | None:
        if call.verb == VERSIONING:
            return Answer(outcome=Outcome.APPLIED, status=200, entries=(("status", "Enabled"),))
        is_again = [is_create(each) and each.key == call.key for each in store.calls].count(True) == 2
        if is_replacement(call) and is_again and call.match == '"1"':
            return store.answer(dataclasses.replace(call, match=None))
        return None

    finding = asked(versioned.versioned_bucket, "C12", versions)
    assert finding.unsafe == ["accepted the version from before the delete marker (200)"]


def test_a_delete_over_a_marker_has_a_status_of_its_own() -> None:
    """C12: the cloud answers a replacement of what is gone in one way, and a delete of it in another."""
    dialect = S3Like()
    dialect.statuses = dataclasses.replace(dialect.statuses, absent=412, delete_conditional_absent=404)

    def versions(_store: ScriptedStore, call: Call) -> Answer | None:
        if call.verb == VERSIONING:
            return Answer(outcome=Outcome.APPLIED, status=200, entries=(("status", "Enabled"),))
        return None

    def with_412(store: ScriptedStore, call: Call) -> Answer | None:
        if is_replacement(call) and call.key not in store.objects:
            return STALE
        return versions(store, call)

    finding = asked(versioned.versioned_bucket, "C12", with_412, dialect=dialect)
    assert finding.verdict is Verdict.CONFORMING, finding.told
