"""Environments of servers: built once, whole or again, by one process at a time."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import sys
import threading
from pathlib import Path

import pytest

from lockref.clouds.uri import CLOUDS
from lockref.errors import BackendUnavailable, CapabilityMissing
from lockref.extras import EXTRAS
from scenarios.backends import environments
from scenarios.backends.environments import (
    Interpreter,
    choose_native,
    ensure_environment,
    find_python,
    is_built,
    lock_file,
)
from scenarios.backends.further import FURTHER
from scenarios.backends.pins import BACKENDS, LISTS, Backend, Image, Launch, Native, NodeNative
from scenarios.backends.start import start_backend
from scenarios.wire.plan import FAKETIME, FAKETIME_PACKAGES

HERE = (sys.version_info[0], sys.version_info[1])


def _native(version: str, python_min: tuple[int, int]) -> Native:
    return Native(
        version=version, requirements=(f"x=={version}",), python_min=python_min, launch=lambda *_: Launch(argv=())
    )


def _backend(*natives: Native) -> Backend:
    return Backend(
        name="fake",
        description="",
        scheme="s3",
        natives=natives or (_native("1", (3, 10)),),
        image=Image(version="1", reference="fake:1", port=1),
        caution="",
    )


def _write_locks(monkeypatch, folder: Path) -> None:
    """Lists of packages for the made-up backends: what they hold is their version."""

    def lock_file(_backend, native):
        path = folder / f"{native.version}.txt"
        # Whole or not at all: builders in other threads read it to name their folder.
        draft = folder / f"{native.version}.{threading.get_ident()}"
        draft.write_text(native.version)
        return draft.replace(path)

    monkeypatch.setattr(environments, "lock_file", lock_file)


@pytest.fixture
def steps(monkeypatch, tmp_path):
    """The install steps that would be run, in a cache of the test's own."""
    taken = []

    def run(_backend, step):
        taken.append(step)
        if "venv" in step:
            (Path(step[-1]) / "bin").mkdir(parents=True)

    monkeypatch.setenv("LOCKREF_CACHE", str(tmp_path))
    _write_locks(monkeypatch, tmp_path)
    monkeypatch.setattr(environments, "_run", run)
    return taken


@pytest.fixture
def ours():
    return Interpreter(path=sys.executable, version=HERE)


def test_an_environment_is_built_once_and_marked_when_whole(steps, ours):
    """The second call installs nothing; the marker says what went in."""
    backend = _backend()
    (native,) = backend.natives
    assert not is_built(backend, native, ours)
    folder = ensure_environment(backend, native, ours)
    assert ensure_environment(backend, native, ours) == folder
    assert is_built(backend, native, ours)
    assert len(steps) == 2
    assert "--require-hashes" in steps[1]
    assert Path(steps[1][-1]).read_text() == "1"
    assert json.loads((folder.parent / "complete.json").read_text())["requirements"] == ["x==1"]


def test_a_build_that_was_cut_short_is_made_anew(steps, ours, monkeypatch):
    """Without its marker an environment is no environment, however full its folder."""
    backend = _backend()
    (native,) = backend.natives
    whole = environments._run

    def fail_at_install(backend, step):
        whole(backend, step)
        if "install" in step:
            raise BackendUnavailable("cut")

    monkeypatch.setattr(environments, "_run", fail_at_install)
    with pytest.raises(BackendUnavailable, match="cut"):
        ensure_environment(backend, native, ours)
    assert not is_built(backend, native, ours)
    monkeypatch.setattr(environments, "_run", whole)
    ensure_environment(backend, native, ours)
    assert is_built(backend, native, ours)


