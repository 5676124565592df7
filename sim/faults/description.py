"""A fault in words and numbers, for people: what it did to whom, how much of it, and where it began.

Numbers are in the words of a plan (`31000000000 ns`); whoever prints them chooses units.
"""

from __future__ import annotations

from sim.faults.fault import Cut, Fault, RequestFault, Trigger
from sim.faults.quantities import Quantity, fields_holding

_UNITS = {
    Quantity.DURATION: " ns",
    Quantity.SHIFT: " ns",
    Quantity.RATE: " ppm",
    Quantity.COUNT: "×",
    Quantity.PROBABILITY: " of them",
}

_CUTS_IN_WORDS: dict[Cut, str] = {
    "c0": "before it was sent",
    "c1": "before it was applied",
    "c2": "before it was answered",
    "c3": "with the answer on its way",
    "c4": "once it was answered",
}

SPEAK_FOR_THEMSELVES = ("for_ns", "times", "probability")
"""Fields whose number needs no word before it: a pause of 31 s."""


def describe(fault: Fault, planned: Fault | None = None) -> str:
    """The fault in one line. planned: the same fault before it was shrunk; where a number differs, both are told."""
    about = f" of {fault.target}" if fault.target else ""
    struck = f" on {fault.op}" if isinstance(fault, RequestFault) and fault.op else ""
    said = [f"{fault.kind.replace('_', ' ')}{about}{struck}"]
    before = {} if planned is None else _numbers(planned)
    for name, (value, unit) in _numbers(fault).items():
        was, _ = before.get(name, (value, unit))
        if value == was == type(fault).model_fields[name].default:
            continue
        now = f"{value}{unit}"
        words = name.removesuffix("_ns").removesuffix("_ppm").replace("_", " ")
        text = now if name in SPEAK_FOR_THEMSELVES else f"{words} {now}"
        if was and not value:
            # "0 ns suffice" tells nobody that the fault matters and its size does not.
            text += f": that it happens is enough, however little of it (the plan had {was}{unit})"
        elif abs(was) > abs(value):
            text += f" (the plan had {was}{unit}: the shrinker found that {now} suffice)"
        elif was != value:
            text += f" (the plan had {was}{unit}, which was rounded)"
        said.append(text)
    if fault.when is not None:
        said.append(_place(fault.when))
    elif fault.at_ns:
        said.append(f"at {fault.at_ns} ns")
    return ", ".join(said)


def happened(fault: Fault, planned: Fault | None = None) -> str:
    """The fault as a clause with a verb. planned: the same fault before it was shrunk; a larger number is told, too."""
    said = fault.happened()
    before = {} if planned is None else _numbers(planned)
    # Only what the clause tells: where a filter was open for a shorter time, the fault of one request is the same.
    shrunk = [
        (f"{abs(before[name][0])}{unit}", value)
        for name, (value, unit) in _numbers(fault).items()
        if name in before and abs(before[name][0]) > abs(value) and f" {abs(value)}{unit}" in said
    ]
    if not shrunk:
        return said
    enough = "; that it happens is enough" if any(not value for _, value in shrunk) else ""
    return f"{said} ({' and '.join(text for text, _ in shrunk)} planned{enough})"


def _numbers(fault: Fault) -> dict[str, tuple[int | float, str]]:
    """Field to its value and unit, of each number that says how much of the fault there is."""
    found = {}
    for quantity, unit in _UNITS.items():
        for name in fields_holding(type(fault), quantity):
            value = getattr(fault, name)
            if value is not None:
                found[name] = (value, unit)
    return found


def _place(when: Trigger) -> str:
    """A place in a client's life: `at the 2nd renew of n1, once it was answered (cut c4)`."""
    applied = " that was applied" if when.applied else ""
    latest = "" if when.at_latest_ns is None else f", or at {when.at_latest_ns} ns if that comes first"
    request = f"the {_ordinal(when.nth)} {when.op or 'request'} of {when.client}{applied}"
    return f"at {request}, {_CUTS_IN_WORDS[when.cut]} (cut {when.cut}){latest}"


def _ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`, `21st`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
