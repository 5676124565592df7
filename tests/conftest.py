"""What holds for every test."""

from __future__ import annotations

import signal

from hypothesis import settings

# No test waits on wall time: on a busy machine an example takes longer than Hypothesis' 200 ms.
settings.register_profile("lockref", deadline=None)
settings.load_profile("lockref")

# A shell starts what runs in its background with SIGINT ignored, and every process that a test starts would inherit
# that: tests of Ctrl-C would wait until their time is over.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
