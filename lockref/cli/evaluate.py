"""`lockref evaluate`: what an architect asks of a store before a lock is put on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lockref.errors import INTERRUPTED, BackendUnavailable, LockrefError

if TYPE_CHECKING:
    from lockref.cli.console import Console
    from lockref.lab.loading import ProviderSpec
    from reports.formats.results import Results
    from scenarios.definition.schema import Scenario
    from scenarios.runs import RunFolder

CROWDS = "1,8,64,256"
FAULTS = ("e11", "e12", "e13", "e14", "e15", "e16", "e17")


@click.command(name="evaluate")
@click.argument("stores", nargs=-1, required=True, metavar="URI|NAME...")
@click.option("--provider", "-p", default="hardened", show_default=True, help="A name, module:Class or file.py:Class.")
@click.option("--contenders", "crowds", default=CROWDS, show_default=True, metavar="LIST", help="One run for each.")
@click.option("--for", "lasting", default="20s", show_default=True, metavar="DURATION", help="Of each such run.")
@click.option("--probe-for", "probing", default="25s", show_default=True, metavar="DURATION", help="Of the probe.")
@click.option("--rounds", type=click.IntRange(1, 10_000), default=300, show_default=True, help="Of each race at most.")
@click.option("--faults", "faults", multiple=True, default=FAULTS, metavar="SCENARIO", help="Default e11 to e17.")
@click.option("--no-faults", is_flag=True, help="Leave the faults on the wire out.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(
    ctx: click.Context,
    stores: tuple[str, ...],
    provider: str,
    crowds: str,
    lasting: str,
    probing: str,
    rounds: int,
    faults: tuple[str, ...],
    no_faults: bool,
    as_json: bool,
) -> int:
    """Probe each store, contend on it with more and more clients, strike its wire with faults, and write one page.

    \b
    lockref evaluate 's3://bucket/prefix?endpoint=http://127.0.0.1:9000'
    lockref evaluate ministack moto --contenders 1,64 --for 10s --no-faults

    It takes about five minutes per store. A store that proves unsafe is not contended on. Several stores are compared
    with the first. The exit code is the worst that was seen, as of `probe` and `bench`.
    """
    from lockref.cli.console import Console
    from lockref.cli.options import duration_ns, whole_numbers
    from lockref.cli.results import begin_run
    from lockref.lab.loading import load_provider
    from reports.formats.exit_codes import worst
    from reports.html.evaluation import side_by_side, write_evaluation
    from scenarios.backends import require_objects
    from scenarios.definition.load import load_scenario
    from scenarios.runs import provenance

    console = Console(ctx.obj, as_json=as_json)
    for store in stores:
        require_objects(store)
    asked = Asked(
        load_provider(provider),
        whole_numbers(crowds, "--contenders"),
        duration_ns(lasting, "--for"),
        duration_ns(probing, "--probe-for"),
        rounds,
        [] if no_faults else [load_scenario(name) for name in faults],
        console,
    )
    evaluated, codes = [], []
    with begin_run("evaluate", provenance({"stores": list(stores), "provider": provider})) as folder:
        for number, store in enumerate(stores, 1):
            found, code = asked.of(store, folder.part(f"store-{number}"))
            evaluated.append(found)
            codes.append(code)
            if code == INTERRUPTED:
                break
        page = write_evaluation(evaluated, folder.path, compared=side_by_side(evaluated, folder.path))
        code = worst(codes)
        folder.describe(status="finished", exit_code=code)
    if as_json:
        console.document({"format": "lockref.evaluation/1", "exit_code": code, "stores": evaluated})
    console.say(f"page      {page}")
    return code


class Asked:
    """What is asked of every store alike."""

    def __init__(
        self,
        spec: ProviderSpec,
        crowds: list[int],
        lasting_ns: int,
        probing_ns: int,
        rounds: int,
        faults: list[Scenario],
        console: Console,
    ) -> None:
        self._spec = spec
        self._crowds = crowds
        self._lasting_ns = lasting_ns
        self._probing_ns = probing_ns
        self._rounds = rounds
        self._faults = faults
        self._console = console

    def of(self, store: str, folder: RunFolder) -> tuple[dict[str, Any], int]:
        """One store: what was found, for the page, and its exit code. What ends it early is told, and the rest kept."""
        from reports.formats.exit_codes import worst
        from reports.html.evaluation import told
        from scenarios.worlds.contention import contention_of

        self._console.say(f"\n{store}", style="head")
        found: dict[str, Any] = {"store": store, "probe": None, "contention": [], "faults": [], "ended": ""}
        found["asks_faults"] = bool(self._faults)
        codes = []
        try:
            found["probe"], code = self._probed(store, folder)
            codes.append(code)
            if found["probe"]["verdict"] == "unsafe":
                found["ended"] = "the probe found the store unsafe: no lock was put on it"
                return found, code
            if code == INTERRUPTED:
                found["ended"] = "interrupted"
                return found, code
            for crowd in self._crowds:
                results = self._contended(store, contention_of(crowd), folder.part(f"contenders-{crowd}"), crowd)
                found["contention"].append({"contenders": crowd, **told(results)})
                codes.append(_code(results))
            for scenario in self._faults:
                results = self._contended(store, scenario, folder.part(scenario.name), None)
                found["faults"].append({"scenario": scenario.name, "about": scenario.about, **told(results)})
                codes.append(_code(results))
        except LockrefError as error:
            found["ended"] = str(error)
            codes.append(error.exit_code)
        return found, worst(codes)

    def _probed(self, store: str, folder: RunFolder) -> tuple[dict[str, Any], int]:
        from lockref.atomic_files import write_atomically
        from lockref.cli.probe import probed
        from reports.formats import fingerprint as told
        from reports.html.fingerprint import page_of

        document, code = probed(self._console, store, (), for_ns=self._probing_ns, rounds=self._rounds, required=[])
        write_atomically(folder.path / "fingerprint.json", told.as_json(document))
        write_atomically(folder.path / "fingerprint.html", page_of([document]))
        return document, code

    def _contended(self, store: str, scenario: Scenario, folder: RunFolder, crowd: int | None) -> Results:
        from lockref.cli.results import contention_results
        from scenarios.runs import provenance
        from scenarios.worlds.contention import contend_on

        done = contend_on(
            store,
            scenario,
            self._spec,
            clients=crowd,
            duration_ns=None if crowd is None else self._lasting_ns,
            folder=folder.path,
            progress=self._console.step,
        )
        about = provenance({"scenario": scenario.name, "provider": self._spec.name, "backends": [store]})
        results = contention_results(self._console, done, folder, about=about)
        if done.outcome.lost:
            raise BackendUnavailable(str(done.outcome.lost[0]))
        return results


def _code(results: Results) -> int:
    from reports.formats.exit_codes import code_of

    return code_of([results], ())
