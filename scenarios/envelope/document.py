"""The envelope as one JSON document, `lockref.envelope/1`. docs/envelope.md names its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from scenarios.envelope.axes import DISTURBANCES, Axis
from scenarios.envelope.cells import Cell
from scenarios.envelope.contended import Point, text_at
from scenarios.envelope.promise import BETA_NS
from scenarios.envelope.sentences import answer
from scenarios.envelope.survey import Boundary, Surveyed

FORMAT: Final = "lockref.envelope/1"


def document_of(
    surveyed: Sequence[Surveyed],
    axes: Sequence[Axis],
    seeds: Sequence[int],
    *,
    failures: Mapping[str, Sequence[Mapping[str, str]]],
    ending: str,
    exit_code: int,
) -> dict[str, Any]:
    """The document. failures: by lock, the stored failures inside its promise. ending: finished, cut or interrupted."""
    return {
        "format": FORMAT,
        "exit_code": exit_code,
        "ending": ending,
        "axes": [
            {
                "name": axis.of.name,
                "unit": "ppm" if axis.of.is_share else "ns",
                "values": list(axis.values),
                "resolution": axis.resolution,
            }
            for axis in axes
        ],
        "seeds": {"first": seeds[0], "count": len(seeds)},
        "beta_ns": BETA_NS,
        "scenario": text_at(Point(**{axis.of.name: axis.values[-1] for axis in axes})),
        "providers": [_provider(found, axes, failures.get(found.spec.name, ())) for found in surveyed],
    }


def _provider(found: Surveyed, axes: Sequence[Axis], failures: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    told = answer(found, axes)
    return {
        "provider": found.spec.name,
        "headline": told.headline,
        "sentences": list(told.sentences),
        "promises": [
            {
                "clause": promise.clause,
                "text": promise.text,
                "references": promise.references,
            }
            for promise in found.promises.values()
        ],
        "grid": [_cell(cell, found) for cell in found.grid],
        "probes": [_cell(cell, found) for cell in found.probes],
        "boundaries": [_boundary(each) for each in found.boundaries],
        "failures": list(failures),
    }


def _cell(cell: Cell, found: Surveyed) -> dict[str, Any]:
    low, high = cell.interval
    return {
        "at": _at(cell.point),
        "runs": cell.runs,
        "violated": cell.violated,
        "harmed": cell.harmed,
        "low_95": round(low, 6),
        "high_95": round(high, 6),
        "clauses": dict(cell.clauses),
        "seeds": dict(cell.seeds),
        "promised": sorted(found.promises_at(cell.point)),
        "is_judged": cell.is_judged,
        "error": "" if cell.error is None else str(cell.error),
    }


def _boundary(boundary: Boundary) -> dict[str, Any]:
    bracket = boundary.bracket
    at = _at(boundary.at)
    del at[boundary.along]
    return {
        "along": boundary.along,
        "at": at,
        "held": bracket.held,
        "broke": bracket.broke,
        "holds_again": bracket.holds_again,
        "resolution": boundary.resolution,
    }


def _at(point: Point) -> dict[str, int]:
    return {name: point.value(name) for name in DISTURBANCES}
