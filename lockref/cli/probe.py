"""`lockref probe`: can this store carry a lock, and a lock of which design?"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lockref.errors import BackendUnavailable, ConfigError

if TYPE_CHECKING:
    from lockref.cli.console import Console
    from scenarios.probe.stopped_node import Node


@click.command(name="probe")
@click.argument("stores", nargs=-1, required=True, metavar="URI|NAME...")
@click.option(
    "--endpoint", "endpoints", multiple=True, metavar="URL", help="Another endpoint of the store; repeatable."
)
@click.option(
    "--for", "lasting", default="25s", show_default=True, metavar="DURATION", help="About so long, per store."
)
@click.option("--rounds", type=click.IntRange(1, 10_000), default=300, show_default=True, help="Of each race at most.")
@click.option("--require", default="", metavar="LIST", help="Of create, cas, delete, fencing, or clauses such as C13.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the fingerprint, as JSON.")
@click.option("--markdown", type=click.Path(dir_okay=False, path_type=Path), help="Write it as Markdown.")
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), help="Write it as a page, in one HTML file.")
@click.option("--stop-node", default="", metavar="COMMAND", help="Stops a node of the store, for C17.")
@click.option("--start-node", default="", metavar="COMMAND", help="Starts it again.")
@click.option("--dry-run", is_flag=True, help="Tell how many requests it may take, and send none.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(
    ctx: click.Context,
    stores: tuple[str, ...],
    endpoints: tuple[str, ...],
    lasting: str,
    rounds: int,
    require: str,
    output: Path | None,
    markdown: Path | None,
    page: Path | None,
    stop_node: str,
    start_node: str,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Ask a store every question that a lock depends on, with small objects below a fresh prefix, which are removed.

    \b
    lockref probe 's3://bucket/prefix?endpoint=http://127.0.0.1:9000' --output store.json
    lockref probe gs://bucket --require cas,create
    lockref probe ministack

    Exit code 0: conforming or usable; 1: unsafe; 3: not answered; 5: it does not answer or refuses us. With --require:
    0 if all that is required was shown, 1 if something was refuted, 3 if something was not answered.
    """
    from lockref.cli.console import Console
    from lockref.cli.options import duration_ns
    from reports.formats import fingerprint as told
    from reports.formats.exit_codes import worst
    from scenarios.backends import require_objects
    from scenarios.probe import gate
    from scenarios.probe.stopped_node import node_of

    console = Console(ctx.obj, as_json=as_json)
    required, for_ns = gate.parse_required(require), duration_ns(lasting, "--for")
    if len(stores) > 1 and (endpoints or output or stop_node):
        raise ConfigError("--endpoint, --output and --stop-node are about one store; probe one after the other")
    node = node_of(stop_node, start_node)
    for store in stores:
        require_objects(store)
    if dry_run:
        return _dry_run(console, stores, endpoints, rounds, node)
    documents, codes = [], []
    for store in stores:
        document, code = probed(console, store, endpoints, for_ns=for_ns, rounds=rounds, required=required, node=node)
        documents.append(document)
        codes.append(code)
        if output is not None and document["requests"]:
            _written(console, output, told.as_json(document))
    if markdown is not None:
        _written(console, markdown, told.markdown(documents))
    if page is not None:
        from reports.html.fingerprint import page_of

        _written(console, page, page_of(documents))
    if as_json:
        console.document(documents[0] if len(documents) == 1 else told.several(documents))
    return worst(codes)


def probed(
    console: Console,
    store: str,
    endpoints: tuple[str, ...],
    *,
    for_ns: int,
    rounds: int,
    required: list[str],
    node: Node | None = None,
) -> tuple[dict[str, Any], int]:
    """Probe one store and tell of it: the fingerprint, and the exit code."""
    from reports.formats import fingerprint as told
    from scenarios.backends import is_started_here, start_backend
    from scenarios.probe import gate
    from scenarios.probe.fingerprint import document_of
    from scenarios.probe.opening import addresses_of
    from scenarios.probe.run import probe

    with contextlib.ExitStack() as stack:
        uri, name = store, ""
        if is_started_here(store):
            running = stack.enter_context(start_backend(store))
            uri, name = running.uri, f"{running.name} {running.version}"
        done = probe(addresses_of(uri, endpoints), for_ns=for_ns, rounds=rounds, node=node, progress=console.progress)
    document = document_of(done, name=name)
    code = gate.exit_code(document, required, is_gone=done.is_gone, is_interrupted=done.is_interrupted)
    if not done.is_reached and not console.as_json and code == BackendUnavailable.exit_code:
        raise BackendUnavailable(done.ended)
    for text, style in told.terminal_lines(document):
        console.say(text, style=style)
    refuted, open_ = gate.unmet(document, required)
    for text in refuted:
        console.say(f"required, and not so: {text}", style="bad")
    for text in open_:
        console.say(f"required, and not answered: {text}", style="bad")
    return document, code


def _dry_run(
    console: Console, stores: tuple[str, ...], endpoints: tuple[str, ...], rounds: int, node: Node | None
) -> int:
    from scenarios.backends import is_started_here
    from scenarios.probe.opening import addresses_of
    from scenarios.probe.steps import most_requests

    most: dict[str, dict[str, int]] = {}
    for store in stores:
        count = 1 if is_started_here(store) else len(addresses_of(store, endpoints))
        most[store] = most_requests(count, rounds=rounds, node=node)
        console.say(f"{store}: at most {sum(most[store].values()):,} requests, second tries included; then cleaning up")
        for clause, number in most[store].items():
            console.say(f"  {clause:<4} {number:>7,}")
    if console.as_json:
        console.document({"requests_max": {store: sum(each.values()) for store, each in most.items()}, "clauses": most})
    return 0


def _written(console: Console, path: Path, content: str) -> None:
    from lockref.atomic_files import write_atomically

    console.say(f"written {write_atomically(path, content)}", style="dim")