def test_builders_of_one_environment_wait_for_each_other(steps, ours, monkeypatch):
    """Workers of a parallel test run ask at the same time, and it is built once."""
    backend = _backend()
    (native,) = backend.natives
    inside, whole = threading.Barrier(2), environments._run
    met = []

    def run(backend, step):
        # Two builders at once would meet here; a single one finds nobody and goes on.
        with contextlib.suppress(threading.BrokenBarrierError):
            inside.wait(0.3)
            met.append(step)
        whole(backend, step)

    monkeypatch.setattr(environments, "_run", run)
    threads = [threading.Thread(target=ensure_environment, args=(backend, native, ours)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert met == []
    assert len(steps) == 2


def test_other_pins_or_another_python_are_another_environment(steps, ours):
    """A changed pin never reuses what an old one built."""
    folders = {
        ensure_environment(backend, backend.natives[0], interpreter)
        for backend in (_backend(_native("1", (3, 10))), _backend(_native("2", (3, 10))))
        for interpreter in (ours, Interpreter(path="/other/python", version=(3, 99)))
    }
    assert len(folders) == 4


def test_without_uv_the_environment_is_made_by_venv_and_pip(steps, ours, monkeypatch):
    """uv is quicker, but nobody has to have it."""
    monkeypatch.setattr(environments, "find_uv", lambda: None)
    backend = _backend()
    ensure_environment(backend, backend.natives[0], ours)
    assert steps[0][:3] == [sys.executable, "-m", "venv"]
    assert steps[1][1:4] == ["-m", "pip", "install"]


def test_an_installer_that_fails_shows_its_last_lines():
    """The command and what it said, so that the reader can repeat it."""
    with pytest.raises(BackendUnavailable) as caught:
        environments._run(_backend(), [sys.executable, "-c", "print('no such package'); raise SystemExit(1)"])
    assert "no such package" in str(caught.value)
    assert "installing fake failed" in str(caught.value)


def test_a_cache_that_cannot_be_written_says_how_to_choose_another(monkeypatch, tmp_path, ours):
    """The way out is in the message."""
    (tmp_path / "file").write_text("")
    _write_locks(monkeypatch, tmp_path)
    monkeypatch.setenv("LOCKREF_CACHE", str(tmp_path / "file"))
    with pytest.raises(BackendUnavailable, match="LOCKREF_CACHE"):
        ensure_environment(_backend(), _backend().natives[0], ours)


def test_the_first_native_whose_python_is_found_is_chosen(monkeypatch):
    """A newer server where its Python is there, the older one where it is not."""
    monkeypatch.setattr(environments, "_candidates", lambda: iter(()))
    newer, older = _native("2", (HERE[0], HERE[1] + 1)), _native("1", HERE)
    assert choose_native(_backend(newer, older))[0] is older
    with pytest.raises(BackendUnavailable, match="none was found"):
        choose_native(_backend(newer))


def test_a_python_counts_only_if_it_runs(monkeypatch, tmp_path):
    """A pyenv shim is on PATH and fails: it is passed over for one that answers."""
    broken = tmp_path / "python3.13"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    newer = tmp_path / "python3.12"
    newer.write_text(f"#!/bin/sh\necho {HERE[0]} {HERE[1] + 1}\n")
    newer.chmod(0o755)
    monkeypatch.setattr(environments, "_candidates", lambda: iter([str(broken), "/no/such/python", str(newer)]))
    found = find_python((HERE[0], HERE[1] + 1))
    assert found == Interpreter(path=str(newer), version=(HERE[0], HERE[1] + 1))


def test_every_pin_has_its_list_of_packages_with_digests():
    """After a change to the pins: `python -m tests.evidence.relock`."""
    for backend in BACKENDS.values():
        for native in backend.natives:
            if isinstance(native, NodeNative):
                continue
            lines = environments.lock_file(backend, native).read_text().splitlines()
            pinned, _, version = native.requirements[0].partition("==")
            name = pinned.partition("[")[0]
            assert any(
                re.match(rf"{re.escape(name)}(\[[a-z0-9,-]+\])?=={re.escape(version)}\b", line) for line in lines
            )
            packages = [line for line in lines if line[:1].isalnum()]
            assert packages
            assert sum("--hash=sha256:" in line for line in lines) >= len(packages)
            assert not any("://" in line for line in lines)


def test_each_list_that_is_installed_is_that_of_a_server():
    """The lists of other people's locks are evidence, and stand in tests/."""
    natives = [(server, native) for server in (*BACKENDS.values(), *FURTHER.values()) for native in server.natives]
    used = {environments.lock_file(*each) for each in (*natives, (FAKETIME, FAKETIME_PACKAGES))}
    assert {path for path in LISTS.iterdir() if path.is_file()} == used


def test_every_package_of_npm_is_listed_with_a_digest_and_no_address():
    """npm asks the registry of its user; what it gets must be what was listed."""
    for backend in BACKENDS.values():
        for native in backend.natives:
            if not isinstance(native, NodeNative):
                continue
            text = environments.lock_file(backend, native).read_text(encoding="utf-8")
            root, *packages = json.loads(text)["packages"].values()
            assert [f"{name}@{version}" for name, version in root["dependencies"].items()] == [*native.requirements]
            assert packages
            assert all(package["integrity"].startswith("sha512-") for package in packages)
            assert "://" not in text


def test_an_environment_of_node_is_laid_out_and_installed_from_its_list(steps, monkeypatch):
    """`npm ci` takes the listed packages only, runs no script of theirs, and finds Node where a Python would be."""
    backend = BACKENDS["dynalite"]
    (native,) = backend.natives
    node = Interpreter(path=sys.executable, version=(20, 0), language="Node")
    monkeypatch.setattr(environments, "lock_file", lock_file)
    programs = ensure_environment(backend, native, node)
    assert (programs / "node").resolve() == Path(sys.executable).resolve()
    [step] = steps
    assert step[:2] == ["npm", "ci"]
    assert "--ignore-scripts" in step
    assert json.loads((programs.parent / "package.json").read_text())["dependencies"] == {"dynalite": "4.0.0"}
    assert json.loads((programs.parent / "complete.json").read_text())["requirements"] == ["dynalite@4.0.0"]


def test_every_backend_of_the_table_is_pinned_and_described():
    """A pin without an exact version, or an entry without words, would show in no other test."""
    for name, backend in BACKENDS.items():
        assert backend.name == name
        assert backend.description
        assert backend.caution
        assert backend.needs.startswith(("Python 3.", "Node "))
        assert backend.image is None or backend.image.reference.endswith(backend.image.version)
        for native in backend.natives:
            assert re.search("(==|@)[0-9]", native.requirements[0])
            assert native.requirements[0] in backend.install or native is not backend.natives[0]


def test_localstack_in_a_container_is_told_what_it_is_told_natively():
    """Neither reports its use, downloads a certificate, or starts more than is asked for."""
    image = BACKENDS["localstack"].image
    told = image.launch(4566).env
    assert told["DISABLE_EVENTS"] == "1"
    native = BACKENDS["localstack"].natives[0].launch(Path("bin"), 4566, Path("data")).env
    assert told.items() <= native.items()


def test_a_missing_client_is_told_before_its_server_is_installed(monkeypatch):
    """The extra is named at once, and not after minutes of installing a server that nothing here could use."""
    monkeypatch.setattr("lockref.extras._is_there", lambda _module: False)
    monkeypatch.setattr("scenarios.backends.start.choose_native", lambda _backend: pytest.fail("it was installed"))
    for name, backend in BACKENDS.items():
        with pytest.raises(CapabilityMissing, match=r"need [a-z0-9.]+, which is not installed: pip install 'lockref\["):
            start_backend(name).__enter__()
        assert CLOUDS[backend.scheme].name in EXTRAS, "each server has a client of an extra"


def test_an_installed_list_is_compressed_and_says_the_same(monkeypatch, tmp_path):
    """The wheel holds `NAME.gz` in the place of `NAME`: an environment is named after what stands in it, not how."""
    backend = _backend(_native("1", (3, 10)))
    plain = tmp_path / "1.txt"
    monkeypatch.setattr(environments, "lock_file", lambda *_: plain)
    plain.with_name("1.txt.gz").write_bytes(gzip.compress(b"moto==1 --hash=sha256:0"))
    assert environments.package_list(backend, backend.natives[0]) == b"moto==1 --hash=sha256:0"
    plain.write_bytes(b"plain")
    assert environments.package_list(backend, backend.natives[0]) == b"plain"
