"""A scenario runs by its timetable on a fog that stands."""

from mistbow.fog_emulation.measure import measure
from mistbow.fog_emulation.parts import Shape
from mistbow.fog_emulation.plan import plan
from mistbow.fog_emulation.scenario import Done, run_scenario
from mistbow.fog_emulation.timetable import Connect, Limit, Start, Stop, timetable
from tests.mistbow.fog_emulation.cities import with_actions
from tests.mistbow.fog_emulation.namespaces import fog_of, needs_namespaces, standing

CUT = {"network": "net", "bidirectional": {"drop": "100%"}}
HEAL: dict[str, object] = {"network": "net", "bidirectional": {}}


@needs_namespaces
def test_steps_are_done_in_time_and_a_failure_stops_none() -> None:
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

    with standing(fog_of({})) as fog:

        def look(done: Done) -> None:
            if isinstance(done.effect, Connect):
                found = measure(fog, [], "net", "a-1", "b-1", probes=20).found
                lost.append(found.loss)

        steps = timetable(city, plan(city), "story")
        done = run_scenario(fog, steps, clock=lambda: now[0], sleep=sleep, report=look)
    assert [each.at for each in done] == [61_000, 61_000, 66_000, 91_000, 91_000, 101_000, 111_000]
    # Way by way: packets from a-1 pass as soon as its way up is healed.
    assert lost == [1.0, 1.0, 0.0, 0.0]
    failed = [each for each in done if each.error]
    assert [type(each.effect) for each in failed] == [Limit]
    assert [type(each.effect) for each in done[-2:]] == [Stop, Start]
    assert isinstance(done[0].effect, Connect)
    assert done[0].effect.direction.shape == Shape(loss=1.0)
