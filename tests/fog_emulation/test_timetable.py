"""Timetables of scenarios: times, effects and nodes."""

from typing import Any

import pytest

from fog_emulation.plan import plan
from fog_emulation.timetable import (
    Effect,
    LimitNode,
    RunCommand,
    ScenarioStep,
    ShapeDirection,
    StartNode,
    StopNode,
    StressNode,
)
from fog_emulation.timetable import timetable as _timetable
from fog_emulation.topology import Direction, Shape
from mistbow.errors import InvalidRequestError, NotFoundError
from tests.fog_emulation.cities import with_actions

UP = ("horizontal_scaling", {"type": "up"})
DOWN = ("horizontal_scaling", {"type": "down"})


def timetable(*actions: tuple[int, str, int, str, dict[str, Any]]) -> tuple[ScenarioStep, ...]:
    city = with_actions(*actions)
    return _timetable(city, plan(city, reference_mhz=1000), "story", reference_mhz=1000)


def effects(steps: tuple[ScenarioStep, ...]) -> list[Effect]:
    return [effect for step in steps for effect in step.effects]


def test_timetable_adds_times_of_actions() -> None:
    steps = timetable(
        (5, "a", 1, "command", {"command": "ls"}),
        (0, "a", 1, "command", {"command": "df"}),
        (10, "b", 2, "command", {"command": "ps"}),
    )
    assert [step.at_s for step in steps] == [5, 5, 15]
    assert steps[2].effects == (RunCommand("b-1", "ps"), RunCommand("b-2", "ps"))


def test_network_action_shapes_both_directions() -> None:
    cut = {"network": "net", "bidirectional": {"drop": "100%"}}
    assert effects(timetable((0, "a", 1, "network", cut))) == [
        ShapeDirection(Direction("net", "a-1", way, Shape(loss=1.0))) for way in ("up", "down")
    ]


def test_scaling_removes_youngest_and_reuses_its_name() -> None:
    steps = timetable((0, "b", 1, *DOWN), (0, "b", 2, *UP), (0, "b", 3, *DOWN))
    assert steps[0].effects == (StopNode("b-2"),)
    assert [each.node.name for each in effects(steps) if isinstance(each, StartNode)] == [
        "b-2",
        "b-3",
    ]
    assert {each.node for each in steps[2].effects if isinstance(each, StopNode)} == {
        "b-1",
        "b-2",
        "b-3",
    }


def test_added_node_has_directions() -> None:
    (start,) = effects(timetable((0, "b", 1, *UP)))
    assert isinstance(start, StartNode)
    assert [(each.node, each.way) for each in start.directions] == [("b-3", "up"), ("b-3", "down")]


def test_limits_accumulate_and_stress_is_relative_to_them() -> None:
    more = ("vertical_scaling", {"cpu": "+50"})
    stress = ("stress", {"cpu": 50, "duration": "3s"})
    memory = ("vertical_scaling", {"memory": "1G"})
    steps = timetable(
        (0, "a", 1, *more), (0, "a", 1, *more), (0, "a", 1, *stress), (0, "a", 1, *memory)
    )
    assert effects(steps) == [
        LimitNode("a-1", 3.0, 512 * 2**20),
        LimitNode("a-1", 4.5, 512 * 2**20),
        StressNode("a-1", 2.25, 3000),
        LimitNode("a-1", 4.5, 2**30),
    ]


def test_timetable_rejects_more_instances_than_running() -> None:
    with pytest.raises(
        InvalidRequestError, match="position 1: only 1 instances of b run then, not 2"
    ):
        timetable((0, "b", 1, *DOWN), (0, "b", 2, "command", {"command": "ls"}))


def test_timetable_rejects_unknown_scenario() -> None:
    city = with_actions()
    with pytest.raises(NotFoundError, match="no scenario called war"):
        _timetable(city, plan(city), "war")
