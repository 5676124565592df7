"""`make docs`: put the example lock into the document that explains it."""

from __future__ import annotations

import re

from tests.docs import ROOT

GUIDE = ROOT / "docs" / "bring-your-own-lock.md"
EXAMPLE = ROOT / "docs" / "examples" / "lease_lock.py"
_PLACE = re.compile(r"(<!-- examples/lease_lock\.py -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """Replace what stands between the two marks by the file, to the letter."""
    code = f"```python\n{EXAMPLE.read_text(encoding='utf-8')}```\n"
    before = GUIDE.read_text(encoding="utf-8")
    after = _PLACE.sub(lambda found: found[1] + code + found[2], before)
    assert _PLACE.search(before), f"{GUIDE.name} has no place for the example"
    GUIDE.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
