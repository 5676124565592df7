"""Small invented histories: clients that take turns on a lock, and the defects to plant in them.

Not the simulator: a few lines that obey docs/history.md, so that the pipeline
is tested against histories whose verdict is known beforehand.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from lockref.history import Recorder, runs_table, to_table
from lockref.words import IF_ABSENT, Kind, Op, Outcome, detail

MS = 1_000_000
SECOND = 1_000_000_000
LOCK = "table/.hoodie/.locks/table_lock.json"
PLANTS = ("", "overlap", "stale_write", "fork")
"""Nothing, S3 (two believers), S3 and S4 (and the late one writes), S1 (a write that ignored its condition)."""


class Scribe:
    """Writes one run: every client and the store share one true clock."""

    def __init__(self, seed: int, *, clients: int = 3, turns: int = 6, plant: str = "", owner: str = "") -> None:
        self.random = random.Random(seed)
        self.recorder = Recorder()
        self.now = 0
        self.number = 0
        self.version = IF_ABSENT
        self.token = 0
        self.state = 0
        self.clients = clients
        self.owner = owner
        self._play(turns, plant)

    def _event(self, kind: Kind, node: str, **fields: Any) -> None:
        self.recorder.event(kind, (self.now, self.now + 7 * MS, self.now, "main"), node, LOCK, **fields)

    def _pass(self, low_ms: int, high_ms: int) -> None:
        self.now += self.random.randint(low_ms * MS, high_ms * MS)

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _write(self, node: str, op: Op, *, condition: str | None = None) -> None:
        request = self._next()
        if_version = self.version if condition is None else condition
        made = f"v{request}"
        told: dict[str, Any] = {
            "op": op,
            "request": request,
            "attempt": 1,
            "if_version": if_version,
            "content": f"c{request}",
            "token": self.token,
            "owner": self._owner(node),
            "valid_until_ns": self.now + 10 * SECOND + 7 * MS,
        }
        self._event(Kind.SENT, node, **told)
        self._pass(1, 20)
        self._event(Kind.APPLIED, node, outcome=Outcome.APPLIED, version=made, **told)
        self._pass(1, 20)
        self._event(Kind.REPLIED, node, outcome=Outcome.APPLIED, version=made, **told)
        self.version = made

    def _owner(self, node: str) -> str:
        return f"{self.owner}{node}-{self.token}"

    def _effect(self, node: str, tenure: int, token: int) -> None:
        before = self.state
        self.state += 1
        self._event(
            Kind.EFFECT, node, op=Op.WRITE, outcome=Outcome.APPLIED, request=tenure, attempt=1, token=token,
            owner=f"{self.owner}{node}-{token}", if_version=str(before), version=str(self.state),
        )  # fmt: skip

    def _believe(self, node: str, tenure: int, op: Op, token: int) -> None:
        self._event(
            Kind.BELIEVED, node, op=op, request=tenure, token=token, owner=f"{self.owner}{node}-{token}",
            version=self.version,
        )  # fmt: skip

    def _play(self, turns: int, plant: str) -> None:
        for turn in range(turns):
            node = f"n{self.random.randrange(self.clients) + 1}"
            tenure = self._next()
            self._event(Kind.CALL, node, op=Op.ACQUIRE, request=tenure)
            self._pass(1, 400)
            self.token += 1
            token = self.token
            # "none" never was a version: a store that applies this write ignored its condition.
            is_fork = plant == "fork" and turn == turns - 1
            self._write(node, Op.ACQUIRE, condition="none" if is_fork else None)
            self._event(
                Kind.RETURN, node, op=Op.ACQUIRE, outcome=Outcome.APPLIED, request=tenure, token=token,
                owner=self._owner(node), version=self.version,
            )  # fmt: skip
            self._believe(node, tenure, Op.ACQUIRE, token)
            self._pass(20, 900)
            self._believe(node, tenure, Op.GUARD, token)
            self._effect(node, tenure, token)
            if plant in ("overlap", "stale_write") and turn == turns // 2:
                # The client stalls with its lock in hand; the next one takes it over in time.
                self._event(Kind.FAULT, node, detail=detail(id="f1", kind="pause", phase="begin"))
                self.now += 11 * SECOND
                self._event(Kind.FAULT, node, detail=detail(id="f1", kind="pause", phase="end"))
                late = (node, tenure, token)
                self._pass(1, 50)
                other = f"n{int(node[1:]) % self.clients + 1}"
                self._turn_of(other, late, plant)
                continue
            self._event(Kind.DISBELIEVED, node, request=tenure, token=token)
            call = self._next()
            self._event(Kind.CALL, node, op=Op.RELEASE, request=call)
            self._write(node, Op.RELEASE)
            self._event(Kind.RETURN, node, op=Op.RELEASE, outcome=Outcome.APPLIED, request=call)
            self._pass(1, 300)

    def _turn_of(self, node: str, late: tuple[str, int, int], plant: str) -> None:
        tenure = self._next()
        self._event(Kind.CALL, node, op=Op.ACQUIRE, request=tenure)
        self.token += 1
        token = self.token
        self._write(node, Op.ACQUIRE)
        self._event(
            Kind.RETURN, node, op=Op.ACQUIRE, outcome=Outcome.APPLIED, request=tenure, token=token,
            owner=self._owner(node), version=self.version,
        )  # fmt: skip
        self._believe(node, tenure, Op.ACQUIRE, token)
        self._effect(node, tenure, token)
        self._pass(50, 400)
        self._believe(late[0], late[1], Op.GUARD, late[2])
        if plant == "stale_write":
            self._effect(*late)
        self._pass(50, 400)
        self._believe(node, tenure, Op.GUARD, token)
        self._event(Kind.DISBELIEVED, late[0], request=late[1], token=late[2])
        self._event(Kind.DISBELIEVED, node, request=tenure, token=token)
        call = self._next()
        self._event(Kind.CALL, node, op=Op.RELEASE, request=call)
        self._write(node, Op.RELEASE)
        self._event(Kind.RETURN, node, op=Op.RELEASE, outcome=Outcome.APPLIED, request=call)


def run_row(number: int, seed: int, **fields: Any) -> dict[str, Any]:
    """The metadata of one invented run."""
    return {
        "run": number, "seed": seed, "scenario": "invented", "provider": "turns", "world": "simulated", "clients": 3,
        "validity_ns": 10 * SECOND, "poll_interval_ns": SECOND, "request_timeout_ns": SECOND,
        "wait_timeout_ns": 30 * SECOND, "drift_bound_ns": 0, "rate_error_ppm": 0, **fields,
    }  # fmt: skip


def history(plants: list[str], *, first_seed: int = 0, turns: int = 6, **fields: Any) -> tuple[pa.Table, pa.Table]:
    """(events, runs) with one run for each entry of `plants`."""
    scribes = [Scribe(first_seed + place, plant=plant, turns=turns) for place, plant in enumerate(plants)]
    rows = [run_row(number, first_seed + number, **fields) for number in range(len(plants))]
    return to_table([scribe.recorder for scribe in scribes]), runs_table(rows)
