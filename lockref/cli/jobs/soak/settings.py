"""The settings of a soak as they stand in `run.json`, so that a soak that was cut short goes on with the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from lockref.clouds.admission import Admission
from lockref.errors import ConfigError
from lockref.lab.loading import load_provider
from scenarios.backends import require_known
from scenarios.definition.load import load_scenario
from scenarios.runs import open_run, run_json, status_of
from scenarios.soak.running import SoakSettings, soak_scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The settings as the user gave them, by the options of the command. lasting_ns, every_ns: nanoseconds."""

    scenario: str | None
    backend: str
    provider: str
    lasting_ns: int
    clients: int | None
    processes: int | None
    faults: str | None
    every_ns: int
    seed: int
    via: str
    unsafe_store: bool

    def told(self) -> dict[str, object]:
        """For `run.json`."""
        return asdict(self)

    def settings(self) -> SoakSettings:
        """The settings of each stretch. Raises ConfigError for what is not known, before any server is started."""
        require_known(self.backend)
        return SoakSettings(
            backend=self.backend,
            scenario=soak_scenario(self.scenario),
            spec=load_provider(self.provider),
            clients=self.clients,
            processes=self.processes,
            faults=None if self.faults is None else load_scenario(self.faults),
            every_ns=self.every_ns,
            seed=self.seed,
            via=self.via,
            admission=Admission.by(None, allows_unsafe=self.unsafe_store),
        )


def asked_before(name: str) -> tuple[Path, Asked, dict[str, Any]]:
    """The folder of a soak that was cut short, what was asked for, and its `run.json`.

    name: of a run, its folder, or `latest`. Raises ConfigError for a run that is no soak, goes on, or came to its end.
    """
    folder = open_run(name).path
    about = run_json(folder)
    arguments = about.get("arguments")
    kinds = {name: get_args(kind) or (kind,) for name, kind in get_type_hints(Asked).items()}
    if (
        not isinstance(arguments, Mapping)
        or set(arguments) != set(kinds)
        or not all(type(arguments[name]) in allowed for name, allowed in kinds.items())
        or "-soak" not in folder.name
    ):
        raise ConfigError(f"--resume {name}: {folder / 'run.json'} is not that of a soak")
    status = status_of(folder)
    if status == "running":
        raise ConfigError(f"--resume {name}: this soak goes on (its process is {about.get('pid')})")
    if status == "finished":
        raise ConfigError(f"--resume {name}: this soak came to its end; begin another one")
    return folder, Asked(**arguments), about
