"""Random lock-object bodies: JSON that is nearly right, and bytes that are nearly JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lockref.storage.lockfile import LockFile, parse_strictly_as_hudi

_NUMBERS = st.one_of(
    st.integers(-(2**64), 2**64).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?[0-9]{1,4}(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
)
_TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=6).map(lambda text: json.dumps(text)),
    st.sampled_from(["true", "TRUE", "False", "12", " 7 ", "", "null", "1.5", "+3", "0"]).map(json.dumps),
)
_VALUES = st.one_of(
    st.sampled_from(["true", "false", "null", "NaN", "{}", "[]", "[1]", '{"a":[{}]}', "-", "tru", ""]), _NUMBERS, _TEXTS
)
_NAMES = st.sampled_from(["expired", "validUntil", "owner", "owner", "Owner", "expiration", "nonce", "fence", "x"])
_SOUND = st.tuples(st.sampled_from(["true", "false", "0", "1", '"true"']), _NUMBERS, _TEXTS).map(
    lambda three: list(zip(("expired", "validUntil", "owner"), three, strict=True))
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A body: usually an object with the three fields and something else, in some encoding, sometimes cut."""
    pairs = draw(st.one_of(_SOUND, st.just([])))
    pairs = draw(st.permutations([*pairs, *draw(st.lists(st.tuples(_NAMES, _VALUES), max_size=3))]))
    space = draw(st.sampled_from(["", "", " ", "\n\t"]))
    text = "{" + ",".join(f'{space}"{name}"{space}:{value}' for name, value in pairs) + "}"
    text = space + text + draw(st.sampled_from(["", "", " ", "}", " x", "\x00"]))
    body = text.encode(draw(st.sampled_from(["utf-8"] * 6 + ["utf-8-sig", "utf-16-le", "utf-16-be", "utf-16"])))
    return body[: draw(st.integers(0, len(body)))] if draw(st.integers(0, 9)) == 0 else body


def find_parsing_difference(parse: Callable[..., LockFile], count: int) -> list[Any] | None:
    """The smallest body found on which `parse` and our reader differ, with both readings; None if none was."""
    from tests.conformance.hudi_traces import reading

    worst: list[Any] = []

    @settings(
        max_examples=count, derandomize=True, database=None, deadline=None,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    @given(bodies())
    def agree(body: bytes) -> None:
        theirs, ours = reading(parse, body), reading(parse_strictly_as_hudi, body)
        if theirs != ours:
            worst[:] = [body.decode("latin-1"), theirs, ours]
        assert theirs == ours

    try:
        agree()
    except AssertionError:
        return worst
    return None
