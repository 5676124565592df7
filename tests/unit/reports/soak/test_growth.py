"""Which growth is a leak: planted leaks are found, and nothing that is given back is accused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.soak.growth import SAMPLES_MIN, counted_least, growth_of, memory_least
from reports.soak.slopes import theil_sen

SAMPLES = 170
CYCLES = np.linspace(0, 20_000, SAMPLES)
PLACES = np.arange(SAMPLES)
MEMORY = 100 << 20


def counted(values, cycles=CYCLES, clients=1):
    least = counted_least(clients)
    return growth_of(cycles, np.asarray(values, dtype=float), least=least, is_counted=True, clients=clients)


def memory(values):
    return growth_of(CYCLES, np.asarray(values, dtype=float), least=memory_least(MEMORY), is_counted=False)


def saw_tooth(rng, periods):
    return MEMORY + 60e6 * ((PLACES / (SAMPLES / periods) + rng.random()) % 1) + rng.normal(0, 1e6, SAMPLES)


@given(phase=st.floats(0, 1), seed=st.integers(0, 2**32 - 1), noise=st.integers(0, 4))
def test_a_socket_in_a_thousand_cycles_is_found(phase, seed, noise):
    """A leak of one unit in 1,000 cycles, behind units that come and go, is a leak of that slope."""
    busy = np.random.default_rng(seed).integers(0, noise + 1, SAMPLES)
    found = counted(7 + np.floor(CYCLES / 1000 + phase) + busy)
    assert found.verdict == "leaks"
    assert found.slope.low <= 1 / 1000 <= found.slope.high or abs(found.slope.value - 1 / 1000) < 1 / 5000


def test_the_least_leak_is_found_in_the_least_number_of_cycles():
    """Five units in five thousand cycles, one for each fifth, are enough."""
    cycles = np.linspace(0, 5_500, SAMPLES)
    assert counted(7 + np.floor(cycles / 1000 + 0.3), cycles).verdict == "leaks"


@pytest.mark.parametrize("clients", [1, 2, 4, 8])
def test_a_lock_of_which_each_instance_counts_for_itself_is_never_flat(clients):
    """Each client loses one socket at its own 1,000th cycle, all at about the same time, whenever that first is."""
    for total in (3_000, 5_100, 8_840, 13_260, 26_500, 85_000):
        cycles = np.linspace(0, total, SAMPLES)
        for phase in np.linspace(0, 0.99, 11):
            found = counted(7 + clients * np.floor(cycles / clients / 1000 + phase), cycles, clients)
            assert found.verdict != "flat"
        if total >= 7_500 * clients:
            assert found.verdict == "leaks"


def test_a_leak_at_random_is_flat_once_in_twenty_times_at_most():
    """One socket in 1,000 cycles on average, and sometimes none for long."""
    rng = np.random.default_rng(5)
    flat = []
    for total in (3_800, 5_100, 8_840, 13_260):
        for _ in range(50):
            lost_at = np.sort(rng.random(rng.poisson(total / 1000)) * total)
            cycles = np.linspace(0, total, SAMPLES)
            flat.append(counted(7 + np.searchsorted(lost_at, cycles), cycles).verdict == "flat")
    assert sum(flat) <= len(flat) / 20


@pytest.mark.parametrize("clients", [2, 8, 16])
def test_a_pool_that_fills_late_is_not_accused(clients):
    """Each client opens one connection, once, at a random moment of the run; a longer run tells."""
    rng = np.random.default_rng(6)
    for _ in range(60):
        opened_at = np.sort(rng.random(clients) * CYCLES[-1])
        assert counted(7 + np.searchsorted(opened_at, CYCLES), clients=clients).verdict != "leaks"
    early = counted(7 + np.searchsorted(opened_at / 20, CYCLES * 10), CYCLES * 10, clients)
    assert early.verdict == "flat"


def test_no_innocent_series_is_accused():
    """Of 240 series whose floor stands still none leaks: noise, waves, pools that fill, steps, saw-teeth of memory."""
    rng = np.random.default_rng(20)
    accused = []
    for number in range(40):
        wave = np.zeros(SAMPLES)
        for place in range(1, SAMPLES):
            wave[place] = 0.8 * wave[place - 1] + rng.normal(0, 2)
        innocent = {
            "constant with noise": counted(7 + rng.integers(0, 4, SAMPLES)),
            "slow wave": counted(np.round(20 + wave)),
            "pool that fills": counted(np.round(7 + 8 * (1 - np.exp(-PLACES / rng.uniform(3, 25))))),
            "steps": counted(7 + 4 * (rng.integers(0, SAMPLES) < PLACES) + 4 * (rng.integers(0, SAMPLES) < PLACES)),
            "saw-tooth": memory(saw_tooth(rng, rng.uniform(2.5, 40))),
            "allocator": memory(MEMORY + np.linspace(0, 6e6, SAMPLES) + rng.normal(0, 1e6, SAMPLES)),
        }
        accused += [(number, name) for name, found in innocent.items() if found.verdict == "leaks"]
    assert accused == []


def test_peaks_that_grow_above_a_floor_that_stands_still_are_no_leak():
    """More and more is taken, and all of it is given back."""
    busy = np.random.default_rng(4).random(SAMPLES) < 0.7
    assert counted(7 + busy * np.round(PLACES / 5)).verdict == "flat"


def test_memory_that_each_cycle_keeps_is_found():
    """Two kilobytes a cycle are a leak, and its slope says so."""
    rng = np.random.default_rng(3)
    found = memory(MEMORY + 2048 * CYCLES + rng.normal(0, 1e6, SAMPLES))
    assert found.verdict == "leaks"
    assert found.slope.value == pytest.approx(2048, rel=0.1)


def test_too_few_cycles_are_inconclusive_with_what_is_needed():
    """Nothing grew, but a leak of one in a thousand would not have shown either."""
    found = counted(np.full(SAMPLES, 7), np.linspace(0, 900, SAMPLES))
    assert (found.verdict, found.cycles_needed) == ("inconclusive", 3_750)
    assert found.at_most > 1 / 1000


def test_a_flat_resource_tells_what_could_not_have_gone_unseen():
    """A leak at random would have shown once, but for one run in twenty."""
    found = counted(np.full(SAMPLES, 7))
    assert found.verdict == "flat"
    assert found.at_most == pytest.approx(3 / 16_000, rel=0.1)


@pytest.mark.parametrize(
    "cycles", [np.linspace(0, 9_000, SAMPLES_MIN - 1), np.full(SAMPLES, 5.0), np.zeros(0)], ids=["few", "none", "empty"]
)
def test_without_samples_or_cycles_nothing_is_told(cycles):
    """Too few samples, and samples between which no cycle ended, have no slope."""
    found = counted(np.full(len(cycles), 7.0), cycles)
    assert (found.verdict, found.slope) == ("inconclusive", None)


def test_growth_that_stops_and_goes_on_is_inconclusive():
    """A floor that rises in some fifths alone is neither flat nor a leak."""
    values = 7 + 6 * (PLACES > SAMPLES * 0.3) + 6 * (PLACES > SAMPLES * 0.7)
    assert counted(values + PLACES * 0.001).verdict == "inconclusive"


def test_slopes_are_those_of_the_median_pair_and_serial_correlation_widens_the_interval():
    """A wild value does not move the slope, and a wave has a wider interval than noise of its size."""
    x = np.arange(20.0)
    y = 2 * x
    y[7] = 1e6
    assert theil_sen(x, y).value == pytest.approx(2)
    wave, noise = np.sin(x / 3), np.random.default_rng(1).permutation(np.sin(x / 3))
    assert theil_sen(x, wave).high - theil_sen(x, wave).low > theil_sen(x, noise).high - theil_sen(x, noise).low
    with pytest.raises(ValueError, match="three values"):
        theil_sen(x[:2], y[:2])
    with pytest.raises(ValueError, match="different x"):
        theil_sen(np.ones(5), np.arange(5.0))


def test_the_interval_misses_the_slope_once_in_twenty_times_and_as_often_on_each_side():
    """Noise of which no value depends on another one, so nothing widens the interval but by chance."""
    rng, x = np.random.default_rng(8), np.arange(20.0)
    found = [theil_sen(x, 2 * x + rng.normal(0, 3, 20)) for _ in range(400)]
    assert sum(each.low > 2 for each in found) <= 16
    assert sum(each.high < 2 for each in found) <= 16
    assert 0.5 < sum(each.high - 2 for each in found) / sum(2 - each.low for each in found) < 2
