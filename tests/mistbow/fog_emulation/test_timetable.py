"""A scenario's steps: when, what, and to which nodes."""

from typing import Any

import pytest

from mistbow.errors import InvalidRequestError, NotFoundError
from mistbow.fog_emulation.parts import Direction, Shape
from mistbow.fog_emulation.plan import plan
from mistbow.fog_emulation.timetable import Connect, Effect, Limit, Run, Start, Step, Stop, Stress
from mistbow.fog_emulation.timetable import timetable as _timetable
from tests.mistbow.fog_emulation.cities import with_actions

UP = ("horizontal_scaling", {"type": "up"})
DOWN = ("horizontal_scaling", {"type": "down"})


def timetable(*actions: tuple[int, str, int, str, dict[str, Any]]) -> tuple[Step, ...]:
    city = with_actions(*actions)
    return _timetable(city, plan(city, reference_mhz=1000), "story", reference_mhz=1000)


def effects(steps: tuple[Step, ...]) -> list[Effect]:
    return [effect for step in steps for effect in step.effects]


def test_times_are_after_the_action_before() -> None:
    steps = timetable(
        (5, "a", 1, "command", {"command": "ls"}),
        (0, "a", 1, "command", {"command": "df"}),
        (10, "b", 2, "command", {"command": "ps"}),
    )
    assert [step.at_s for step in steps] == [5, 5, 15]
    assert steps[2].effects == (Run("b-1", "ps"), Run("b-2", "ps"))


def test_a_cut_is_of_both_directions_of_one_network() -> None:
    cut = {"network": "net", "bidirectional": {"drop": "100%"}}
    assert effects(timetable((0, "a", 1, "network", cut))) == [
        Connect(Direction("net", "a-1", way, Shape(loss=1.0))) for way in ("up", "down")
    ]


def test_the_youngest_goes_first_and_comes_back_as_itself() -> None:
    steps = timetable((0, "b", 1, *DOWN), (0, "b", 2, *UP), (0, "b", 3, *DOWN))
    assert steps[0].effects == (Stop("b-2"),)
    assert [each.node.name for each in effects(steps) if isinstance(each, Start)] == ["b-2", "b-3"]
    assert {each.node for each in steps[2].effects if isinstance(each, Stop)} == {
        "b-1",
        "b-2",
        "b-3",
    }


def test_what_is_added_is_connected() -> None:
    (start,) = effects(timetable((0, "b", 1, *UP)))
    assert isinstance(start, Start)
    assert [(each.node, each.way) for each in start.directions] == [("b-3", "up"), ("b-3", "down")]


def test_limits_add_up_and_stress_is_a_part_of_them() -> None:
    more = ("vertical_scaling", {"cpu": "+50"})
    stress = ("stress", {"cpu": 50, "duration": "3s"})
    memory = ("vertical_scaling", {"memory": "1G"})
    steps = timetable(
        (0, "a", 1, *more), (0, "a", 1, *more), (0, "a", 1, *stress), (0, "a", 1, *memory)
    )
    assert effects(steps) == [
        Limit("a-1", 3.0, 512 * 2**20),
        Limit("a-1", 4.5, 512 * 2**20),
        Stress("a-1", 2.25, 3000),
        Limit("a-1", 4.5, 2**30),
    ]


def test_more_instances_than_there_are_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="position 1: of b there are 1 then, not 2"):
        timetable((0, "b", 1, *DOWN), (0, "b", 2, "command", {"command": "ls"}))


def test_an_unknown_scenario_is_refused() -> None:
    city = with_actions()
    with pytest.raises(NotFoundError, match="no scenario called war"):
        _timetable(city, plan(city), "war")
