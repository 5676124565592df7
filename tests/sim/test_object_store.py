"""The modelled object store: dialects, versions, truth."""

from __future__ import annotations

import hashlib

import pytest

from lockref.errors import ConfigError
from lockref.stores.port import Version
from lockref.words import Kind, Outcome
from sim.faults.answers import Error
from sim.faults.plan import FaultPlan
from sim.faults.stores import DeleteObject, IgnoreConditions
from tests.sim.scripted import KEY, MS, Scene, body

DIALECTS = ("s3", "gcs", "azure", "memory")


def replies(dialect: str, *calls):
    """What the store answers to a sequence of calls, each given the replies so far."""
    scene, answers = Scene(dialect=dialect), []

    def script(_node, store):
        for call in calls:
            answers.append(call(store, answers))

    scene.client("n1", script)
    scene.run()
    return scene, answers


@pytest.mark.parametrize(
    ("dialect", "created", "exists", "stale", "absent"),
    [("s3", 200, 412, 412, 404), ("gcs", 200, 412, 412, 412), ("azure", 201, 409, 412, 412)],
)
def test_statuses_of_conditional_writes(dialect, created, exists, stale, absent):
    """C1, C3, C4, C5: each dialect answers with its own status; the outcomes are the same."""
    _, got = replies(
        dialect,
        lambda store, _: store.put_if_version("other", body("a"), Version("no")),
        lambda store, _: store.put_if_absent(KEY, body("a")),
        lambda store, _: store.put_if_absent(KEY, body("b")),
        lambda store, seen: store.put_if_version(KEY, body("c"), seen[1].version),
        lambda store, seen: store.put_if_version(KEY, body("d"), seen[1].version),
        lambda store, _: store.read(KEY),
    )
    assert [reply.status for reply in got] == [absent, created, exists, created, stale, 200]
    lost = Outcome.PRECONDITION_FAILED
    assert [reply.outcome for reply in got[:5]] == [lost, Outcome.APPLIED, lost, Outcome.APPLIED, lost]
    # A write to nothing: GCS and Azure answer it like one on a stale version.
    assert [reply.missing for reply in got[:5]] == [absent == 404, False, False, False, False]
    assert got[5].body == body("c")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_delete_honours_its_version(dialect):
    """C8: a delete on a stale version fails, on the current one works, on nothing is missing."""
    scene, got = replies(
        dialect,
        lambda store, _: store.put_if_absent(KEY, body("a")),
        lambda store, _: store.delete(KEY, Version("stale")),
        lambda store, seen: store.delete(KEY, seen[0].version),
        lambda store, seen: store.delete(KEY, seen[0].version),
        lambda store, _: store.read(KEY),
    )
    assert [reply.outcome for reply in got[1:4]] == [
        Outcome.PRECONDITION_FAILED,
        Outcome.APPLIED,
        Outcome.PRECONDITION_FAILED,
    ]
    assert got[3].missing
    assert got[4].is_absent
    assert scene.store.present_keys() == []


def test_only_s3_calls_it_success_to_delete_nothing():
    """S3 answers 204 to an unconditional delete of an absent key; the others 404."""
    statuses = {}
    for dialect in ("s3", "gcs", "azure"):
        _, got = replies(dialect, lambda store, _: store.delete(KEY))
        statuses[dialect] = got[0].status
    assert statuses == {"s3": 204, "gcs": 404, "azure": 404}


@pytest.mark.parametrize(
    ("dialect", "status", "outcome"), [("s3", 204, Outcome.APPLIED), ("gcs", 404, Outcome.PRECONDITION_FAILED)]
)
def test_what_it_means_to_delete_nothing(dialect, status, outcome):
    """C8: an unconditional delete of an absent key is a success for S3 and a failure elsewhere; missing for both."""
    _, got = replies(dialect, lambda store, _: store.delete(KEY))
    assert (got[0].status, got[0].outcome, got[0].missing) == (status, outcome, True)


@pytest.mark.parametrize(("dialect", "status"), [("s3", 204), ("gcs", 204), ("azure", 202)])
def test_status_of_a_deletion(dialect, status):
    """C8: each dialect confirms a deletion with its own status."""
    _, got = replies(dialect, lambda store, _: store.put(KEY, body("a")), lambda store, _: store.delete(KEY))
    assert (got[1].status, got[1].missing) == (status, False)


