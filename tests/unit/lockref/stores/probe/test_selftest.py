"""H23: the self-test passes a store that keeps its conditions and names the one that is broken."""

from __future__ import annotations

import contextlib
import threading

import pytest

from lockref.clouds.uri import open_store
from lockref.errors import BackendUnavailable, CapabilityMissing
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime
from lockref.stores.memory import MemoryStore
from lockref.stores.port import ReadReply, Version, WriteReply
from lockref.stores.probe.bounded_request import Asking
from lockref.stores.probe.measured import Measurements
from lockref.stores.probe.races import Races
from lockref.stores.probe.selftest import RACES_NS_THOROUGH, ensure_usable, measure
from lockref.stores.probe.start_barrier import held_back, race
from lockref.words import Outcome
from tests.conditional_server import Bucket, serving

TRIES = [5, pytest.param(20, marks=pytest.mark.long)]
"""How often a server is measured. What is found by luck now and then is missed in one measurement of many."""


class IgnoresCreateCondition(MemoryStore):
    """M16: every create succeeds."""

    def put_if_absent(self, key, body):
        return self.put(key, body)


class IgnoresStaleVersion(MemoryStore):
    """K6: creates are right, replacements are not."""

    def put_if_version(self, key, body, version):
        return self.put(key, body)


class ChecksBeforeWriting(MemoryStore):
    """M17: the sequential answers are right, but a race has two winners."""

    def put_if_absent(self, key, body):
        if "race" in key:
            return self.put(key, body)
        return super().put_if_absent(key, body)


class KeepsTheLosersBody(MemoryStore):
    """The answer is a refusal, yet the bytes of the refused write are there."""

    def put_if_version(self, key, body, version):
        reply = super().put_if_version(key, body, version)
        if reply.outcome is Outcome.PRECONDITION_FAILED:
            self.put(key, body)
        return reply


class Answers(MemoryStore):
    """Gives one reply to every write."""

    def __init__(self, reply):
        super().__init__()
        self._reply = reply

    def put(self, key, body):
        return self._reply

    def put_if_absent(self, key, body):
        return self._reply


def test_a_sound_store_passes_and_is_left_empty():
    """H23: nothing is raised and nothing of the test remains."""
    store = MemoryStore()
    ensure_usable(store, "table/.hoodie")
    assert store._objects.bodies == {}


@pytest.mark.parametrize(
    ("store", "clause"),
    [
        (IgnoresCreateCondition(), "C1"),
        (IgnoresStaleVersion(), "C4"),
        (ChecksBeforeWriting(), "C2"),
        (KeepsTheLosersBody(), "does not hold"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, MemoryStore) else value,
)
def test_an_ignored_condition_is_a_missing_capability(store, clause):
    """U13: the message names the store and the clause that it breaks."""
    with pytest.raises(CapabilityMissing, match=clause) as caught:
        ensure_usable(store, "p", address="s3://here")
    assert "s3://here" in str(caught.value)


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.AMBIGUOUS, Outcome.THROTTLED, Outcome.CONFLICT])
def test_a_store_that_refuses_or_does_not_answer_is_unavailable(outcome):
    """The message has the address, the wait and the store's reason, on one line."""
    store = Answers(WriteReply(outcome=outcome, reason="why not"))
    with pytest.raises(BackendUnavailable) as caught:
        ensure_usable(store, "p", address="s3://here", patience_ns=2 * NS_PER_MS)
    message = str(caught.value)
    assert all(part in message for part in ("s3://here", " in all", "why not"))
    assert "\n" not in message


def test_throttling_is_waited_out():
    """A5: a store that says "slow down" twice is slow, not unusable."""

    class SlowAtFirst(MemoryStore):
        calls = 0

        def put_if_absent(self, key, body):
            self.calls += 1
            if self.calls <= 2:
                return WriteReply(outcome=Outcome.THROTTLED)
            return super().put_if_absent(key, body)

    store = SlowAtFirst()
    ensure_usable(store, "p", racers=0)
    assert store.calls > 2


