"""Which version a request replaced, where its condition names a version in part.

A condition on a generation (`7.*`) holds for every metageneration of it. Of a request with such a condition that the
store accepted, the version that it met is the newest of this generation, unless a change of metadata was under way.
Not safe to share between threads without a lock of its owner's.
"""

from __future__ import annotations

from scenarios.wire.objects import ObjectRequest


class SeenVersions:
    """The newest version of every generation that was seen, and the changes of metadata that may still land."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], str] = {}
        self._changing: dict[str, set[int]] = {}

    def sent(self, request: ObjectRequest, number: int) -> None:
        """The request of this number is under way."""
        if request.is_metadata:
            self._changing.setdefault(request.key, set()).add(number)

    def ended(self, request: ObjectRequest, number: int) -> None:
        """The request of this number has taken effect by now, or never will."""
        self._changing.get(request.key, set()).discard(number)

    def saw(self, key: str, version: str) -> None:
        """An answer told of this version. Answers may come in another order than versions were made."""
        place = key, version.partition(".")[0]
        # Within a generation the longer number is the greater one.
        self._newest[place] = max(self._newest.get(place, ""), version, key=lambda each: (len(each), each))

    def replaced(self, request: ObjectRequest) -> str:
        """The version that an accepted request replaced, as its condition has it; "" where that cannot be told."""
        generation, _, rest = request.condition.partition(".")
        if rest != "*" or request.is_metadata or self._changing.get(request.key):
            return whole(request.condition)
        return self._newest.get((request.key, generation), "")


def whole(condition: str) -> str:
    """The condition, or "" if it names a version in part (`*.3`, `7.*`): that cannot be compared."""
    return "" if condition.startswith("*.") or condition.endswith(".*") else condition
