"""Samples and cycles put together: across kills, restarts and warm-ups."""

from __future__ import annotations

import io

import numpy as np
import pyarrow.compute as pc
import pytest

from lockref.errors import HistoryUnreadable
from lockref.history import SCHEMA
from lockref.samples import HARNESS, LOCK, SAMPLES, SERVER, Sample, read_samples, write_sample
from reports.soak.cycles import BIN_NS, Cycles
from reports.soak.series import Stretch, median_wait_ns, parted_series, stock_series, taken_per_cycle
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