def test_a_read_that_fails_is_unavailable():
    """Writes that work do not make a store usable if nothing can be read."""

    class WriteOnly(MemoryStore):
        def read(self, key):
            return ReadReply(outcome=Outcome.REJECTED, reason="403")

    with pytest.raises(BackendUnavailable, match="read an object"):
        ensure_usable(WriteOnly(), "p")


class RacesIn(MemoryStore):
    """Does what it should, except in the race."""

    def __init__(self, reply=None, body=None):
        super().__init__()
        self._reply = reply
        self._body = body

    def put_if_absent(self, key, body):
        if "race" not in key:
            return super().put_if_absent(key, body)
        return self._reply or super().put_if_absent(key, self._body)


@pytest.mark.parametrize("outcome", [Outcome.AMBIGUOUS, Outcome.REJECTED])
def test_a_race_that_was_not_answered_proves_nothing(outcome):
    """H23: a store that falls silent or refuses under contention is not passed as sound."""
    with pytest.raises(BackendUnavailable, match="race to create"):
        ensure_usable(RacesIn(reply=WriteReply(outcome=outcome)), "p")


def test_the_winner_of_a_race_finds_its_own_bytes():
    """C2: one success is not enough if another's body is what stays."""
    with pytest.raises(CapabilityMissing, match="the winner's bytes afterwards"):
        ensure_usable(RacesIn(body=b"somebody else's"), "p")


def _tries(flaw, *, only="", tries, **effort):
    """What several self-tests of one server find; each ignored condition by its clause."""
    with (
        serving(Bucket(flaw=flaw, only=only, deleted_with=b"spare")) as uri,
        contextlib.closing(open_store(uri, request_timeout_ns=30 * NS_PER_S, pool_size=8)) as store,
    ):
        return [measure(store, "table", **effort) for _ in range(tries)]


@pytest.mark.parametrize("tries", TRIES)
def test_a_right_server_passes_every_time(tries):
    """H23: 20 of 20, and every condition was measured in races of several rounds."""
    for found in _tries("", tries=tries, racers=4, rounds=3, races_ns=60 * NS_PER_S):
        assert found.ignored == []
        assert {finding.status for finding in found.findings.values()} == {"kept"}
        races = [finding for finding in found.findings.values() if finding.racers]
        assert [(race.rounds, race.void, race.winners_max) for race in races] == [(3, 0, 1)] * 3
        assert (found.conditional_delete, found.versions_repeat) == ("supported", [True])


@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize(
    ("flaw", "only", "clause"),
    [
        ("two creates", "-race-", "C2"),
        ("two replacements", "-race", "C3"),
        ("delete against replacement", "-race", "C9"),
        ("stale delete", "", "C8"),
        ("stale replacement", "", "C4"),
        ("stale create", "", "C1"),
        ("ghost", "", "C5"),
        ("old reads", "", "C21"),
    ],
)
def test_each_flaw_of_a_server_is_found_every_time(flaw, only, clause, tries):
    """U13: 20 of 20. A race is found because all its requests are in flight together, not by luck."""
    for found in _tries(flaw, only=only, tries=tries, racers=4, rounds=2, races_ns=60 * NS_PER_S):
        assert clause in {finding.condition.clause for finding in found.ignored}


@pytest.mark.parametrize(("flaw", "only"), [("two creates", "-race-"), ("two replacements", "-race")])
def test_a_flaw_that_only_a_race_shows_is_counted(flaw, only):
    """C2, C3: the rounds, the winners, and the sentence for whoever must choose another store."""
    (found,) = _tries(flaw, only=only, tries=1, racers=4, rounds=3, races_ns=60 * NS_PER_S)
    found_race = found.findings["create_race" if flaw == "two creates" else "replace_race"]
    assert (found_race.rounds, found_race.faulty, found_race.winners_max) == (3, 3, 2)
    assert found_race.facts()["rounds_guilty"] == 3
    assert "let 2 of 4 simultaneous" in found_race.sentence
    assert "both hold the lock" in found_race.sentence


