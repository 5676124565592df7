"""Probe stores one after the other, tell the results, and write the fingerprints."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockref.atomic_files import write_atomically
from lockref.cli.jobs.shown.console import rest_in_words
from lockref.errors import BackendUnavailable, ConfigError
from lockref.runtime import ThreadRuntime
from lockref.services import DEFAULT_KIND
from reports.formats.exit_codes import worst
from scenarios.backends import is_started_here, require_objects, start_backend
from scenarios.backends.hosts import host_of
from scenarios.probe import gate
from scenarios.probe.opening import addresses_of
from scenarios.probe.questions.stopped_node import node_of
from scenarios.probe.run import probe
from scenarios.probe.steps import most_requests

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from lockref.stores.probe.fingerprint import Fingerprint
    from scenarios.probe.questions.stopped_node import Node


def probe_stores(
    console: Console,
    stores: Sequence[str],
    *,
    endpoints: Sequence[str],
    for_ns: int,
    rounds: int,
    require: str,
    output: Path | None,
    markdown: Path | None,
    page: Path | None,
    stop_node: str,
    start_node: str,
    dry_run: bool,
) -> int:
    """Probe each store and tell the results. Returns the worst exit code.

    endpoints: further endpoints of the only store. for_ns: approximate duration for each store. rounds: of each race,
    at most. require: designs and clauses. output, markdown, page: files to write. stop_node, start_node: commands, for
    C17. dry_run: tell the greatest number of requests, and send none.
    Errors: ConfigError for a bad URI or combination; BackendUnavailable for a store that was never reached.
    """
    required = gate.parse_required(require)
    if len(stores) > 1 and (endpoints or output or stop_node):
        raise ConfigError("--endpoint, --output and --stop-node are about one store; probe one after the other")
    node = node_of(stop_node, start_node)
    for store in stores:
        require_objects(store)
    if dry_run:
        return _dry_run(console, stores, endpoints, rounds, node)
    fingerprints, codes = [], []
    for store in stores:
        found, code = probe_and_tell(
            console, store, endpoints, for_ns=for_ns, rounds=rounds, required=required, node=node
        )
        fingerprints.append(found)
        codes.append(code)
        if output is not None and found.requests:
            _write_json(console, output, found)
    from reports.formats import fingerprint as told  # See `probe_and_tell`.

    if markdown is not None:
        _write(console, markdown, told.markdown(fingerprints))
    if page is not None:
        from reports.html.fingerprint import page_of  # Its templates would delay the first request.

        _write(console, page, page_of(fingerprints))
    if console.as_json:
        console.document(fingerprints[0].document() if len(fingerprints) == 1 else told.several(fingerprints))
    return worst(codes)


def probe_and_tell(
    console: Console,
    store: str,
    endpoints: Sequence[str],
    *,
    for_ns: int,
    rounds: int,
    required: Sequence[str],
    node: Node | None = None,
    latency_cycles: int = 0,
    is_told: bool = True,
    stands_on: str = DEFAULT_KIND,
    progress: Callable[[str], None] | None = None,
) -> tuple[Fingerprint, int]:
    """Probe one store and tell of it: the fingerprint, and the exit code.

    latency_cycles: as for `probe`. is_told: False where the caller tells of it, and raises nothing for a store that was
    never reached. stands_on: the kind of service to ask of a server of ours that has objects and tables. progress: told
    each step, in the place of the console.
    Errors: CapabilityMissing for a server without that kind.
    """
    with contextlib.ExitStack() as stack:
        uri, name = store, ""
        if is_started_here(store):
            (progress or console.step)(f"starting {store} (the first start on a machine installs it)")
            running = stack.enter_context(start_backend(store))
            uri = host_of(stands_on).address(running)
            name = f"{running.name} {running.version}"
        clock = ThreadRuntime()
        end_ns = clock.monotonic_ns() + for_ns

        def tell(step: str) -> None:
            if progress is not None:
                progress(step)
                return
            console.progress(f"{step}; at most {rest_in_words(end_ns - clock.monotonic_ns()).removeprefix('about ')}")

        done = probe(
            addresses_of(uri, endpoints), for_ns=for_ns, rounds=rounds, node=node,
            latency_cycles=latency_cycles, progress=tell,
        )  # fmt: skip
    # The form of a fingerprint is checked by pydantic, which would delay the first request.
    from reports.formats import fingerprint as told
    from scenarios.probe.fingerprint import fingerprint_of

    found = fingerprint_of(done, name=name)
    code = gate.exit_code(found, required, is_gone=done.is_gone, is_interrupted=done.is_interrupted)
    if not is_told:
        return found, code
    if not done.is_reached and not console.as_json and code == BackendUnavailable.exit_code:
        raise BackendUnavailable(done.ended)
    for text, style in told.terminal_lines(found):
        console.say(text, style=style)
    refuted, open_ = gate.unmet(found, required)
    for text in refuted:
        console.say(f"required, and not so: {text}", style="bad")
    for text in open_:
        console.say(f"required, and not answered: {text}", style="bad")
    return found, code


def _dry_run(console: Console, stores: Sequence[str], endpoints: Sequence[str], rounds: int, node: Node | None) -> int:
    most: dict[str, dict[str, int]] = {}
    for store in stores:
        count = 1 if is_started_here(store) else len(addresses_of(store, endpoints))
        most[store] = most_requests(count, rounds=rounds, node=node)
        console.say(
            f"{store} takes at most {sum(most[store].values()):,} requests, second tries included; then cleaning up"
        )
        for clause, number in most[store].items():
            console.say(f"  {clause:<4} {number:>7,}")
    if console.as_json:
        console.document({"requests_max": {store: sum(each.values()) for store, each in most.items()}, "clauses": most})
    return 0


def _write_json(console: Console, path: Path, found: Fingerprint) -> None:
    from reports.formats.fingerprint import as_json  # See `probe_and_tell`.

    _write(console, path, as_json(found))


def _write(console: Console, path: Path, content: str) -> None:
    console.say(f"written {write_atomically(path, content)}", style="dim")
