"""What a lock sends is learned by running it, and from that follows what a store must keep for it."""

from __future__ import annotations

import pytest

from lockref.clouds.admission import Admission
from lockref.errors import CapabilityMissing
from lockref.lab.loading import load_provider
from lockref.stores.probe.clauses import DESIGNS, Sent, designs_of, not_needed
from scenarios.evaluation.lock_requests import in_words, learn_requests
from tests.conditional_server import Bucket, serving


@pytest.mark.parametrize(
    ("provider", "sent"),
    [
        ("hardened", {Sent.CREATE, Sent.REPLACE}),
        ("dynamodb", {Sent.CREATE, Sent.REPLACE}),
        ("docs/examples/lease_lock.py:LeaseLock", {Sent.CREATE, Sent.REPLACE}),
        ("dynamodb-lock-0.5", {Sent.CREATE, Sent.REPLACE, Sent.DELETE}),
    ],
)
def test_conditions_are_those_that_the_lock_really_sends(provider: str, sent: set[Sent]) -> None:
    found = learn_requests(load_provider(provider))
    assert found.is_seen
    assert set(found.sent) == sent
    assert found.designs == designs_of(found.sent)


def test_a_lock_that_cannot_be_run_is_taken_for_compare_and_swap(tmp_path, monkeypatch) -> None:
    """Nothing is known of it, and the store is not let off."""
    (tmp_path / "broken.py").write_text(
        "class Broken:\n    def __init__(self, context):\n        raise ValueError('no')\n"
        "    def try_lock(self): ...\n    def lock(self, timeout_s): ...\n    def unlock(self): ...\n"
        "    def holds(self): ...\n    def close(self): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    found = learn_requests(load_provider("./broken.py:Broken"))
    assert not found.is_seen
    assert found.designs == ("cas",)
    assert "could not be run" in found.how
    assert found.words == "what nobody has seen: it is taken for compare-and-swap"


def test_a_lock_that_asks_no_store_is_taken_for_compare_and_swap(tmp_path, monkeypatch) -> None:
    """It hides what it sends, or sends nothing while it is looked at: no store is let off for that."""
    (tmp_path / "silent.py").write_text(
        "class Silent:\n    grant = None\n    def __init__(self, context): self.runtime = context.runtime\n"
        "    def try_lock(self): return False\n"
        "    def lock(self, timeout_s):\n        self.runtime.sleep(int(timeout_s * 1e9))\n        return False\n"
        "    def unlock(self): ...\n    def holds(self): return False\n    def close(self): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    found = learn_requests(load_provider("./silent.py:Silent"))
    assert (found.is_seen, found.designs) == (False, ("cas",))
    assert found.how.endswith("none of its requests was seen")


@pytest.mark.parametrize(
    ("sent", "designs"),
    [
        ({Sent.CREATE}, ("create",)),
        ({Sent.CREATE, Sent.REPLACE}, ("cas",)),
        ({Sent.CREATE, Sent.DELETE}, ("delete",)),
        ({Sent.CREATE, Sent.REPLACE, Sent.DELETE}, ("cas", "delete")),
        (set(), ()),
    ],
)
def test_the_designs_that_requests_tell(sent: set[Sent], designs: tuple[str, ...]) -> None:
    assert designs_of(sent) == designs


def test_larger_designs_hold_what_a_create_only_lock_needs() -> None:
    """So the design "create" may be left out where one of them is there."""
    for name in ("cas", "delete"):
        assert set(DESIGNS["create"].needs) <= set(DESIGNS[name].needs)


def test_a_store_may_break_what_no_design_stands_on() -> None:
    assert not_needed(["cas"]) == {"C8", "C9"}
    assert not_needed(["cas", "delete"]) == set()


def test_admission_asks_for_what_the_lock_needs(monkeypatch) -> None:
    """A store that overlooks versions of deletes is let in for a lock that deletes nothing, and for no other."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with serving(Bucket(flaw="stale delete")) as uri:
        found, _ = Admission(designs=("cas",)).measure(uri)
        assert found is not None
        for designs in ((), ("cas", "delete")):
            with pytest.raises(CapabilityMissing, match="a delete of a stale version"):
                Admission(designs=designs).measure(uri)


def test_requests_in_words() -> None:
    assert in_words([]) == "no request under a condition"
    assert in_words([Sent.CREATE]) == "creates"
    assert in_words([Sent.CREATE, Sent.REPLACE, Sent.DELETE]) == (
        "creates, replacements by version and deletes by version"
    )
