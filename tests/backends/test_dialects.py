"""The modelled dialects against servers: the same walk on both, answer by answer.

A walk is two hundred requests on two keys, drawn once from a seed, and each
is a verb in a situation: a deletion on a stale version, a create over a present
object. What a server answers otherwise than its cloud does is written down
here, per verb and situation; so is what it answers so wrongly that the walk
must leave it out, because the two stores would differ from there on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from lockref.clouds.uri import server_statuses
from lockref.stores.client import OBJECT_STORE
from lockref.stores.port import ObjectStore, Version
from lockref.words import Outcome
from sim.kernel.clocks import WALL_EPOCH_NS
from sim.services.objectstore import ObjectStoreService
from tests.backends.conftest import on

STEPS = 200
KEYS = ("one", "two")
CREATE, REPLACE, PUT, DELETE, DELETE_VERSION, READ = VERBS = (
    "create",
    "replace",
    "put",
    "delete",
    "delete a version",
    "read",
)
ABSENT, CURRENT, STALE = "absent", "current", "stale"
PRESENT = "present"

Answer = tuple[int | None, Outcome, bool]
"""Status, outcome, and whether a refusal tells that there is no object."""

DEVIATIONS: dict[str, dict[tuple[str, str], Answer]] = {
    "azurite": {(DELETE_VERSION, ABSENT): (412, Outcome.PRECONDITION_FAILED, False)},
    "fake-gcs-server": {
        (DELETE_VERSION, CURRENT): (200, Outcome.APPLIED, False),
        (DELETE, PRESENT): (200, Outcome.APPLIED, False),
    },
}
"""Azure itself answers a conditional deletion of nothing with 404, GCS a deletion with 204 (conditional-writes.md,
section 1)."""

LEFT_OUT = {
    "fake-gcs-server": {(DELETE_VERSION, STALE)},  # K9: it deletes, whatever the generation.
    "localstack": {(DELETE_VERSION, ABSENT), (DELETE_VERSION, CURRENT), (DELETE_VERSION, STALE)},  # 501, honestly.
}


@dataclass
class Walker:
    """One store and the versions it made of each key, so that both stores are asked with their own."""

    store: ObjectStore
    versions: dict[str, list[Version]] = field(default_factory=lambda: {key: [] for key in KEYS})

    def step(self, verb: str, key: str, version: int, body: bytes) -> tuple[Answer, bytes | None]:
        """Ask, with the version of that index; the answer and the body that a read brought."""
        named = self.versions[key][version] if self.versions[key] else Version("")
        if verb == READ:
            read = self.store.read(key)
            return (read.status, read.outcome, read.is_absent), read.body
        reply = {
            CREATE: lambda: self.store.put_if_absent(key, body),
            REPLACE: lambda: self.store.put_if_version(key, body, named),
            PUT: lambda: self.store.put(key, body),
            DELETE: lambda: self.store.delete(key),
            DELETE_VERSION: lambda: self.store.delete(key, named),
        }[verb]()
        if reply.version is not None:
            self.versions[key].append(reply.version)
        is_told = reply.missing and reply.outcome is not Outcome.APPLIED
        return (reply.status, reply.outcome, is_told), None


class _Channel:
    """A service of the simulator, asked directly: no wire, no faults, and every request takes effect at once."""

    client, service = "walker", "store"

    def __init__(self, model: ObjectStoreService) -> None:
        self._model = model
        self._at_ns = WALL_EPOCH_NS
        self.capabilities = model.capabilities

    def send(self, request, _timeout_ns):
        self._at_ns += 1
        return self._model.apply(request, self._at_ns)

    def close(self) -> None:
        pass


def _situation(verb: str, version: int, count: int, *, is_present: bool) -> str:
    if not is_present:
        return ABSENT
    if verb in (REPLACE, DELETE_VERSION):
        return CURRENT if version in (-1, count - 1) else STALE
    return PRESENT


@pytest.mark.parametrize(
    "address", [on("ministack"), on("localstack"), on("fake-gcs-server"), on("azurite")], indirect=True
)
def test_a_dialect_answers_as_its_server(store, backend_name):
    """C1, C3 to C6, C8, C23: status, outcome, body and whether an absence is told, in 200 steps of a walk."""
    model = ObjectStoreService(server_statuses(store.capabilities.dialect))
    assert (model.capabilities.versions_repeat, model.capabilities.conditional_delete) == (
        store.capabilities.versions_repeat,
        store.capabilities.conditional_delete,
    )
    modelled, real = Walker(OBJECT_STORE.over(_Channel(model), 1)), Walker(store)
    deviations, left_out = DEVIATIONS.get(backend_name, {}), LEFT_OUT.get(backend_name, set())
    draw = random.Random(11)
    seen: set[tuple[str, str]] = set()
    for number in range(STEPS):
        verb, key = draw.choice(VERBS), draw.choice(KEYS)
        made = len(modelled.versions[key])
        version = draw.choice((-1, draw.randrange(made))) if made else -1
        is_present = key in model.present_keys()
        situation = _situation(verb, version, made, is_present=is_present)
        if (verb, situation) in left_out or (not made and verb in (REPLACE, DELETE_VERSION)):
            continue
        seen.add((verb, situation))
        body = b"%d" % number
        answers = modelled.step(verb, key, version, body), real.step(verb, key, version, body)
        expected = (deviations.get((verb, situation), answers[0][0]), answers[0][1])
        assert answers[1] == expected, f"step {number}: {verb}, {situation}"
        assert len(real.versions[key]) == len(modelled.versions[key])
    assert seen | left_out == {
        (verb, situation)
        for verb in VERBS
        for situation in ((ABSENT, CURRENT, STALE) if verb in (REPLACE, DELETE_VERSION) else (ABSENT, PRESENT))
    }
    assert set(deviations) <= seen
