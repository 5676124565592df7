"""Released programs with locks of their own, unmodified, on the wire: what each does is as docs/findings.md tells."""

from __future__ import annotations

import shutil

import pytest

from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_S
from reports.checks.facts.surroundings.host import lateness_text
from tests.evidence.wire.experiments import EXPERIMENTS, show

pytestmark = [pytest.mark.long, pytest.mark.realbackend, pytest.mark.timeout(1800)]
NEEDS_GO = ("opentofu", "litestream")
LATE_NS = NS_PER_S // 2
"""Leases of these programs are short, and most have no token. On a machine that is later, a former holder's write may
land after the next grant, which says nothing of the finding."""


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
    late_ns = shown.outcome.summary.host_late_ns
    if not shown.is_expected and late_ns > LATE_NS:
        pytest.skip(f"{lateness_text(late_ns)}: {', '.join(shown.broken) or 'nothing'} broke")
    assert shown.is_expected, (shown.broken, shown.reasons, shown.outcome.notices)
