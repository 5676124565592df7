"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# No test waits on wall time: on a busy machine an example takes longer than Hypothesis' 200 ms.
settings.register_profile("lockref", deadline=None)
settings.load_profile("lockref")
