"""The scenario of a cell has the values of its point, and is a file that a user can run."""

from __future__ import annotations

from lockref.errors import ConfigError
from scenarios.definition.load import load_scenario
from scenarios.envelope.contended import Point, name_at, scenario_at, text_at

S = 1_000_000_000


def test_each_value_of_a_point_stands_in_its_place() -> None:
    point = Point(pause=3 * S, offset=S // 4, rate=2_500, latency=S // 10, loss=12_345, validity=20 * S)
    scenario = scenario_at(point)
    assert name_at(Point(pause=3 * S, loss=12_345)) == "envelope-pause-3s-loss-1p2345pc"
    (pause,) = scenario.faults
    assert (pause.kind, pause.model_dump(by_alias=True)["for"]) == ("pause", "3s")
    assert scenario.clock.offset["n2"].least == S // 4
    assert scenario.clock.drift["n1"].least == -2_500
    assert (scenario.network.latency.most, scenario.network.loss) == (S // 10, 0.012345)
    assert (scenario.lock.validity.least, scenario.lock.renew_every.least) == (20 * S, 2 * S)
    assert scenario.duration.least == point.duration_ns


def test_a_point_without_disturbances_has_no_fault() -> None:
    scenario = scenario_at(Point())
    assert (scenario.name, list(scenario.faults), scenario.clock.offset, scenario.clock.drift) == (
        "envelope",
        [],
        {},
        {},
    )
    assert not scenario.disturbs


def test_the_text_of_a_cell_is_a_scenario_file(tmp_path) -> None:
    point = Point(pause=9_750_000_000, offset=31_250_000)
    path = tmp_path / f"{name_at(point)}.yaml"
    path.write_text(text_at(point))
    assert load_scenario(path) == scenario_at(point)


def test_no_two_points_share_a_name() -> None:
    """The names are those of files."""
    points = [Point(loss=loss, pause=pause) for loss in (0, 1, 10, 100_000) for pause in (0, 1, 1_000, S)]
    assert len({name_at(point) for point in points}) == len(points)


def test_the_longest_cell_is_a_scenario() -> None:
    try:
        scenario_at(Point(pause=600 * S, offset=600 * S, rate=200_000, latency=10 * S, loss=900_000, validity=600 * S))
    except ConfigError as error:
        raise AssertionError(f"the extreme values are refused: {error}") from error
