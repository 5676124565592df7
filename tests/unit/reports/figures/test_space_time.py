"""The space-time diagram: equal bytes for equal diagrams, every label in its own place, the guilty event doubled."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

from reports.explanation.explanation import Bar, Diagram, Mark, Message
from reports.figures.space_time import space_time_svg

S = 1_000_000_000
NAMESPACE = "{http://www.w3.org/2000/svg}"


def message(sent: int, end: str = "applied", lane: str = "n1", **more: object) -> Message:
    told = {"applied_ns": sent + 1000, "replied_ns": sent + 2000, "label": f"renew {sent}", "text": f"request {sent}"}
    return Message(lane=lane, service="store", end=end, sent_ns=sent, **{**told, **more})  # type: ignore[arg-type]


def diagram(*messages: Message, **more: object) -> Diagram:
    lanes = (*sorted({each.lane for each in messages}), "store")
    return Diagram(lanes=lanes, begin_ns=0, end_ns=20 * S, messages=messages, **more)  # type: ignore[arg-type]


def crowded() -> Diagram:
    """Twelve clients, two hundred requests, some at one instant, with bars and marks."""
    sent = [message(turn // 3 * S // 10, lane=f"n{turn % 12 + 1}") for turn in range(200)]
    bars = tuple(
        Bar(lane=f"n{n}", kind="belief", begin_ns=n * S, end_ns=n * S + S // 2, label="x") for n in range(1, 7)
    )
    marks = (Mark(lane="n1", kind="lease", at_ns=3 * S, label="lease ends"),)
    return diagram(*sent, bars=bars, marks=marks)


def labels(svg: str) -> list[tuple[int, int]]:
    """Where each label of a request or a mark begins."""
    return [(int(x), int(y)) for x, y in re.findall(r'<text x="(\d+)" y="(\d+)" class="label', svg)]


def test_equal_diagrams_give_equal_bytes() -> None:
    assert space_time_svg(crowded(), clause="S4") == space_time_svg(crowded(), clause="S4")


def test_no_label_lies_on_another() -> None:
    """Two hundred requests of twelve clients: each label has a line of its own."""
    places = sorted(y for _, y in labels(space_time_svg(crowded())))
    assert len(places) == 201
    assert all(below - above >= 8 for above, below in pairwise(places))


def test_later_is_lower() -> None:
    """The axis is no ruler, and it keeps the order."""
    svg = space_time_svg(diagram(message(0), message(15 * S)))
    first, second = labels(svg)
    assert second[1] > first[1]
    assert "⋮ 15 s" in svg


def test_the_guilty_request_is_doubled_by_text() -> None:
    """Red alone says nothing to some readers, and nothing in print."""
    svg = space_time_svg(diagram(message(0), message(S, is_guilty=True)), clause="S4")
    assert svg.count("✗ breaks S4") == 1
    assert 'class="m guilty"' in svg


def test_a_lost_request_never_reaches_the_store() -> None:
    """Its line stops at a cross, and no answer is drawn."""
    lost = message(0, "lost request", applied_ns=None, replied_ns=None)
    svg = space_time_svg(diagram(lost))
    assert svg.count('<path class="lost"') == 1
    assert 'class="answer"' not in svg
    assert 'class="tip"' not in svg


def test_a_lost_answer_stops_on_its_way_back() -> None:
    svg = space_time_svg(diagram(message(0, "lost reply")))
    assert svg.count('<path class="lost"') == 1
    assert svg.count('class="answer"') == 1


def test_a_request_tells_its_story_to_pointer_and_keyboard() -> None:
    """Each request has a title, can be reached with Tab, and shows its text while it has the focus."""
    svg = space_time_svg(diagram(message(0, text="sent at 0, answered at 2")), prefix="p")
    group = next(each for each in ElementTree.fromstring(svg).iter(f"{NAMESPACE}g") if each.get("class") == "m")
    title = group.find(f"{NAMESPACE}title")
    assert title is not None
    assert (group.get("tabindex"), title.text) == ("0", "sent at 0, answered at 2")
    assert f"#{group.get('id')}:is(:hover,:focus)" in svg


def test_foreign_text_is_text() -> None:
    """A name with markup in it is shown and does nothing; the picture stays well-formed."""
    hostile = "</text><script>alert(1)</script>\x1b\n"
    drawn = diagram(message(0, label=hostile, text=hostile), notices=(hostile,), folded=((S, hostile),))
    svg = space_time_svg(drawn)
    ElementTree.fromstring(svg)
    assert "<script" not in svg


def test_an_empty_diagram_is_a_picture_all_the_same() -> None:
    drawn = ElementTree.fromstring(space_time_svg(Diagram(lanes=(), begin_ns=0, end_ns=0)))
    assert drawn.tag.endswith("svg")
    _left, _top, width, height = map(float, drawn.get("viewBox", "").split())
    assert width > 0
    assert height > 0


def test_a_small_picture_has_room_for_its_labels() -> None:
    """Narrower than a large one, without texts under the pointer; the longest label ends within it."""
    small, large = (space_time_svg(crowded(), clause="S4", is_small=each) for each in (True, False))
    widths = [int(ElementTree.fromstring(svg).attrib["viewBox"].split()[2]) for svg in (small, large)]
    assert widths[0] < widths[1]
    assert 'class="told"' in large
    assert 'class="told"' not in small
    assert "Time goes down" not in space_time_svg(crowded(), is_small=True, has_legend=False)
    namespace = "{http://www.w3.org/2000/svg}"
    for text in ElementTree.fromstring(small).iter(f"{namespace}text"):
        if "label" in text.attrib.get("class", "") and text.attrib.get("text-anchor") != "end":
            assert int(text.attrib["x"]) + 5.5 * len(text.text or "") < widths[0], text.text
