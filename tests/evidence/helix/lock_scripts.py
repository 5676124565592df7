"""Scripts for lock objects of helix-lock, which the original and our build of it play alike.

A script has lock objects and steps on one znode; its form is that of the driver (`lock_java/LockDriver.java`). What
came of it is the same for both once instants are told as distances from the script's beginning, in whole minutes: the
leases of scripts are either over at once or far longer than a script lasts.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from typing import Any, Final

SETTLE_MS: Final = 400
"""After a step events travel, and listeners act, for at most so long; also on a machine that does much else."""

WAIT_MS: Final = 4000
"""The one timeout that ends within a script: much longer than a step, so that whoever waits is seen to wait."""

LONG_MS: Final = 600_000
FOR_EVER_MS: Final = 2**63 - 1

_INSTANT: Final = re.compile(r"\b[0-9]{13}\b")
_GRAIN_MS: Final = 60_000
_NEAR_MS: Final = 10**9

Script = dict[str, Any]
Trace = list[dict[str, Any]]


def lock(user: str, **settings: Any) -> dict[str, Any]:
    """The settings of a lock object. cleanup: how long its listener takes, in ms; None for no listener."""
    usual = {
        "lease_ms": LONG_MS, "message": f"work of {user}", "priority": 0, "waiting_ms": WAIT_MS, "cleanup_ms": WAIT_MS,
        "is_forceful": False, "cleanup": 0,
    }  # fmt: skip
    return {"user": user, **usual, **settings}


def script(name: str, locks: list[dict[str, Any]], *steps: list[Any]) -> Script:
    return {"name": name, "settle_ms": SETTLE_MS, "locks": locks, "steps": list(steps)}


def stored(owner: object = "zoe", timeout: object = "@600000", **fields: object) -> str:
    """A record as an operator or another lock object left it; instants as `@MS` from now."""
    simple = {
        "OWNER": owner, "MESSAGE": "m", "TIMEOUT": timeout, "PRIORITY": "0", "WAITING_TIMEOUT": "5",
        "CLEANUP_TIMEOUT": str(WAIT_MS), "REQUESTOR_ID": "NONE", "REQUESTOR_PRIORITY": "0",
        "REQUESTOR_WAITING_TIMEOUT": "-1", "REQUESTING_TIMESTAMP": "-1",
    }  # fmt: skip
    return _record({**simple, **fields})


def _record(simple: Any, **rest: object) -> str:
    return json.dumps({"id": "LOCK", "simpleFields": simple, "mapFields": {}, "listFields": {}, **rest})


A, B, C = lock("ann"), lock("bob", priority=1), lock("cem", priority=2)
FORCEFUL: Final = {"is_forceful": True}
STUBBORN: Final = lock("ann", cleanup=None)
"""An owner without a listener, which never gives way (HJ6)."""

NAMED: Final = (
    script("again-and-again", [A], ["try", 0], ["try", 0], ["owner", 0], ["unlock", 0], ["unlock", 0], ["owner", 0]),
    script("held-by-another", [A, lock("bob")], ["try", 0], ["try", 1], ["unlock", 1], ["info", 1], ["unlock", 0]),
    script("one-user-twice", [A, lock("ann", message="other")], ["try", 0], ["try", 1], ["unlock", 0], ["owner", 1]),
    script("nothing-to-unlock", [A], ["unlock", 0], ["info", 0], ["try", 0], ["close", 0], ["unlock", 0], ["close", 0]),
    script("closed", [A], ["close", 0], ["try", 0], ["unlock", 0], ["owner", 0]),
    script("hj1-empty", [A, lock("bob")], ["try", 0], ["put", ""], ["owner", 0], ["try", 1], ["unlock", 0]),
    script("hj1-broken", [A, lock("bob")], ["try", 0], ["put", '{"id":'], ["try", 1], ["try", 0]),
    script("hj2-expired", [lock("ann", lease_ms=0), lock("bob")], ["try", 0], ["unlock", 1], ["info", 0]),
    script("hj3-unlock-erases-request", [STUBBORN, B], ["try", 0], ["try", 1], ["unlock", 0], ["end", 1], ["info", 1]),
    script(
        "hj3-forceful", [STUBBORN, lock("bob", priority=1, **FORCEFUL)],
        ["try", 0], ["try", 1], ["unlock", 0], ["end", 1], ["owner", 1], ["info", 1],
    ),
    script(
        "hj4-used-again", [STUBBORN, B],
        ["try", 0], ["try", 1], ["end", 1], ["unlock", 0], ["try", 1], ["end", 1], ["owner", 1],
    ),
    script(
        "hj5-lease-ends-in-wait", [lock("ann", cleanup=None, lease_ms=1500), B],
        ["try", 0], ["try", 1], ["sleep", 1500], ["owner", 0], ["end", 1], ["info", 1],
    ),
    script("hj6-no-listener", [STUBBORN, B], ["try", 0], ["try", 1], ["end", 1], ["owner", 0]),
    script(
        "hj7-forceful", [lock("ann", cleanup=2 * WAIT_MS), lock("bob", priority=1, **FORCEFUL)],
        ["try", 0], ["try", 1], ["end", 1], ["owner", 1], ["sleep", WAIT_MS], ["owner", 0], ["info", 0],
    ),
    script(
        "hj13-lower-displaces-higher", [STUBBORN, C, B],
        ["try", 0], ["try", 1], ["try", 2], ["end", 1], ["end", 2], ["info", 0],
    ),
    script(
        "hj13-forceful-at-once", [STUBBORN, C, lock("bob", priority=1, **FORCEFUL)],
        ["try", 0], ["try", 1], ["try", 2], ["end", 2], ["owner", 2],
    ),
    script(
        "hj15-second-wait-ends-at-once",
        [A, lock("bob", priority=1, **FORCEFUL), lock("dan", cleanup=2 * WAIT_MS)],
        ["try", 0], ["try", 1], ["end", 1], ["unlock", 1], ["try", 2], ["try", 1], ["end", 1], ["owner", 1],
    ),
    script("gives-way", [A, B], ["try", 0], ["try", 1], ["end", 1], ["owner", 0], ["owner", 1], ["unlock", 1]),
    script("gives-way-to-equal", [B, C], ["try", 0], ["put", stored("bob", PRIORITY="1", REQUESTOR_ID="cem",
           REQUESTOR_PRIORITY="1")], ["info", 0], ["try", 1]),
    script("higher-displaces-lower", [STUBBORN, B, C], ["try", 0], ["try", 1], ["try", 2], ["end", 1], ["end", 2]),
    script("deleted", [A, B], ["try", 0], ["delete"], ["owner", 0], ["try", 1], ["try", 0], ["unlock", 1]),
    script("deleted-in-wait", [STUBBORN, B], ["try", 0], ["try", 1], ["delete"], ["end", 1], ["info", 1]),
    script(
        "fields-keep-their-order", [A, B],
        ["put", json.dumps({"listFields": {"l": ["x", "y"], "e": []}, "mapFields": {"m": {"k": "v"}, "n": {}},
                            "simpleFields": {"Z": "z\n\u0001\u00e4\"\\/", "TIMEOUT": "@600000", "OWNER": "ann",
                                             "PRIORITY": "0"}, "id": "other"})],
        ["try", 0], ["put", json.dumps({"listFields": {"l": ["x", "y"], "e": []}, "mapFields": {"m": {"k": "v"}},
                            "simpleFields": {"Z": "z\n\u0001\u00e4\"\\/", "TIMEOUT": "@600000", "OWNER": "ann",
                                             "REQUESTOR_ID": "bob", "B": None}, "id": "other"})],
        ["info", 0],
    ),
)  # fmt: skip
"""Each hazard, and what random scripts meet too rarely."""

STRANGE: Final = (
    "", " ", "{", "null", "[]", '"text"', "5", "{}", "{} and more", '{"id": 5}', '{"id": {}}', '{"other": 1}',
    '{"id": "LOCK", "simpleFields": null}', '{"id": "LOCK", "simpleFields": []}', '{"simpleFields": ""}',
    '{"id": "LOCK", "mapFields": 5}', '{"id": "LOCK", "listFields": {"a": "b"}}', '{"id": "LOCK", "version": 7}',
    '{"ownerName": "zoe", "recordVersionNumber": "1", "leaseDuration": 60}',
    stored(), stored("ann"), stored("bob"), stored(timeout="@-5000"), stored("ann", "@-5000"),
    stored(PRIORITY="1"), stored(PRIORITY="x"), stored(PRIORITY="+1"), stored(PRIORITY="2147483648"),
    stored(timeout="abc"), stored(timeout=""), stored(timeout=" 9"), stored(timeout=None), stored(timeout=True),
    stored(timeout=str(FOR_EVER_MS)), stored(timeout=str(FOR_EVER_MS + 1)), stored(timeout="1e30"),
    stored(timeout=9 * 10**18), stored(timeout=1e300), stored(None, "@-5000"), stored(""), stored({"a": 1}),
    stored(REQUESTOR_ID="yan", REQUESTOR_PRIORITY="1", REQUESTING_TIMESTAMP="@-1000"),
    stored(REQUESTOR_ID="yan", REQUESTOR_PRIORITY="9", REQUESTING_TIMESTAMP="@-1000"),
    stored("NONE", "-1", REQUESTOR_ID="bob", REQUESTOR_PRIORITY="1"),
    stored("NONE", "-1", REQUESTOR_ID="cem", REQUESTOR_PRIORITY="2"),
    stored("ann", REQUESTOR_ID="cem", REQUESTOR_PRIORITY="2", CLEANUP_TIMEOUT="0"),
    stored(CLEANUP_TIMEOUT="0"), stored(CLEANUP_TIMEOUT="-7"),
    _record({"OWNER": "ann", "TIMEOUT": "@600000"}, unknown=1), _record({"OWNER": "ann", "TIMEOUT": "@600000"}) + "}}",
)  # fmt: skip


READING: Final = tuple(
    script(f"stored-{number}", [A], ["put", body], ["info", 0], ["owner", 0], ["try", 0], ["unlock", 0])
    for number, body in enumerate(STRANGE)
)
"""What the original makes of each of these."""


def random_scripts(count: int, *, seed: int) -> list[Script]:
    """So many scripts: a stored record, two or three lock objects, and steps on them."""
    draws = random.Random(seed)
    return [_drawn(draws, f"random-{number}") for number in range(count)]


def _drawn(draws: random.Random, name: str) -> Script:
    users = ("ann", "bob", "cem")[: draws.choice((2, 2, 3))]
    forceful = draws.randrange(len(users)) if draws.random() < 0.4 else None
    locks = [
        lock(
            user,
            lease_ms=draws.choice((LONG_MS, LONG_MS, LONG_MS, FOR_EVER_MS, 0)),
            priority=draws.choice((0, 0, 1, 1, 2)) if forceful in (None, place) else 0,
            waiting_ms=draws.choice((WAIT_MS, WAIT_MS, 0)),
            cleanup_ms=draws.choice((WAIT_MS, WAIT_MS, 0)),
            # A forceful one may ask and take in one breath; another that waits sees both steps, or the last alone.
            is_forceful=place == forceful,
            cleanup=draws.choice((0, 0, None)),
        )
        for place, user in enumerate(users)
    ]
    steps: list[list[Any]] = [["put", draws.choice(STRANGE)]] if draws.random() < 0.6 else []
    asking: set[int] = set()
    for _ in range(draws.randint(4, 8)):
        which = draws.randrange(len(locks))
        kinds = ("try", "unlock", "owner", "info", "put", "delete", "close")
        kind = draws.choices(kinds, (8, 4, 1, 1, 2, 1, 0.4))[0]
        if kind == "try":
            if which in asking:
                steps.append(["end", which])
            asking.add(which)
        steps.append({"put": ["put", draws.choice(STRANGE)], "delete": ["delete"]}.get(kind, [kind, which]))
    return script(name, locks, *steps, *(["end", which] for which in sorted(asking)))


def comparable(trace: Trace, since_ms: int) -> Trace:
    """A trace with every instant as a distance from its beginning."""

    def distance(found: re.Match[str]) -> str:
        ms = int(found.group()) - since_ms
        return f"@{round(ms / _GRAIN_MS) * _GRAIN_MS}" if abs(ms) < _NEAR_MS else found.group()

    return [_mapped(step, distance) for step in trace]


def _mapped(step: Mapping[str, Any], distance: Any) -> dict[str, Any]:
    def words(value: Any) -> Any:
        if isinstance(value, str):
            return _INSTANT.sub(distance, value)
        if isinstance(value, int) and not isinstance(value, bool):
            return _INSTANT.sub(distance, str(value))
        return [words(each) for each in value] if isinstance(value, list) else value

    # The text of a null pointer is Java's own.
    left_out = {"text"} if step.get("error") == "NullPointerException" else set()
    return {name: value if name == "version" else words(value) for name, value in step.items() if name not in left_out}