def test_an_honest_refusal_of_conditional_deletes_is_told_and_not_held_against_the_store():
    """C8: 501 is legal; RFC-91's lock does not delete."""
    with serving(Bucket(flaw="no conditional delete")) as uri:
        store = open_store(uri, request_timeout_ns=30 * NS_PER_S, pool_size=8)
        found = ensure_usable(store, "table", racers=2, rounds=1)
        store.close()
    assert (found.conditional_delete, found.findings["delete_race"].status) == ("refused", "not_measured")
    assert "501" in str(found.facts()["delete"])


def test_an_ignored_condition_of_a_known_server_can_be_tolerated():
    """A server whose defect is known is used with the defect told; any other defect still counts."""
    with serving(Bucket(flaw="stale delete")) as uri:
        store = open_store(uri, request_timeout_ns=30 * NS_PER_S, pool_size=8)
        found = ensure_usable(store, "table", racers=0, tolerated=frozenset({"C8"}))
        assert [finding.condition.clause for finding in found.ignored] == ["C8"]
        with pytest.raises(CapabilityMissing, match=r"delete of a stale version \(C8\)"):
            ensure_usable(store, "table", racers=0, tolerated=frozenset({"C2"}))
        store.close()


def test_nothing_stays_behind_on_a_server():
    """Whatever the races left is removed."""
    bucket = Bucket()
    with serving(bucket) as uri, contextlib.closing(open_store(uri, request_timeout_ns=30 * NS_PER_S)) as store:
        measure(store, "table", racers=4, rounds=2)
    assert bucket.objects == {}


def test_a_slow_store_runs_fewer_rounds_and_at_least_one():
    """Bounded in time: no round is begun that would not end within the budget."""

    class Clock(ThreadRuntime):
        """Each look at it finds a quarter of a second gone."""

        def __init__(self):
            super().__init__()
            self._looks = 0

        def monotonic_ns(self):
            self._looks += 1
            return self._looks * NS_PER_S // 4

    found = measure(MemoryStore(), "table", racers=2, rounds=50, runtime=Clock(), patience_ns=100 * NS_PER_S)
    assert [finding.rounds for finding in found.findings.values() if finding.racers] == [1, 1, 1]
    longer = measure(
        MemoryStore(),
        "t",
        racers=2,
        rounds=50,
        runtime=Clock(),
        patience_ns=100 * NS_PER_S,
        races_ns=6 * RACES_NS_THOROUGH,
    )
    assert all(1 < finding.rounds < 50 for finding in longer.findings.values() if finding.racers)


def test_a_store_that_answers_too_slowly_is_given_up():
    """Nothing is asked after the patience has ended; the message says why."""

    class Slow(MemoryStore):
        def read(self, key):
            ThreadRuntime().sleep(20 * NS_PER_MS)
            return super().read(key)

    with pytest.raises(BackendUnavailable, match="too slow"):
        ensure_usable(Slow(), "p", patience_ns=10 * NS_PER_MS)


def test_racers_leave_together():
    """The attempts of a race overlap: each of them sees all the others under way."""
    together = threading.Barrier(6)
    assert race(ThreadRuntime(), [lambda: together.wait(30) is not None] * 6) == [True] * 6


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_a_racer_is_held_back_until_its_request_is_ready(scheme):
    """The start line stands behind signing and connecting: nothing is asked of the server before it opens."""
    from tests.unit.lockref.clouds.test_stalled_bodies import ACCOUNT_IN, GOOD, at_once
    from tests.unit.lockref.clouds.test_stalled_bodies import serving as answering

    with answering(at_once(GOOD)) as server:
        uri = f"{scheme}://bucket/p?endpoint=http://127.0.0.1:{server.port}{ACCOUNT_IN[scheme]}"
        with contextlib.closing(open_store(uri, request_timeout_ns=30 * NS_PER_S)) as store:
            seen = []
            with held_back(lambda: seen.append(server.requests)):
                assert store.read("key").outcome is Outcome.APPLIED
                store.read("key")
    assert seen == [0]