@pytest.mark.parametrize(("dialect", "status"), [("s3", 404), ("gcs", 404), ("azure", 404)])
def test_status_of_a_conditional_deletion_of_nothing(dialect, status):
    """C8: under a condition, nothing to delete is a failure everywhere."""
    _, got = replies(dialect, lambda store, _: store.delete(KEY, Version("any")))
    assert (got[0].status, got[0].outcome, got[0].missing) == (status, Outcome.PRECONDITION_FAILED, True)


def test_a_stale_deletion_finds_the_object():
    """C8: a delete on a stale version is told that the object is there."""
    _, got = replies(
        "s3", lambda store, _: store.put(KEY, body("a")), lambda store, _: store.delete(KEY, Version("another"))
    )
    assert (got[1].status, got[1].missing) == (412, False)


def test_what_a_store_promises():
    """Capabilities of the model: deletions have conditions; versions repeat where they are made of the content."""
    promises = {dialect: Scene(dialect=dialect).store.service.capabilities for dialect in DIALECTS}
    assert all(each.conditional_delete for each in promises.values())
    assert [name for name, each in promises.items() if each.versions_repeat] == ["s3"]
    assert [each.dialect for each in promises.values()] == list(DIALECTS)


def test_objects_are_listed_in_order():
    """What is there is listed sorted, because faults that name no key act in that order."""
    scene, _ = replies("s3", *[lambda store, _, key=key: store.put(key, body("a")) for key in ("b", "c", "a")])
    assert scene.store.present_keys() == ["a", "b", "c"]


def test_an_operator_finds_nothing_to_delete():
    """delete_object on an absent key changes nothing, so it has not mattered; a wrong act is named."""
    scene = Scene(FaultPlan.of(DeleteObject(id="f", key="absent", at_ns=50 * MS)))
    scene.client("n1", lambda node, _store: node.runtime.sleep(100 * MS))
    assert scene.run().counts() == (1, 1, 0)
    assert not scene.rows(Kind.APPLIED)
    with pytest.raises(ConfigError, match="'forget'; this service knows put, delete, expire"):
        scene.store.tamper("forget", KEY)
    assert scene.store.tamper("expire", KEY) == 0


@pytest.mark.parametrize(
    ("status", "outcome", "missing"),
    [(404, Outcome.PRECONDITION_FAILED, True), (412, Outcome.PRECONDITION_FAILED, False),
     (409, Outcome.CONFLICT, False), (429, Outcome.THROTTLED, False), (403, Outcome.REJECTED, False),
     (501, Outcome.REJECTED, False), (500, Outcome.AMBIGUOUS, False), (408, Outcome.AMBIGUOUS, False)],
)  # fmt: skip
def test_a_refused_write_says_what_may_have_happened(status, outcome, missing):
    """A1, A5: the status that a fault puts in the place of an answer decides; the reason names it."""
    scene = Scene(FaultPlan.of(Error(id="f", op="acquire", status=status)))
    scene.client("n1", lambda _node, store: scene.note(store.put_if_absent(KEY, body("a"))))
    reply = scene.run().log[0][0]
    assert (reply.outcome, reply.missing, reply.status) == (outcome, missing, status)
    assert reply.reason == f"status {status} (injected)"


def test_a_read_that_is_answered_404_finds_nothing():
    """error 404 on a read: the object is there, and the client is told that it is not."""
    scene = Scene(FaultPlan.of(Error(id="f", op="read", status=404)))

    def script(_node, store):
        store.put(KEY, body("a"))
        scene.note(store.read(KEY))

    scene.client("n1", script)
    found = scene.run().log[0][0]
    assert (found.is_absent, found.status, found.reason) == (True, 404, "status 404 (injected)")


def test_s3_versions_repeat_for_equal_bytes():
    """A6, C7: an S3 ETag is the body's MD5, so a stale condition can succeed after A, B, A."""
    _, got = replies(
        "s3",
        lambda store, _: store.put(KEY, body("a")),
        lambda store, _: store.put(KEY, body("b")),
        lambda store, _: store.put(KEY, body("a")),
        lambda store, seen: store.put_if_version(KEY, body("c"), seen[0].version),
    )
    assert got[0].version == got[2].version == hashlib.md5(body("a")).hexdigest()
    assert got[3].outcome is Outcome.APPLIED


@pytest.mark.parametrize("dialect", ["gcs", "azure", "memory"])
def test_other_versions_never_repeat(dialect):
    """A generation rises and an Azure tag is new at every write, whatever the bytes."""
    scene, got = replies(dialect, *[lambda store, _: store.put(KEY, body("a"))] * 3)
    versions = [reply.version for reply in got]
    assert len(set(versions)) == 3
    assert versions == sorted(versions)
    assert not scene.store.service.capabilities.versions_repeat


