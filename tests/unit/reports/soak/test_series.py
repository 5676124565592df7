"""Samples and cycles put together: across kills, restarts and warm-ups."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc
import pytest

from lockref.errors import HistoryUnreadable
from lockref.history import SCHEMA
from lockref.samples import HARNESS, LOCK, SAMPLES, SERVER, Sample, read_samples, write_sample
from reports.soak.cycles import BIN_NS, Cycles
from reports.soak.series import Stretch, median_wait_ns, parted_series, stock_series, taken_per_cycle, warm_up_of
from reports.soak.verdict import judge_soak
from tests.histories import History

S = 1_000_000_000


def sample(at_s, fds, *, pid=1, role=LOCK, cpu_ns=0):
    return Sample(
        at_ns=round(at_s * S), role=role, pid=pid, cpu_ns=cpu_ns, memory_bytes=50 << 20, rss_bytes=60 << 20, fds=fds,
        sockets=fds, threads=3, children=0, network_bytes=0,
    )  # fmt: skip


def steady(seconds, per_second, *, wait_ns=1_000.0):
    """So many cycles in each second, in the bins of a history."""
    bins = range(1, seconds * S // BIN_NS + 1)
    count = per_second * BIN_NS // S
    return Cycles(at_ns=[each * BIN_NS for each in bins], counts=[count] * len(bins), waits_ns=[wait_ns] * len(bins))


def stretch(fds_of, *, seconds=100, per_second=100, begin_pid=1, role=LOCK):
    samples = [sample(each / 2, fds_of(each / 2), pid=begin_pid, role=role) for each in range(2 * seconds)]
    return Stretch.of(samples, steady(seconds, per_second))


def verdict_of(told, resource, role=LOCK):
    return next(each for each in told.findings if (each.role, each.name) == (role, resource)).verdict


def test_a_leak_goes_on_across_a_kill_and_a_resume():
    """Two stretches show together what the first one does not show alone."""
    one, two = (stretch(lambda at_s: 5 + int(at_s * 36 / 1000), per_second=36, begin_pid=pid) for pid in (1, 2))
    assert verdict_of(judge_soak([one], clients=1), "fds") != "leaks"
    told = judge_soak([one, two], clients=1)
    assert (told.verdict, verdict_of(told, "fds")) == ("leaks", "leaks")
    assert told.cycles == 7_200
    fds = next(each for each in told.findings if each.name == "fds")
    assert fds.per_hour.value == pytest.approx(36 / 1000 * 3600, rel=0.1)
    assert fds.slope.value == pytest.approx(1 / 1000, rel=0.1)


def test_the_growth_of_all_stretches_is_added_up():
    """Three stretches of a leak of one in two seconds: each goes on where the one before it ended."""
    parts = [stretch(lambda at_s: 5 + int(at_s / 2), begin_pid=pid) for pid in (1, 2, 3)]
    series = stock_series(parts, LOCK, lambda each: each.fds)
    assert series.values[-1] - series.values[0] == pytest.approx(3 * 85 / 2, abs=6)
    assert series.cycles[-1] == pytest.approx(3 * 8_500, rel=0.02)
    assert series.at_s[-1] == pytest.approx(300, abs=3)


def test_a_soak_that_was_too_short_tells_how_long_it_must_last_with_its_warm_up():
    """3,750 cycles at eight in a second, and 15 % of the time before them."""
    told = judge_soak([stretch(lambda _: 5, per_second=8)], clients=1)
    needs_s = {each.name: each.needs_s for each in told.findings if each.decides}
    assert needs_s["fds"] == pytest.approx(3_750 / 8 / 0.85, rel=0.02)
    assert needs_s["memory"] is None
    memory = next(each for each in told.findings if each.name == "memory")
    assert 0.001 < memory.at_most < 0.1, "MiB for each cycle"


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "flat"), (1.3, "flat"), (2.2, "rises")])
def test_a_time_rises_where_it_grows_by_half_of_its_level(factor, verdict):
    """The processor time of a cycle at the end is so many times that of the begin."""
    spent = np.cumsum(np.linspace(1, factor, 200) * S / 8)
    samples = [sample(each / 2, 5, cpu_ns=round(spent[each])) for each in range(200)]
    told = judge_soak([Stretch.of(samples, steady(100, 100))], clients=1)
    assert verdict_of(told, "cpu") == verdict
    assert told.verdict == "flat"


@pytest.mark.parametrize(
    ("column", "leaking"),
    [
        ("fds", "fds"),
        ("sockets", "sockets"),
        ("threads", "threads"),
        ("children", "children"),
        ("memory_bytes", "memory"),
        ("rss_bytes", None),
        ("network_bytes", None),
    ],
)
def test_each_resource_is_judged_by_its_own_column(column, leaking):
    """Memory is what the process does not share: mapped files of the recording count in `rss_bytes` alone."""
    step = 1 << 20 if column.endswith("bytes") else 1
    samples = [
        replace(each, **{column: getattr(each, column) + place // 10 * step})
        for place, each in enumerate(stretch(lambda _: 5).samples)
    ]
    told = judge_soak([Stretch.of(samples, steady(100, 100))], clients=1)
    stocks = {each.name: each.verdict for each in told.findings if each.role == LOCK and each.decides}
    assert {name for name, verdict in stocks.items() if verdict != "flat"} == ({leaking} if leaking else set())
    assert [*stocks] == ["fds", "sockets", "threads", "children", "memory"]
    assert told.verdict == ("leaks" if leaking else "flat")


def test_another_level_after_a_restart_is_no_leak():
    """Each stretch and each process has a level of its own."""
    told = judge_soak(
        [stretch(lambda _, level=level: 5 + level, begin_pid=level + 1) for level in (0, 7, 15)], clients=1
    )
    assert (told.verdict, verdict_of(told, "fds")) == ("flat", "flat")


def test_a_process_that_follows_another_keeps_what_that_one_had_grown_by():
    """The growth of a process that a fault killed counts on."""
    samples = [sample(each / 2, 5 + each // 20, pid=1) for each in range(100)]
    samples += [sample(each / 2, 5 + (each - 100) // 20, pid=2) for each in range(100, 400)]
    series = stock_series([Stretch.of(samples, steady(200, 100))], LOCK, lambda each: each.fds)
    assert series.values[-1] - series.values[0] == pytest.approx((100 - 60) / 20 + (300 - 60) / 20, abs=2)
    assert (np.diff(series.values) >= 0).all()


def test_processes_that_are_ended_again_and_again_show_a_leak():
    """Each lives for a minute of an hour, which is shorter than the warm-up of a process that lives all the time."""
    samples = [sample(each, 5 + each % 60 // 10, pid=1 + each // 60) for each in range(720)]
    told = judge_soak([Stretch.of(samples, steady(720, 100))], clients=1)
    assert verdict_of(told, "fds") == "leaks"


def test_what_the_harness_or_the_server_keeps_is_not_booked_on_the_lock():
    """Both are told, and decide nothing."""
    own = stretch(lambda _: 5)
    others = [
        sample(each / 2, 5 + each // 10, pid=number, role=role)
        for each in range(200)
        for number, role in ((8, HARNESS), (9, SERVER))
    ]
    both = Stretch.of(sorted([*own.samples, *others], key=lambda each: each.at_ns), own.cycles)
    told = judge_soak([both], clients=1)
    assert {role: verdict_of(told, "fds", role) for role in (LOCK, SERVER, HARNESS)} == {
        LOCK: "flat", SERVER: "leaks", HARNESS: "leaks",
    }  # fmt: skip
    assert told.verdict == "flat"


def test_a_warm_up_is_a_share_of_a_life_and_five_minutes_at_most():
    assert [warm_up_of(each * S) / S for each in (100, 2_000, 36_000)] == [15, 300, 300]


def test_time_and_memory_before_the_first_cycle_and_after_the_last_one_do_not_count():
    """A process that starts or closes is no part of a soak."""
    samples = [sample(each, 100 if each < 50 or each > 150 else 7) for each in range(200)]
    cycles = Cycles(at_ns=[each * S for each in range(50, 151)], counts=[100] * 101, waits_ns=[1.0] * 101)
    assert {each.fds for each in Stretch.of(samples, cycles).samples} == {7}


def test_a_soak_that_recorded_no_cycle_is_inconclusive():
    """A server that never answered shows nothing of the lock."""
    told = judge_soak([Stretch.of([sample(1, 5), sample(2, 5)], Cycles())], clients=1)
    assert (told.verdict, told.cycles) == ("inconclusive", 0)


def test_processor_time_and_waits_are_told_per_cycle():
    """A flow is divided by the cycles of its part."""
    samples = [sample(each / 2, 5, cpu_ns=round(each / 2 * S / 4)) for each in range(200)]
    whole = Stretch.of(samples, steady(100, 100, wait_ns=5e6))
    assert parted_series([whole], taken_per_cycle(LOCK, lambda each: each.cpu_ns), parts=20).values == pytest.approx(
        np.full(20, S / 4 / 100), rel=0.05
    )
    assert parted_series([whole], median_wait_ns, parts=20).values == pytest.approx(np.full(20, 5e6))
    waits = [9e6 if place % 3 == 0 else 1e6 for place in range(len(whole.cycles.at_ns))]
    whole = Stretch.of(samples, replace(whole.cycles, waits_ns=waits))
    assert parted_series([whole], median_wait_ns, parts=20).values == pytest.approx(np.full(20, 1e6))


def test_cycles_are_granted_acquires_with_their_waits():
    """A denied acquire is no cycle; a wait whose call is in an earlier piece is not known."""
    history = History()
    held = history.granted("n1", call=1 * S, applied=1 * S + 500, returned=1 * S + 1_000)
    history.released(held, call=2 * S)
    history.fails("n2", call=1 * S, returned=1 * S + 10)
    events, _ = history.tables()
    whole, late = Cycles(), Cycles()
    whole.add(events)
    granted = [row for row in events.to_pylist() if row["kind"] == "return" and row["op"] == "acquire"]
    assert whole.total == sum(row["outcome"] == "applied" for row in granted) == 1
    assert not np.isnan(whole.waits_ns[0])
    late.add(events.filter(pc.not_equal(events["kind"], "call")))
    assert late.total == 1
    assert np.isnan(late.waits_ns[0])
    late.add(SCHEMA.empty_table())
    assert whole.until(np.array([0.0, 9.0 * S])).tolist() == [0, 1]


def test_samples_are_read_as_they_were_written_and_a_half_line_is_left_out(tmp_path):
    """`kill -9` in the middle of a line takes that line alone."""
    written = [sample(each, each) for each in range(3)]
    with (tmp_path / SAMPLES).open("ab", buffering=0) as file:
        for each in written:
            write_sample(file, each)
        file.write(b'{"at_ns":12')
    assert read_samples(tmp_path) == written
    assert read_samples(tmp_path / "elsewhere") == []


def test_a_line_of_which_the_disk_takes_a_part_ends_the_sampling(tmp_path):
    """Nothing is written behind that part, so the lines before it can be read."""

    class NearlyFull(io.FileIO):
        def write(self, line):
            return super().write(line[:20])

    with NearlyFull(tmp_path / SAMPLES, "ab") as file, pytest.raises(OSError, match="No space left"):
        write_sample(file, sample(1, 1))
    assert read_samples(tmp_path) == []


@pytest.mark.parametrize("line", [b"[]\n", b'{"at_ns":1}\n', b"\xff\n"])
def test_a_line_that_is_no_sample_is_told_with_its_place(tmp_path, line):
    """The file and the line are named."""
    with (tmp_path / SAMPLES).open("ab", buffering=0) as file:
        write_sample(file, sample(1, 1))
        file.write(line)
    with pytest.raises(HistoryUnreadable, match=r"samples\.jsonl:2:1"):
        read_samples(tmp_path)
