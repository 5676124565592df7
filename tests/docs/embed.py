"""`make docs`: put the example locks into the document that explains them."""

from __future__ import annotations

import re

from tests.docs import ROOT

GUIDE = ROOT / "docs" / "bring-your-own-lock.md"
EXAMPLES = ("lease_lock.py", "variants.py")


def main() -> None:
    """Replace what stands between two marks by the file that the first mark names, to the letter."""
    text = GUIDE.read_text(encoding="utf-8")
    for name in EXAMPLES:
        code = f"```python\n{(ROOT / 'docs' / 'examples' / name).read_text(encoding='utf-8')}```\n"
        place = re.compile(rf"(<!-- examples/{re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        assert place.search(text), f"{GUIDE.name} has no place for {name}"
        text = place.sub(lambda found, code=code: found[1] + code + found[2], text)  # type: ignore[misc]
    GUIDE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
