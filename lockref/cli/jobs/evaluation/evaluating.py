"""Which store to take for a lock: each is probed, contended on, struck with faults, and one page says what follows."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lockref.cli.jobs.evaluation.steps import BASELINE, EvaluatedStore, Evaluation, Questions, priced
from lockref.cli.jobs.shown.results import begin_run
from lockref.clouds.uri import parse_store_uri
from lockref.durations import plain_duration
from lockref.errors import INTERRUPTED, BackendUnavailable, ConfigError
from lockref.lab.loading import ProviderSpec, load_provider
from lockref.services import service_kind
from reports.comparison.advice import Advice, advise
from reports.comparison.carrying import NO, NOT_REACHED
from reports.comparison.standing import Standing, standing_of
from reports.comparison.store_runs import NOT_LIVE
from reports.comparison.store_table import terminal_tables
from reports.formats.exit_codes import HELD, INCONCLUSIVE, VIOLATED, worst
from reports.formats.exit_codes import NOT_LIVE as NOT_LIVE_CODE
from reports.html.evaluation import recorded_subjects, side_by_side, write_evaluation
from scenarios.backends import is_started_here, require_objects
from scenarios.backends.hosts import host_of
from scenarios.definition.load import load_scenario
from scenarios.evaluation.lock_requests import LockRequests, learn_requests
from scenarios.evaluation.prices import PRICES, load_prices
from scenarios.runs import provenance
from scenarios.worlds.contention import contention_of
from scenarios.worlds.real import require_feasible

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from scenarios.evaluation.prices import Price
    from scenarios.runs import RunFolder

FORMAT: Final = "lockref.evaluation/2"
_SDKS: Final = ("boto3", "google-cloud-storage", "azure-storage-blob")
"""The clients of clouds, by the names of their distributions."""


def evaluate(
    console: Console,
    stores: Sequence[str],
    *,
    provider: str,
    crowds: Sequence[int],
    repeats: int,
    for_ns: int,
    probe_ns: int,
    rounds: int,
    faults: Sequence[str],
    limits: tuple[str, ...],
    prices: Path | None,
    has_baseline: bool,
) -> int:
    """Evaluate each store for one lock, write one page about all, and say which to take. Returns the exit code.

    crowds: numbers of clients; each gets a contention run of `for_ns`. repeats: how many of them, in blocks: in each,
    all stores take turns, and another one comes first, so that a slow hour slows all of them alike.
    probe_ns, rounds: as for `probe_stores`. faults: scenarios whose faults strike the wire; each gets a run.
    limits: thresholds of the contention runs. prices: a list of prices; None for ours. has_baseline: the faults are
    run with `hudi`, too.
    Errors: ConfigError for a bad URI, lock, scenario or list of prices. If an error ends one store early, the page
    tells it.
    """
    for uri in dict.fromkeys(stores):
        require_objects(uri)
    listed = load_prices(prices or PRICES)
    spec = load_provider(provider)
    if not host_of(spec.stands_on).is_probed:
        kind = service_kind(spec.stands_on).title
        raise ConfigError(f"{spec.name} stands on {kind}; `lockref evaluate` asks stores of objects and tables")
    scenarios = [load_scenario(name) for name in faults]
    for scenario in scenarios:
        require_feasible(scenario, stands_on=spec.stands_on)
    console.step(f"running {spec.name} to learn which requests it sends")
    requests = learn_requests(spec)
    console.say(f"{spec.name} sends {requests.words} ({requests.how})", style="dim")
    baseline = load_provider(BASELINE) if has_baseline and spec.name != BASELINE else None
    questions = Questions(
        lock=spec, requests=requests, baseline=baseline, crowds=crowds, repeats=repeats, lasting_ns=for_ns,
        probing_ns=probe_ns, rounds=rounds, faults=scenarios, limits=limits,
    )  # fmt: skip
    about = _about(stores, provider, questions)
    with begin_run("evaluate", about) as folder:
        evaluated = _evaluated_stores(stores, folder, listed, questions)
        is_interrupted = Evaluation(console, questions).run(evaluated)
        parts = [store.facts(crowds=crowds, repeats=repeats) for store in evaluated]
        subjects = recorded_subjects(parts, folder.path)
        standings = [standing_of(part, found, most=max(crowds)) for part, found in zip(parts, subjects, strict=True)]
        advice = advise(standings, lock=spec.name, has_limits=bool(limits), lasting_ns=for_ns)
        code = INTERRUPTED if is_interrupted else code_of_advice(standings, advice, evaluated)
        document = {
            "format": FORMAT,
            "exit_code": code,
            "lock": _lock(spec, requests),
            "advice": advice.facts(),
            "required": list(limits),
            "provenance": about,
            "stores": parts,
        }
        compared = side_by_side(parts, subjects, folder.path)
        page = write_evaluation(document, standings, advice, folder.path, compared=compared)
        folder.describe(status="interrupted" if is_interrupted else "finished", exit_code=code)
    _tell(console, standings, advice, page, is_interrupted=is_interrupted, parts=parts, repeats=repeats)
    if console.as_json:
        console.document(document)
    return code


def code_of_advice(standings: Sequence[Standing], advice: Advice, evaluated: Sequence[EvaluatedStore]) -> int:
    """The exit code: 1 where the lock broke anywhere, 0 where a store is advised; else why none is.

    5: none was reached. 1 or 3: none can carry the lock, and some would let two clients in, or none would. 4: each
    store that can carry it misses a limit, or left clients waiting for ever. Otherwise what ended the stores, or 3.
    """
    if any(one.broke for one in standings):
        return VIOLATED
    if advice.take:
        return HELD
    reached = [(one, asked) for one, asked in zip(standings, evaluated, strict=True) if one.carries != NOT_REACHED]
    if not reached:
        return BackendUnavailable.exit_code
    able = [(one, asked) for one, asked in reached if one.carries != NO]
    if not able:
        return worst(code for _, asked in reached for code in asked.codes)
    if all(one.missed for one, _ in able) or any(_is_not_live(one) for one, _ in able):
        return NOT_LIVE_CODE
    return worst([INCONCLUSIVE, *(code for _, asked in able for code in asked.codes)])


def _is_not_live(one: Standing) -> bool:
    return NOT_LIVE in [crowd.word for crowd in one.crowds] + [struck.word for struck in one.struck]


def _evaluated_stores(
    stores: Sequence[str], folder: RunFolder, prices: Mapping[str, Price], questions: Questions
) -> list[EvaluatedStore]:
    """The stores, each once, before the first question: with name, price, and why it gets no run with faults."""
    names = _names(stores)
    without_baseline = "" if questions.baseline else "not asked"
    if questions.lock.name == BASELINE:
        without_baseline = "it is the lock itself"
    return [
        priced(
            EvaluatedStore(
                uri=store,
                name=names[store],
                folder=folder.part(f"store-{number}"),
                no_faults="" if questions.faults else "not asked",
                no_baseline=without_baseline,
            ),
            prices,
            stands_on=questions.lock.stands_on,
        )
        for number, store in enumerate(dict.fromkeys(stores), 1)
    ]


def _names(stores: Sequence[str]) -> dict[str, str]:
    """The name of each store: a server by its name, others by bucket and prefix, with the endpoint only where two
    would have one name."""
    short = {store: store if is_started_here(store) else _without_endpoint(store) for store in stores}
    shared = {name for name in short.values() if sum(other == name for other in short.values()) > 1}
    return {store: str(parse_store_uri(store)) if name in shared else name for store, name in short.items()}


def _without_endpoint(store: str) -> str:
    return str(parse_store_uri(store)).partition(" at ")[0]


def _lock(spec: ProviderSpec, requests: LockRequests) -> dict[str, Any]:
    return {
        "provider": spec.name,
        "stands_on": spec.stands_on,
        "sends": [kind.value for kind in requests.sent],
        "words": requests.words,
        "designs": list(requests.designs),
        "is_seen": requests.is_seen,
        "how": requests.how,
    }


def _about(stores: Sequence[str], provider: str, asked: Questions) -> dict[str, object]:
    """The provenance: what ran where, with which versions, on what machine, and how long clients held."""
    scenario = contention_of(max(asked.crowds))
    sdks = {}
    for name in _SDKS:
        try:
            sdks[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        **provenance({
            "stores": list(stores), "provider": provider, "contenders": list(asked.crowds), "repeats": asked.repeats,
            "for_ns": asked.lasting_ns, "probe_for_ns": asked.probing_ns,
            "faults": [each.name for each in asked.faults], "require": list(asked.limits),
        }),
        "sdks": sdks,
        "machine": {
            "host": platform.node(), "cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 1),
            "load_of": time.strftime("%H:%M:%SZ", time.gmtime()),
        },
        "hold": scenario.workload.hold.text,
        "validity": plain_duration(scenario.lock.validity.most),
    }  # fmt: skip


def _tell(
    console: Console,
    standings: Sequence[Standing],
    advice: Advice,
    page: Path,
    *,
    is_interrupted: bool,
    parts: Sequence[Mapping[str, Any]],
    repeats: int,
) -> None:
    """The first screen: what to do, the table of the stores, and why."""
    if is_interrupted:
        console.say("interrupted: the page tells what was measured until then", style="head")
        if repeats > 1:
            for part in parts:
                console.say(f"{part['store']}: {part['repeats']['run']} of {repeats} repeats were run to their end")
    console.say()
    for table in terminal_tables(standings, advice):
        console.say_table(table)
    console.say()
    console.say(advice.headline, style="good" if advice.take else "bad")
    for reason in advice.reasons:
        console.say(f"- {reason}")
    for note in advice.notes:
        console.say(note, style="dim")
    console.say(f"page      {page}")
