"""The figures of a real run in words: lines for the terminal and the Markdown, tables for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lockref.durations import duration
from reports.formats.text import seconds, short

if TYPE_CHECKING:
    from reports.formats.results import Speed, StoreAnswers


def speed_lines(speed: Speed) -> list[str]:
    """The figures in a few lines. What is unknown is left out: a run without a grant has no wait to tell."""
    served = f"{speed.clients_served:,} of {speed.clients:,} clients served"
    if speed.clients_asked < speed.clients:
        served += f" ({speed.clients - speed.clients_asked:,} never asked)"
    if speed.grants_per_s is None or speed.requests_per_grant is None:
        first = [f"{speed.grants:,} grants"]
    else:
        first = [f"{_rounded(speed.grants_per_s)} grants/s"]
        if speed.wait_p50_ns is not None:
            first.append(f"wait median {duration(speed.wait_p50_ns)}, 99 % {duration(speed.wait_p99_ns)}")
        if speed.response_p50_ns is not None:
            quantiles = f"median {duration(speed.response_p50_ns)}, 99 % {duration(speed.response_p99_ns)}"
            first.append(f"from the intended start {quantiles}")
        if speed.handoff_p50_ns is not None:
            quantiles = f"median {duration(speed.handoff_p50_ns)}, 99 % {duration(speed.handoff_p99_ns)}"
            first.append(f"hand-off after release {quantiles}")
        first.append(f"{_rounded(speed.requests_per_grant)} requests per grant")
    if speed.calls > speed.grants:
        cut = f", {speed.cut_short:,} of them cut short by the end of the run" if speed.cut_short else ""
        first.append(f"{speed.calls - speed.grants:,} of {speed.calls:,} calls not granted{cut}")
    second = [served]
    if speed.jain is not None:
        second.append(f"Jain {speed.jain:.2f}")
    shares = [(speed.held_share, "held"), (speed.handoff_share, "in hand-off"), (speed.idle_share, "idle")]
    if speed.silent_share:
        shares.append((speed.silent_share, "without the store"))
    second.append(", ".join(f"{100 * share:.0f} % {word}" for share, word in shares))
    third = [
        f"longest wait {duration(speed.longest_wait_ns)} ({short(speed.longest_wait_client)})",
        f"longest drought {duration(speed.longest_drought_ns)} ({short(speed.longest_drought_client)})",
    ]
    return ["; ".join(parts) for parts in (first, second, third)]


def speed_table(speed: Speed) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Header and rows: what was measured, and how much it was."""
    shares = ("held_share", "handoff_share", "idle_share", "silent_share")
    # Only an open loop intends its calls.
    intended = [] if speed.late_max_ns is None else [("call began late by at most", duration(speed.late_max_ns))]
    if speed.response_p50_ns is not None:
        intended += [
            (f"from the intended start {name}", duration(getattr(speed, f"response_{key}_ns")))
            for name, key in _QUANTILES
        ]
    rows = [
        ("clients served", f"{speed.clients_served:,} of {speed.clients:,}"),
        ("grants", f"{speed.grants:,} of {speed.calls:,} calls"),
        ("calls cut short by the end of the run", f"{speed.cut_short:,}"),
        ("grants per second of answered time", _number(speed.grants_per_s)),
        ("requests per grant", _number(speed.requests_per_grant)),
        *((f"wait {name}", duration(getattr(speed, f"wait_{key}_ns"))) for name, key in _QUANTILES),
        *intended,
        *(
            (f"hand-off after release {name}", duration(getattr(speed, f"handoff_{key}_ns")))
            for name, key in _QUANTILES
        ),
        *((f"share of time {name.removesuffix('_share')}", f"{100 * getattr(speed, name):.1f} %") for name in shares),
        ("Jain's index of grants per client", "–" if speed.jain is None else f"{speed.jain:.3f}"),
        ("longest wait", f"{duration(speed.longest_wait_ns)}, {short(speed.longest_wait_client)}"),
        ("longest drought", f"{duration(speed.longest_drought_ns)}, {short(speed.longest_drought_client)}"),
    ]
    return ("measure", "value"), rows


def client_table(speed: Speed) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Every client that asked, the longest drought first."""
    ranked = sorted(speed.per_client, key=lambda one: (-one.drought_max_ns, one.client))
    rows = [
        (
            short(one.client),
            f"{one.granted:,}",
            f"{one.asked:,}",
            duration(one.wait_max_ns),
            duration(one.drought_max_ns),
        )
        for one in ranked
    ]
    return ("client", "grants", "calls", "longest wait", "longest drought"), rows


def answers_table(answers: Sequence[StoreAnswers]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The answers of each real run's store, a row for each stretch of time."""
    rows = [
        (f"{one.run}", seconds(part.begin_ns), seconds(part.end_ns), f"{part.requests:,}", f"{part.unanswered:,}",
         f"{100 * part.unanswered / part.requests:.1f} %" if part.requests else "–", f"{part.refused:,}")
        for one in answers
        for part in one.over_time
    ]  # fmt: skip
    return ("run", "from", "to", "requests", "not answered", "share", "refused"), rows


_QUANTILES = (("median", "p50"), ("90 %", "p90"), ("99 %", "p99"), ("longest", "max"))


def _number(value: float | None) -> str:
    return "–" if value is None else _rounded(value)


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