def test_a_request_that_takes_microseconds_does_not_take_0_ms() -> None:
    """A store in memory answers in microseconds."""
    assert (
        Measurements(request_ns=[3_400, 5_900, 2_100_000]).latency == "a request takes 5.90 µs, at most 2.10 ms, of 3"
    )


class LiesOnce(MemoryStore):
    """One wrong answer, or one wrong deed, by name; everything else is right."""

    def __init__(self, lie):
        super().__init__()
        self.lie = lie

    def put_if_absent(self, key, body):
        reply = super().put_if_absent(key, body)
        if self.lie == "a refused create takes its bytes" and reply.outcome is Outcome.PRECONDITION_FAILED:
            self.put(key, body)
        return reply

    def put_if_version(self, key, body, version):
        is_gone = self.read(key).is_absent
        reply = super().put_if_version(key, body, version)
        if self.lie == "a refused ghost appears" and is_gone:
            self.put(key, body)
        is_refused = reply.outcome is Outcome.PRECONDITION_FAILED
        if self.lie == "a refused replacement takes its bytes" and is_refused and not is_gone:
            self.put(key, body)
        if self.lie == "a confirmed write is lost" and reply.outcome is Outcome.APPLIED:
            self.put(key, b"something else")
        return reply

    def delete(self, key, version=None):
        is_current = version is not None and self.read(key).version == version
        if self.lie == "a stale delete is confirmed" and version is not None and not is_current:
            return WriteReply(outcome=Outcome.APPLIED)
        if self.lie == "a refused delete is carried out" and version is not None and not is_current:
            super().delete(key)
            return WriteReply(outcome=Outcome.PRECONDITION_FAILED)
        if self.lie == "a confirmed delete keeps the object" and is_current:
            return WriteReply(outcome=Outcome.APPLIED)
        if self.lie == "deletes are not supported" and version is not None:
            return WriteReply(outcome=Outcome.REJECTED, reason="501")
        if self.lie == "a delete has no answer" and version is not None:
            return WriteReply(outcome=Outcome.AMBIGUOUS, reason="time-out")
        return super().delete(key, version)


@pytest.mark.parametrize(
    ("lie", "name", "status", "detail"),
    [
        ("a refused create takes its bytes", "create", "ignored", "does not hold what was written: it refused"),
        ("a refused replacement takes its bytes", "replace", "ignored", "does not hold what was written: it refused"),
        ("a refused ghost appears", "replace_absent", "ignored", "accepted a replacement of an object that is gone"),
        ("a confirmed write is lost", "read_after_write", "ignored", "does not hold what was written, right after"),
        ("a stale delete is confirmed", "delete", "ignored", "accepted a delete of a stale version and did nothing"),
        ("a refused delete is carried out", "delete", "ignored", "accepted a delete of a stale version"),
        ("a confirmed delete keeps the object", "delete", "ignored", "confirmed a delete and kept the object"),
        ("deletes are not supported", "delete", "refused", "501"),
        ("a delete has no answer", "delete", "not_measured", "time-out"),
    ],
)
def test_each_lie_is_put_down_to_its_own_condition(lie, name, status, detail):
    """One request after the other, without races: the condition that was not kept, in its own words, and no other."""
    store = LiesOnce(lie)
    found = measure(store, "p", racers=0)
    told = found.findings[name]
    assert (told.status, told.detail[: len(detail)]) == (status, detail)
    assert [finding.condition.name for finding in found.ignored] == ([name] if status == "ignored" else [])
    assert not store._objects.bodies, "nothing is left of the questions"
    right = measure(MemoryStore(), "p", racers=0)
    assert right.findings[name].status == "kept"
    assert (right.versions_repeat, right.ignored) == ([False], [])


