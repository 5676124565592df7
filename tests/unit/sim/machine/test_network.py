"""The network's draws: on a grid, keyed, within their bounds."""

from __future__ import annotations

import pytest

from lockref.errors import ConfigError
from sim.machine.network import MS, Network, NetworkModel


def draws(network: Network, count: int = 2000):
    return [network.draw("n1", "store", number) for number in range(count)]


def test_latencies_lie_on_the_grid_within_their_bounds():
    """Coarse latencies make ties, without which a schedule has nothing to decide."""
    latencies = {ns for draw in draws(Network(NetworkModel(latency_ns=(2 * MS, 6 * MS)), 1)) for ns in draw[:2]}
    assert latencies == {2 * MS, 3 * MS, 4 * MS, 5 * MS, 6 * MS}


def test_draws_depend_on_seed_client_service_and_number_alone():
    """One request more elsewhere moves no other draw."""
    model = NetworkModel(latency_ns=(1 * MS, 1000 * MS))
    one, other = Network(model, 1), Network(model, 1)
    other.draw("n2", "store", 0)
    assert draws(one, 50) == draws(other, 50)
    assert draws(one, 50) != draws(Network(model, 2), 50)
    assert one.draw("n1", "store", 0) != one.draw("n2", "store", 0) != one.draw("n1", "resource", 0)


def test_large_seeds_give_different_networks():
    """A commit hash is a valid seed."""
    model = NetworkModel(latency_ns=(1 * MS, 1000 * MS))
    assert draws(Network(model, 2**160), 20) != draws(Network(model, 2**160 + 1), 20)


def test_loss_duplication_and_reordering_happen_at_their_rates():
    """Each is drawn by itself, in each direction."""
    model = NetworkModel(latency_ns=(0, 0), loss=0.1, duplication=0.2, reorder=0.3, reorder_ns=50 * MS)
    drawn = draws(Network(model, 5))
    rates = [
        sum(draw.is_request_lost for draw in drawn),
        sum(draw.is_reply_lost for draw in drawn),
        sum(draw.resend_ns is not None for draw in drawn),
        sum(draw.to_service_ns > 0 for draw in drawn),
    ]
    assert 140 < rates[0] < 260
    assert 140 < rates[1] < 260
    assert 320 < rates[2] < 480
    assert 480 < rates[3] < 700
    assert max(draw.to_service_ns for draw in drawn) == 50 * MS


def test_healing_keeps_latencies():
    """A healed network loses nothing, and its latencies are those it would have had."""
    model = NetworkModel(latency_ns=(1 * MS, 9 * MS), loss=1.0, duplication=1.0)
    network = Network(model, 3)
    before = draws(network, 20)
    network.heal()
    after = draws(network, 20)
    assert all(draw.is_request_lost and draw.resend_ns is not None for draw in before)
    assert not any(draw.is_request_lost or draw.is_reply_lost or draw.resend_ns for draw in after)
    assert [draw[:2] for draw in before] == [draw[:2] for draw in after]


@pytest.mark.parametrize(
    "wrong",
    [{"latency_ns": (5, 1)}, {"latency_ns": (-1, 1)}, {"loss": 1.1}, {"duplication": -0.1}, {"grid_ns": -1}],
)
def test_impossible_networks_are_refused(wrong):
    """A ConfigError names the field."""
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        NetworkModel(**wrong)


def test_no_message_is_faster_than_the_lowest_latency():
    """The bounds hold where they are no multiples of the grid."""
    latencies = {ns for draw in draws(Network(NetworkModel(latency_ns=(MS // 2, 3 * MS)), 1)) for ns in draw[:2]}
    assert latencies == {MS, 2 * MS, 3 * MS}


def test_request_and_reply_are_lost_apart():
    """Each direction has its own luck: all four combinations come up."""
    drawn = draws(Network(NetworkModel(loss=0.5), 1), 200)
    assert len({(draw.is_request_lost, draw.is_reply_lost) for draw in drawn}) == 4


def test_reordering_alone_is_a_disturbance():
    """A network that holds messages back is not the undisturbed one, and does so."""
    model = NetworkModel(latency_ns=(0, 0), reorder=1.0, reorder_ns=50 * MS)
    assert not model.is_lossless
    assert len({draw.to_service_ns for draw in draws(Network(model, 3), 200)}) > 20
