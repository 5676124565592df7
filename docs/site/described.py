"""What a docstring says of each field: `name: sentence`, `name, other: sentence`, as the house writes it.

    kind: what happens. at_ns, end_ns: from when until when, in true time.

Models and frozen values explain their fields so, after their own sentence. Tables of fields take the sentences from
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

PARTS = ("Attributes", "Causes", "Cost", "Errors", "Shape", "Source", "Units")
"""Words that begin a part of a docstring which is about no single field."""


@dataclass(frozen=True)
class Described:
    """A docstring, taken apart. about: what stands there beside the fields. fields: name to its sentence."""

    about: str
    fields: dict[str, str]


def described(text: str, names: Iterable[str]) -> Described:
    """Take the sentences about `names` out of a docstring. A sentence ends at the next name or at a blank line."""
    name = "|".join(sorted((re.escape(each) for each in names), key=len, reverse=True))
    if not name:
        return Described(text, {})
    list_of_names = rf"(?:{name})(?:(?:, and |, | and )(?:{name}))*"
    begin = re.compile(rf"(?:^|(?<=\n)|(?<=[.;] ))[ ]*(`?)({list_of_names}|{'|'.join(PARTS)})\1: ")
    about, fields = [], {}
    for paragraph in re.split(r"\n\s*\n", text):
        starts = list(begin.finditer(paragraph))
        about.append(paragraph[: starts[0].start()] if starts else paragraph)
        for found, following in pairwise([*starts, None]):
            assert found is not None
            sentence = paragraph[found.end() : following.start() if following else None].strip().rstrip(";")
            if found[2] in PARTS:
                about.append(f"{found[2]}: {sentence}")
                continue
            fields.update(dict.fromkeys(re.split(r",? and |, ", found[2]), " ".join(sentence.split())))
    return Described("\n\n".join(part.strip() for part in about if part.strip()), fields)