def test_what_was_ignored_once_stays_ignored_in_its_first_words():
    """Later rounds that went well acquit nobody."""
    finding = Measurements().findings["create"]
    finding.kept()
    finding.ignored("first")
    finding.ignored("second")
    finding.kept()
    assert (finding.status, finding.detail) == ("ignored", "first")


def raced(store):
    """The races of the quick form on this store, and what they find."""
    found = Measurements()
    asking = Asking(store, found, address="the store", patience_ns=NS_PER_S, runtime=ThreadRuntime())
    return Races(asking, "p", racers=2, rounds=1, budget_ns=NS_PER_S), found


def test_a_race_whose_winner_left_no_trace_is_a_fault_of_reads():
    """C21: a write was confirmed, and what was there before is shown. Other bytes are somebody else's (C3)."""
    won = WriteReply(outcome=Outcome.APPLIED, version=Version("2"))
    lost = WriteReply(outcome=Outcome.PRECONDITION_FAILED)
    for body, name in ((b"before", "read_after_write"), (b"b", "replace_race")):
        races, found = raced(MemoryStore())
        after = ReadReply(outcome=Outcome.APPLIED, body=body, version=Version("1"))
        races._judge(found.findings["replace_race"], [b"a", b"b"], [won, lost], after, before=b"before")
        assert [finding.condition.name for finding in found.ignored] == [name]


def test_one_refusal_in_a_race_is_no_race():
    """Who has no right to write proves nothing; one answer that was lost is no reason to give the race up."""
    won, refused, unheard = (
        WriteReply(outcome=outcome, reason="why") for outcome in (Outcome.APPLIED, Outcome.REJECTED, Outcome.AMBIGUOUS)
    )
    races, _ = raced(MemoryStore())
    races._require_answers("race", [won, unheard])
    for replies in ([won, refused], [unheard, unheard]):
        with pytest.raises(BackendUnavailable, match="why"):
            races._require_answers("race", replies)


@pytest.mark.parametrize("outcome", [Outcome.THROTTLED, Outcome.CONFLICT])
def test_an_answer_about_the_moment_is_asked_again(outcome, monkeypatch):
    """Throttled, or a conflict: a question is put once more, and its answer is the one that counts."""
    monkeypatch.setattr("lockref.stores.probe.bounded_request._PAUSE_NS", 0)
    found = Measurements()
    asking = Asking(MemoryStore(), found, address="the store", patience_ns=60 * NS_PER_S, runtime=ThreadRuntime())
    replies = [WriteReply(outcome=outcome), WriteReply(outcome=Outcome.APPLIED, version=Version("1"))]
    assert asking.version("write", lambda: replies.pop(0)) == "1"
    assert len(found.request_ns) == 2


@pytest.mark.parametrize("kind", ["create", "replace"])
def test_a_store_without_conditional_writes_is_told_so(kind):
    """501, 400 and 405 to a condition are one honest refusal, if the same write is taken without it."""

    class Refuses(MemoryStore):
        def put_if_absent(self, key, body):
            if kind == "create":
                return WriteReply(outcome=Outcome.REJECTED, status=400, reason="400 NotImplemented")
            return super().put_if_absent(key, body)

        def put_if_version(self, key, body, version):
            return WriteReply(outcome=Outcome.REJECTED, status=405, reason="405 MethodNotAllowed")

    store = Refuses()
    with pytest.raises(CapabilityMissing, match="no conditional writes"):
        measure(store, "p")
    assert store._objects.bodies == {}


def test_a_store_that_refuses_every_write_is_unavailable():
    """Without credentials nothing is known of its conditions."""

    class Refuses(MemoryStore):
        def put_if_absent(self, key, body):
            return WriteReply(outcome=Outcome.REJECTED, reason="403")

        def put(self, key, body):
            return WriteReply(outcome=Outcome.REJECTED, reason="403")

    with pytest.raises(BackendUnavailable):
        measure(Refuses(), "p")
