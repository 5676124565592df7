"""What holds for every test."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from reports.figures import plots, style
from scenarios.failures import failure_store
from tests.thoroughness import register_profiles

register_profiles()

# A shell starts what runs in its background with SIGINT ignored, and nohup its program with SIGHUP ignored. Every
# process that a test starts would inherit that, and tests of these signals would wait until their time is over.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Twelve thousand tests stay until the end: nothing of them is garbage, so no collector need look at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


MINIATURE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt"></svg>',
    b"\x89PNG\r\n\x1a\n",
)
"""What stands in for a picture that matplotlib draws, as SVG and as PNG."""


def undrawn(name: str, title: str, caption: str, alt: str, draw_on: object, **told: Any) -> plots.Figure:
    """A figure with its words and its table, as `plots.finish` makes it, and nothing drawn."""
    told.pop("height", None)
    told["notices"] = list(told.get("notices", ()))
    return plots.Figure(name, title, caption, alt, *MINIATURE, **told)


@pytest.fixture(autouse=True)
def short_of_what_few_ask(request: pytest.FixtureRequest) -> Iterator[None]:
    """Failures are shrunk in few runs, and plots are not drawn, but for tests with the mark `shrunk` or `drawn`.

    Both take most of the time of a command, and hardly a test asks how small a failure became or what a plot shows.
    What a test starts as a process of its own does both in full.
    """
    # Patches of its own: the test's `monkeypatch` would be the first fixture, and so be taken back after all others.
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("shrunk") is None:
            patch.setattr(failure_store, "SHRINK_RUNS_MAX", 4)
        if request.node.get_closest_marker("drawn") is None:
            patch.setattr(plots, "finish", undrawn)
            patch.setattr(style, "as_images", lambda _: MINIATURE)
        yield
