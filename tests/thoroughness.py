"""How many examples Hypothesis draws in a run of the tests: a quarter in `make test`, all with the profile `thorough`.

`pytest --hypothesis-profile thorough tests/properties` draws all; `make test-all` does that.
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings

ALL: Final = 400
"""`max_examples` of the profile `thorough`, to which the number of another profile is compared."""

QUARTER: Final = ALL // 4


def register_profiles() -> None:
    """Make both profiles known and load the short one. Pytest's option loads the other before it imports the tests."""
    # No test waits on wall time: on a busy machine an example takes longer than Hypothesis' 200 ms.
    settings.register_profile("lockref", deadline=None, max_examples=QUARTER)
    settings.register_profile("thorough", deadline=None, max_examples=ALL)
    settings.load_profile("lockref")


def examples(most: int) -> int:
    """The share of `most` examples that this run of the tests draws."""
    return most * settings.default.max_examples // ALL
