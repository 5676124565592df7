"""Does a change of the house change what happens in it? Every run of the catalogue, before and after.

    python -m tests.quality.same_runs record before.json [SEEDS]   # at the old commit
    python -m tests.quality.same_runs compare before.json          # at the new one

Two names are kept for each run of each lock: its digest, which covers every
recorded event with every time and byte, and a digest of its requests alone:
who asked what of which object, under which kind of condition, and what the
answer was. A run whose digest changed while its requests did not has moved in
time or in bytes only. Exit 1 where a digest differs.
"""

from __future__ import annotations

import hashlib
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click

from lockref.errors import ConfigError
from lockref.history import ROW_COLUMNS, Recorder
from lockref.lab.loading import load_provider
from lockref.words import IF_ABSENT, Kind
from scenarios.batch import run_seeds
from scenarios.definition.load import catalogue, load_scenario

LOCKS = ("hudi", "docs/examples/lease_lock.py:LeaseLock", "hardened")
SEEDS = 200
_REQUESTS = (Kind.SENT, Kind.APPLIED, Kind.REPLIED)
_SLOT = {name: position for position, name in enumerate(ROW_COLUMNS)}


def requests_digest(recorder: Recorder) -> str:
    """The run's requests, their kinds of condition and their outcomes, in order."""
    digest = hashlib.blake2b(digest_size=8)
    texts = recorder.texts
    for row in recorder.matrix().tolist():
        if row[_SLOT["kind"]] in _REQUESTS:
            condition = texts[row[_SLOT["if_version"]]]
            kind = condition if condition in ("", IF_ABSENT) else "version"
            names = [texts[row[_SLOT[name]]] for name in ("node", "lock")]
            numbers = [row[_SLOT[name]] for name in ("kind", "op", "outcome", "request", "attempt")]
            digest.update(repr((names, numbers, kind)).encode())
    return digest.hexdigest()


def runs_of(name: str, lock: str, seeds: int) -> list[tuple[str, str]] | str:
    """(digest, digest of the requests) of each seed; the reason where this lock cannot run there."""
    try:
        outcomes = run_seeds(load_scenario(name), load_provider(lock), range(1, seeds + 1))
    except ConfigError as error:
        return str(error)
    return [(outcome.digest[:16], requests_digest(outcome.recorder)) for outcome in outcomes]


def _of_scenario(name: str, seeds: int) -> dict[str, list[tuple[str, str]] | str]:
    return {lock: runs_of(name, lock, seeds) for lock in LOCKS}


def record(seeds: int) -> dict[str, dict[str, list[tuple[str, str]] | str]]:
    """By scenario and lock, what the runs were."""
    names = [path.stem for path in catalogue()]
    with ProcessPoolExecutor() as pool:
        return dict(zip(names, pool.map(_of_scenario, names, [seeds] * len(names)), strict=True))


def compare(before: dict[str, dict[str, list[list[str]] | str]]) -> int:
    """Print what differs; how many runs do."""
    seeds = max(len(runs) for locks in before.values() for runs in locks.values() if not isinstance(runs, str))
    after = json.loads(json.dumps(record(seeds)))
    runs = differing = 0
    for name, locks in before.items():
        for lock, olds in locks.items():
            news = after.get(name, {}).get(lock, "the scenario is not there any more")
            if isinstance(olds, str) or isinstance(news, str):
                if olds != news:
                    differing += 1
                    click.echo(f"{name} {lock}: {olds if isinstance(olds, str) else 'ran'} -> {news}")
                continue
            runs += len(olds)
            changed = [seed for seed, (old, new) in enumerate(zip(olds, news, strict=True), 1) if old[0] != new[0]]
            asked = [seed for seed in changed if olds[seed - 1][1] != news[seed - 1][1]]
            differing += len(changed)
            if changed:
                click.echo(
                    f"{name} {lock}: {len(changed)} digests differ ({changed[:5]}), "
                    f"requests in {len(asked)}: {asked[:9]}"
                )
    click.echo(f"{runs} runs of {len(before)} scenarios compared, {differing} differ")
    return differing


def main(arguments: list[str]) -> int:
    match arguments:
        case ["record", file, *seeds]:
            Path(file).write_text(json.dumps(record(int(seeds[0]) if seeds else SEEDS)), encoding="utf-8")
            return 0
        case ["compare", file]:
            return int(compare(json.loads(Path(file).read_text(encoding="utf-8"))) > 0)
        case _:
            click.echo(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
