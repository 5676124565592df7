"""Find the version that a request replaced, if its condition names only a part of a version.

A condition on a generation (`7.*`) holds for every metageneration of it. If the store accepted such a request, the
request replaced the newest version of that generation. This is not certain while a change of metadata is under way:
then the answer is "".
Not safe to share between threads: the owner holds a mutex.
"""

from __future__ import annotations

from lockref.clouds.traffic import ObjectRequest


class SeenVersions:
    """The newest seen version of every generation, and the changes of metadata that may still land."""

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
        """An answer names this version. Answers need not come in the order in which versions were made."""
        place = key, version.partition(".")[0]
        # Compare metagenerations as numbers: in one generation the longer text is the greater number.
        self._newest[place] = max(self._newest.get(place, ""), version, key=lambda each: (len(each), each))

    def replaced(self, request: ObjectRequest) -> str:
        """The version that an accepted request replaced, by its condition; "" if that is not certain."""
        generation, _, rest = request.condition.partition(".")
        if rest != "*" or request.is_metadata or self._changing.get(request.key):
            return whole(request.condition)
        return self._newest.get((request.key, generation), "")


def whole(condition: str) -> str:
    """The condition, or "" if it names only a part of a version (`*.3`, `7.*`), which cannot be compared."""
    return "" if condition.startswith("*.") or condition.endswith(".*") else condition
