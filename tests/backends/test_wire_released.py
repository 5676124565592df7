"""Released programs with locks of their own, unmodified, on the wire: what each does is as docs/findings.md tells."""

from __future__ import annotations

import shutil

import pytest

from lockref.errors import BackendUnavailable
from tests.evidence.wire.experiments import EXPERIMENTS, show

pytestmark = [pytest.mark.long, pytest.mark.realbackend, pytest.mark.timeout(1800)]
NEEDS_GO = ("opentofu", "litestream")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xdist_group(name.split("-")[0])) for name in EXPERIMENTS]
)
def test_a_released_lock_does_what_the_findings_say(name, tmp_path):
    """The clauses that break are those that are expected, and no other."""
    experiment = EXPERIMENTS[name]
    if name.startswith(NEEDS_GO) and shutil.which("go") is None:
        pytest.skip("built with Go, which is not here")
    try:
        shown = show(experiment, tmp_path)
    except BackendUnavailable as error:
        pytest.skip(str(error))
    assert shown.is_expected, (shown.broken, shown.reasons, shown.outcome.notices)
