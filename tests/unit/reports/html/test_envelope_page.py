"""The page of an envelope: one file, with everything in it, whatever a lock is called."""

from __future__ import annotations

import re
from pathlib import Path

from reports.html.envelope import Told, write_envelope

HOSTILE = "<script>alert(1)</script>\x1b[31m"
SVG = '<?xml version="1.0"?>\n<svg width="9pt" height="9pt"><g id="a"><path style="fill: url(#a)"/></g></svg>'


def told(title: str, *, failures: tuple[str, ...] = ()) -> Told:
    return Told(
        title=title,
        verdict="held",
        badge="kept its promise",
        sentences=[f"{title} held."],
        promises=[("S3", "clocks agree within β", "S3: no two believe")],
        rows=[["9.75 s", "<3/20"]],
        failures=failures,
    )


def page(folder: Path, *parts: Told) -> str:
    path = write_envelope(
        parts,
        folder,
        picture=(SVG, b"png"),
        caption="cells",
        head=["pause", "broke"],
        scenario="version: 1\nname: envelope\n",
        notices=["cut short"],
        origin="lockref envelope",
    )
    return path.read_text()


def test_the_page_stands_alone_and_tells_all_of_it(tmp_path: Path) -> None:
    """Sentences, picture, promise, numbers, scenario and notice; nothing is fetched from anywhere."""
    text = page(tmp_path, told("hudi", failures=("lockref replay LK-ABC",)), told("hardened"))
    assert not re.findall(r"(?:src|href)=\"(?!data:|#)", text)
    label = 'aria-label="hudi: hudi held. hardened: hardened held."'
    numbers = ("9.75 s", "&lt;3/20", "name: envelope", "cut short", "lockref replay LK-ABC", label)
    for part in ("hudi held.", "hardened held.", "clocks agree within β", *numbers):
        assert part in text, part
    assert (tmp_path / "envelope.svg").read_text() == SVG
    assert (tmp_path / "envelope.png").read_bytes() == b"png"


def test_a_lock_with_a_hostile_name_is_text(tmp_path: Path) -> None:
    text = page(tmp_path, told(HOSTILE))
    assert "<script" not in text
    assert "\x1b" not in text
