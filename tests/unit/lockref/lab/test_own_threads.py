"""A lock whose frames belong to threads, which is set up once in a process, and which does not take every setting."""

from __future__ import annotations

import pickle
import threading

import pytest

from lockref.errors import CapabilityMissing, ConfigError
from lockref.lab.loading import load_provider, provider_from
from lockref.provider import LockContext, LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.lock import StorageLock
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.definition.mixture import inapplicable
from scenarios.worlds.simulated import run_simulated

happened: list[str] = []


class OfThreads(StorageLock):
    """Stands for a lock in another machine's frames."""

    needs_threads = True

    @staticmethod
    def set_up() -> None:
        happened.append("set up")

    @staticmethod
    def refuses(settings: LockSettings) -> str:
        return "it counts whole seconds" if settings.validity_ns % NS_PER_S else ""

    def holds(self) -> bool:
        happened.append(threading.current_thread().name)
        return super().holds()


class Unavailable(OfThreads):
    @staticmethod
    def set_up() -> None:
        raise CapabilityMissing("no other machine here")


@pytest.fixture(autouse=True)
def _nothing_happened() -> None:
    happened.clear()


def test_its_tasks_have_threads_of_their_own_and_the_history_of_greenlets() -> None:
    """Only the carrier differs, so what is known of the lock on greenlets holds here."""
    spec = provider_from(OfThreads, name="hardened")
    run = run_simulated(load_scenario("e01"), spec, 1)
    assert happened[0] == "set up", "before anything of the run"
    assert any(name.startswith("gated ") for name in happened[1:])
    assert run.digest == run_simulated(load_scenario("e01"), load_provider("hardened"), 1).digest


def test_one_client_of_many_that_needs_threads_gives_all_of_them_threads() -> None:
    home = f"{__name__}:OfThreads"
    scenario = parse_scenario(f"version: 1\nname: mixed\nclients: 2\nduration: 5s\nproviders: {{n2: '{home}'}}\n")
    run_simulated(scenario, load_provider("hardened"), 1)
    assert happened[0] == "set up"
    assert any(name.startswith("gated n2/") for name in happened)


def test_what_it_lacks_is_told_before_a_run() -> None:
    with pytest.raises(CapabilityMissing, match="no other machine here"):
        run_simulated(load_scenario("e01"), provider_from(Unavailable, name="away"), 1)


def test_a_scenario_with_settings_that_it_refuses_does_not_apply() -> None:
    spec = pickle.loads(pickle.dumps(provider_from(OfThreads, name="whole")))
    text = "version: 1\nname: x\nclients: 2\nlock: {{validity: {}, renew_every: 300ms}}\n{}"
    assert inapplicable(parse_scenario(text.format("3s", "")), spec) == ""
    assert inapplicable(parse_scenario(text.format("3500ms", "")), spec) == "it counts whole seconds"
    beside = text.format("3500ms", f"providers: {{n2: '{__name__}:OfThreads'}}\n")
    hardened = load_provider("hardened")
    assert inapplicable(parse_scenario(beside), hardened).endswith("OfThreads: it counts whole seconds")


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        (LockSettings(), ""),
        (LockSettings(renew_interval_ns=300 * NS_PER_MS), "whole seconds, and the renew interval is 300 ms"),
        (LockSettings(validity_ns=10_500 * NS_PER_MS), "whole seconds, and the validity is 10.5 s"),
        (LockSettings(validity_ns=9 * NS_PER_S, unsafe=True), "Hudi refuses these settings: "),
    ],
)
def test_hudis_own_class_takes_what_hudi_takes(settings: LockSettings, refusal: str) -> None:
    """Also where a scenario asks for an unsafe timing: Hudi's constructor would refuse it at each attempt."""
    spec = load_provider("hudi-jvm")
    assert spec.refuses is not None
    told = spec.refuses(settings)
    assert refusal in told
    assert bool(told) is bool(refusal)
    if refusal:
        context = LockContext(runtime=None, open_store=lambda _: None, settings=settings)  # type: ignore[arg-type,return-value]
        with pytest.raises(ConfigError, match=refusal[:20]):
            spec.factory(context)


def test_without_java_hudis_own_class_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run begins, and the exit code is that of a missing part of the machine."""
    pytest.importorskip("jpype")
    monkeypatch.setenv("LOCKREF_JAVA", "none")
    spec = load_provider("hudi-jvm")
    assert (spec.needs_threads, spec.needs_real_time, spec.record_format) == (True, False, "rfc91")
    with pytest.raises(CapabilityMissing, match="LOCKREF_JAVA=none hides every Java") as raised:
        run_simulated(load_scenario("e01"), spec, 1)
    assert raised.value.exit_code == 5