def test_unconditional_put_overwrites():
    """A write without condition destroys whatever is there (M4)."""
    scene, got = replies(
        "s3", lambda store, _: store.put_if_absent(KEY, body("a")), lambda store, _: store.put(KEY, body("b"))
    )
    assert got[1].outcome is Outcome.APPLIED
    assert scene.store.past(KEY).body == body("b")


def test_truth_is_recorded_at_the_instant_of_effect():
    """Contract: one APPLIED row per application, between SENT and REPLIED, joined by request, with the record read."""
    scene, _ = replies("s3", lambda store, _: store.put_if_absent(KEY, body("a", 7)))
    sent, applied, replied = (scene.rows(kind)[0] for kind in (Kind.SENT, Kind.APPLIED, Kind.REPLIED))
    assert [row["at_ns"] for row in (sent, applied, replied)] == [0, 10_000_000, 20_000_000]
    assert sent["request"] == applied["request"] == replied["request"]
    assert (applied["node"], applied["owner"], applied["token"]) == ("n1", "a", 7)
    assert (applied["op"], applied["outcome"], applied["if_version"]) == ("acquire", "applied", "absent")
    assert applied["version"] == replied["version"]
    assert applied["content"] == sent["content"]


def test_lost_condition_is_recorded_as_such():
    """A write whose condition fails leaves an APPLIED row with that outcome and no version."""
    scene, _ = replies("s3", *[lambda store, _: store.put_if_absent(KEY, body("a"))] * 2)
    first, second = scene.rows(Kind.APPLIED)
    assert (first["outcome"], second["outcome"], second["version"]) == ("applied", "precondition_failed", None)


def test_empty_key_is_the_callers_mistake():
    """A lock that names no object is told so, as the lock whose mistake it is."""
    with pytest.raises(ConfigError, match="given the key ''"):
        replies("s3", lambda store, _: store.read(""))


def test_unknown_dialect_is_refused():
    """The message names what there is."""
    with pytest.raises(ConfigError, match="s3, gcs, azure"):
        Scene(dialect="oss")


@pytest.mark.parametrize("is_operator", [True, False])
def test_the_past_knows_of_a_deletion(is_operator):
    """A stale read after a deletion may show the object only as of an instant at which it was there."""
    scene = Scene()

    def script(node, store):
        store.put_if_absent(KEY, body("a"))
        node.runtime.sleep(1000 * MS)
        if is_operator:
            scene.store.tamper("delete", KEY)
        else:
            store.delete(KEY)
        node.runtime.sleep(1000 * MS)
        gone_ms = 1000 if is_operator else 1010
        assert scene.store.past(KEY, (gone_ms - 1) * MS).body is None
        assert scene.store.past(KEY, gone_ms * MS).body is None
        was = scene.store.past(KEY, (gone_ms + 1) * MS)
        assert (was.body, was.version) == (body("a"), scene.store.past(KEY, 1500 * MS).version)
        scene.note("looked")

    scene.client("n1", script)
    assert scene.run().log


def test_a_deletion_ignores_its_condition_where_the_fault_says_so():
    """ignore_conditions: a store that overlooks conditions overlooks those of deletions (U13)."""
    scene = Scene(FaultPlan.of(IgnoreConditions(id="f", op="delete")))

    def script(_node, store):
        store.put_if_absent(KEY, body("a"))
        scene.note(store.delete(KEY, Version("another")).outcome)

    scene.client("n1", script)
    scene.run()
    assert scene.log[0][0] is Outcome.APPLIED
    assert scene.store.past(KEY).body is None
    assert scene.counts() == (1, 1, 1)


def test_a_read_has_no_precondition_to_fail():
    """error 412 on a read: it carries no condition, so the client hears a refusal."""
    scene = Scene(FaultPlan.of(Error(id="f", op="read", status=412)))
    scene.client("n1", lambda _node, store: scene.note(store.read(KEY).outcome))
    assert scene.run().log[0][0] is Outcome.REJECTED


def test_the_reason_of_a_refused_read_is_told():
    """error 503 on a read: the reason says that it was injected."""
    scene = Scene(FaultPlan.of(Error(id="f", op="read", status=503)))
    scene.client("n1", lambda _node, store: scene.note(store.read(KEY).reason))
    assert scene.run().log[0][0] == "status 503 (injected)"
