"""What a watched run leaves when its process is killed is enough to judge what it has recorded."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lockref.clouds.traffic import Exchange
from lockref.clouds.uri import parse_store_uri
from lockref.runtime import NS_PER_S
from reports.checks import judge
from reports.checks.summary import Summary
from reports.checks.verdicts import decide
from reports.history_files import load_history
from scenarios.wire.live_run import LiveRun
from scenarios.wire.settings import WireSettings
from sim.faults.plan import FaultPlan


def asks(run: LiveRun, client: str, method: str, key: str, body: object = None, **headers: str) -> str:
    """One request that the store accepts. The version that it answers."""
    now_ns = run._runtime.monotonic_ns
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    exchange = Exchange(method=method, path=f"/bucket/{key}", parameters={}, headers=told, asked_ns=now_ns())
    exchange.body.add(json.dumps(body).encode())
    exchange.is_complete = True
    asked = run._wire.asked(client, exchange)
    run._wire.sent(asked, now_ns())
    version = f'"{asked.number}"'
    exchange.status, exchange.answer_headers = (204, {}) if method == "DELETE" else (200, {"etag": version})
    run._wire.answered(asked, now_ns())
    return version


@pytest.mark.parametrize(("is_released", "verdict"), [(True, "held"), (False, "violated")])
def test_a_killed_run_is_judged_on_the_locks_that_it_had_seen(tmp_path: Path, is_released: bool, verdict: str) -> None:
    """Nothing is closed before the folder is read: a kill leaves just that. Who grants twice is still found."""
    settings = WireSettings(argv=("true",), clients=2, protects=("state/*",))
    address, plan = parse_store_uri("s3://bucket?endpoint=http://127.0.0.1:9"), FaultPlan(faults=())
    run = LiveRun(settings, ("n1", "n2"), ("true",), {}, plan, address, tmp_path, server=None)
    try:
        run._describe()
        end = datetime.fromtimestamp(run._runtime.wall_ns() // NS_PER_S + 600, tz=UTC).isoformat()
        record = {"generation": 1, "expires_at": end, "owner": "a"}
        version = asks(run, "n1", "PUT", "t/lock.json", record, if_none_match="*")
        # The lock is named at once; how long it is promised is written at the next look.
        assert dict(load_history(tmp_path)[1]["lock_protocols"][0].as_py()) == {"bucket/t/lock.json": "wire"}
        asks(run, "n1", "PUT", "state/x")
        run._look()
        condition = {"if_match": version}
        if is_released:
            asks(run, "n1", "DELETE", "t/lock.json", if_match=version)
            condition = {"if_none_match": "*"}
        asks(run, "n2", "PUT", "t/lock.json", {**record, "generation": 2, "owner": "b"}, **condition)
        events, runs, notes = load_history(tmp_path)
    finally:
        run.close()
    (row,) = runs.to_pylist()
    assert dict(row["lock_protocols"]) == {"bucket/t/lock.json": "wire"}
    assert (row["is_cut_off"], row["is_inferred"], row["must_happen"]) == (True, None, ["grant"])
    assert 500 * NS_PER_S < row["validity_ns"] <= 600 * NS_PER_S
    assert (row["backend"], notes.cut_off) == (str(address), [0])
    found = decide(Summary.of(judge(events, runs), events, runs))
    assert (found.safety, found.reasons) == (verdict, ())
