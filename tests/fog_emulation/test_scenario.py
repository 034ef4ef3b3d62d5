"""A scenario on a running fog."""

from fog_emulation import model
from fog_emulation.measure import measure
from fog_emulation.plan import plan
from fog_emulation.scenario import EffectOutcome, run_scenario
from fog_emulation.timetable import LimitNode, ShapeDirection, StartNode, StopNode, timetable
from fog_emulation.topology import Shape
from tests.fog_emulation.cities import FILES, with_actions
from tests.fog_emulation.conftest import RunFog
from tests.fog_emulation.namespaces import fog_of, needs_namespaces
from tests.support.fog_scenarios import SCENARIOS

CUT = {"network": "net", "bidirectional": {"drop": "100%"}}
HEAL: dict[str, object] = {"network": "net", "bidirectional": {}}


def test_make_scenarios_runs_all_scenarios_of_all_files() -> None:
    assert {(each.file, each.name) for each in SCENARIOS} == {
        (file.stem, scenario.name) for file in FILES for scenario in model.load(file).scenarios
    }


@needs_namespaces
def test_run_scenario_applies_steps_in_time_and_continues_after_failure(run_fog: RunFog) -> None:
    city = with_actions(
        (60, "a", 1, "network", CUT),
        (5, "a", 1, "vertical_scaling", {"cpu": "+50"}),
        (25, "a", 1, "network", HEAL),
        (10, "b", 1, "horizontal_scaling", {"type": "down"}),
        (10, "b", 1, "horizontal_scaling", {"type": "up"}),
    )
    now = [1000]
    lost: list[float] = []

    def sleep(seconds: float) -> None:
        now[0] += round(seconds * 1000)

    with run_fog(fog_of({})) as fog:

        def look(done: EffectOutcome) -> None:
            if isinstance(done.effect, ShapeDirection):
                found = measure(fog, [], "net", "a-1", "b-1", probes=20).found
                lost.append(found.loss)

        steps = timetable(city, plan(city), "story")
        done = run_scenario(fog, steps, clock=lambda: now[0], sleep=sleep, report=look)
    assert [each.at for each in done] == [61_000, 61_000, 66_000, 91_000, 91_000, 101_000, 111_000]
    # Directions change one by one: packets from a-1 pass when its way up is restored.
    assert lost == [1.0, 1.0, 0.0, 0.0]
    failed = [each for each in done if each.error]
    assert [type(each.effect) for each in failed] == [LimitNode]
    assert [type(each.effect) for each in done[-2:]] == [StopNode, StartNode]
    assert isinstance(done[0].effect, ShapeDirection)
    assert done[0].effect.direction.shape == Shape(loss=1.0)
